// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/shared_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <cstring>
#include <string>

namespace verbena::engine {
namespace {

constexpr std::size_t mib = 1 << 20;

struct File {
	explicit File(std::size_t bytes) : descriptor(memfd_create("test", MFD_CLOEXEC)), bytes(bytes) {
		EXPECT_EQ(ftruncate(descriptor.get(), static_cast<off_t>(bytes)), 0);
		at = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0));
		EXPECT_NE(at, MAP_FAILED);
	}
	~File() { munmap(at, bytes); }
	std::uint64_t inode() const {
		struct stat file{};
		fstat(descriptor.get(), &file);
		return file.st_ino;
	}
	wire::SharedPayload shared(std::uint64_t offset = 0) const {
		return {.file = inode(), .offset = offset, .descriptor = static_cast<std::uint32_t>(descriptor.get())};
	}

	Descriptor descriptor;
	std::size_t bytes;
	char* at = nullptr;
};

TEST(Backing, OfSharedMemoryIsItsFileAndThePlaceInIt) {
	const File file(mib);
	const auto backing = find_backing(file.at + 4096, 8192);
	ASSERT_TRUE(backing);
	EXPECT_EQ(backing->file.file, file.inode());
	EXPECT_EQ(backing->file.offset, 4096u);
	EXPECT_EQ(backing->file.descriptor, static_cast<std::uint32_t>(backing->descriptor.get()));
	EXPECT_NE(backing->descriptor.get(), file.descriptor.get());
}

TEST(Backing, CountsFromTheBeginningOfTheFileAndNotOfTheMapping) {
	const File file(mib);
	void* const part = mmap(nullptr, 65536, PROT_READ, MAP_SHARED, file.descriptor.get(), 131072);
	ASSERT_NE(part, MAP_FAILED);
	const auto backing = find_backing(static_cast<char*>(part) + 100, 1000);
	ASSERT_TRUE(backing);
	EXPECT_EQ(backing->file.offset, 131172u);
	munmap(part, 65536);
}

TEST(Backing, IsNoneForPrivateMemoryAndWhatReachesBeyondItsMapping) {
	const File file(mib);
	EXPECT_FALSE(find_backing(file.at, mib + 1));
	void* const anonymous = mmap(nullptr, mib, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_FALSE(find_backing(anonymous, 4096));
	munmap(anonymous, mib);
	void* const copied = mmap(nullptr, mib, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
	EXPECT_FALSE(find_backing(copied, 4096));
	munmap(copied, mib);
	EXPECT_FALSE(find_backing(nullptr, 4096));
}

TEST(Backing, IsNoneIfTheProgramHasClosedTheFile) {
	File file(mib);
	file.descriptor = Descriptor();
	EXPECT_FALSE(find_backing(file.at, 4096));
}

TEST(Backing, IsFoundByTheNameOfItsFile) {
	const std::string name = "/verbena-test-" + std::to_string(getpid());
	Descriptor named(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
	ASSERT_TRUE(named);
	ASSERT_EQ(ftruncate(named.get(), mib), 0);
	void* const at = mmap(nullptr, mib, PROT_READ, MAP_SHARED, named.get(), 0);
	ASSERT_NE(at, MAP_FAILED);
	named = Descriptor();
	EXPECT_TRUE(find_backing(at, mib));
	shm_unlink(name.c_str());
	EXPECT_FALSE(find_backing(at, mib));
	munmap(at, mib);
}

TEST(Backing, IsNoneForAFileThatIsNotMemory) {
	const Descriptor program(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	ASSERT_TRUE(program);
	struct statfs where{};
	ASSERT_EQ(fstatfs(program.get(), &where), 0);
	void* const at = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, program.get(), 0);
	ASSERT_NE(at, MAP_FAILED);
	// The build folder may itself be a tmpfs.
	EXPECT_EQ(find_backing(at, 4096).has_value(), where.f_type == TMPFS_MAGIC);
	munmap(at, 4096);
}

// Debian 12's kernel, 6.1, has no such ioctl, only /proc/self/maps.
TEST(Backing, IsTheSameByTheListOfMappings) {
	const File file(mib);
	int local = 0;
	const auto here = reinterpret_cast<std::uint64_t>(file.at);
	const auto listed = detail::look_up_mapping(here + 5000);
	ASSERT_TRUE(listed);
	EXPECT_EQ(listed->begin, here);
	EXPECT_GE(listed->end, here + mib);
	EXPECT_EQ(listed->inode, file.inode());
	EXPECT_EQ(listed->offset, 0u);
	EXPECT_EQ(listed->path, "/memfd:test (deleted)");
	void* const copied = mmap(nullptr, mib, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
	EXPECT_FALSE(detail::look_up_mapping(reinterpret_cast<std::uint64_t>(copied)));
	EXPECT_FALSE(detail::look_up_mapping(reinterpret_cast<std::uint64_t>(&local)));
	EXPECT_FALSE(detail::look_up_mapping(0));
	EXPECT_FALSE(detail::look_up_mapping(~std::uint64_t{0}));
	munmap(copied, mib);
	bool answered = false;
	const auto asked = detail::ask_mapping(here + 5000, answered);
	if (answered) {
		EXPECT_EQ(asked, listed);
	}
}

TEST(PeerFiles, ReadsWhatAnotherProcessHasInAFile) {
	const File file(mib);
	std::strcpy(file.at + 5000, "from the parent");
	const pid_t parent = getpid();
	const wire::SharedPayload shared = file.shared(5000);
	const pid_t child = fork();
	if (child == 0) {
		PeerFiles files(parent);
		const std::byte* const at = files.find(shared, 16);
		_exit(at != nullptr && std::strcmp(reinterpret_cast<const char*>(at), "from the parent") == 0 ? 0 : 1);
	}
	int status = -1;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

TEST(PeerFiles, MapAFileOnceAndAgainWhenItHasGrown) {
	const File file(mib);
	PeerFiles files(getpid());
	const std::byte* const first = files.find(file.shared(), 4096);
	ASSERT_NE(first, nullptr);
	EXPECT_EQ(files.find(file.shared(8192), 4096), first + 8192);
	EXPECT_EQ(files.find(file.shared(mib - 1), 2), nullptr);
	ASSERT_EQ(ftruncate(file.descriptor.get(), 2 * mib), 0);
	EXPECT_NE(files.find(file.shared(mib - 1), 2), nullptr);
}

TEST(PeerFiles, RefuseWhatIsNotTheFileThatIsMeant) {
	const File file(mib);
	PeerFiles files(getpid());
	wire::SharedPayload shared = file.shared();
	++shared.file;
	EXPECT_EQ(files.find(shared, 1), nullptr);
	shared = file.shared();
	shared.descriptor = 1'000'000;
	EXPECT_EQ(files.find(shared, 1), nullptr);
	EXPECT_EQ(files.find(file.shared(~std::uint64_t{0} - 1), 4), nullptr);

	const Descriptor pipe(open("/dev/null", O_RDWR | O_CLOEXEC));
	struct stat other{};
	ASSERT_EQ(fstat(pipe.get(), &other), 0);
	EXPECT_EQ(files.find({.file = other.st_ino, .offset = 0, .descriptor = static_cast<std::uint32_t>(pipe.get())}, 1),
		nullptr);
}

TEST(PeerFiles, WithoutAPeerAreUnreachable) {
	const File file(mib);
	PeerFiles none(0);
	EXPECT_FALSE(none.reachable());
	EXPECT_EQ(none.find(file.shared(), 1), nullptr);
	EXPECT_FALSE(PeerFiles(1 << 30).reachable());
	EXPECT_TRUE(PeerFiles(getpid()).reachable());
}

}  // namespace
}  // namespace verbena::engine
