// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/peer_access.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

namespace verbena::engine {
namespace {

constexpr std::size_t megabyte = 1 << 20;

Descriptor pidfd_of(pid_t process) { return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0))); }

// This process plays its own peer.
class Access : public testing::Test {
protected:
	Access() : file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)), pidfd(pidfd_of(getpid())) {
		EXPECT_EQ(ftruncate(file.get(), megabyte), 0);
		at = static_cast<char*>(mmap(nullptr, megabyte, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
		EXPECT_NE(at, MAP_FAILED);
		struct stat facts{};
		fstat(file.get(), &facts);
		inode = facts.st_ino;
	}
	~Access() override { munmap(at, megabyte); }
	void seal() { EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0); }
	std::byte* map(PeerAccess& access, std::uint64_t offset, std::uint32_t length, bool writable = true) {
		return access.map(inode, static_cast<std::uint32_t>(file.get()), offset, length, writable);
	}

	std::unique_ptr<memory::RightsTable> table = std::make_unique<memory::RightsTable>();
	std::atomic<std::uint64_t> word{0};
	Descriptor file, pidfd;
	char* at = nullptr;
	std::uint64_t inode = 0;
	PeerAccess access{*table, word, 1, getpid(), pidfd.get()};
};

TEST_F(Access, StoresInThePeersFileReachThePeer) {
	seal();
	std::byte* const mapped = map(access, 5000, 8);
	ASSERT_NE(mapped, nullptr);
	std::memcpy(mapped, "written", 8);
	EXPECT_STREQ(at + 5000, "written");
	EXPECT_EQ(map(access, 5008, 8), mapped + 8);
	EXPECT_NE(map(access, 5000, 8, false), nullptr);
}

TEST_F(Access, ARangeOutsideOfTheFileIsNotMapped) {
	seal();
	ASSERT_NE(map(access, megabyte - 8, 8), nullptr);
	EXPECT_EQ(map(access, ~std::uint64_t{0} - 3, 8), nullptr);
	PeerAccess other{*table, word, 1, getpid(), pidfd.get()};
	EXPECT_EQ(map(other, megabyte - 7, 8), nullptr);
}

TEST_F(Access, AFileWhoseSizeCanChangeIsNotWritten) {
	EXPECT_EQ(map(access, 0, 8), nullptr);
	EXPECT_NE(map(access, 0, 8, false), nullptr);
	seal();
	EXPECT_EQ(map(access, 0, 8), nullptr) << "a refused file is not tried again";
}

TEST_F(Access, ReadsOrdinaryMemoryIntoSeveralPieces) {
	const char source[] = "0123456789abcdef";
	char first[4], second[12];
	const iovec pieces[] = {{first, sizeof first}, {second, sizeof second}};
	ASSERT_TRUE(access.read(reinterpret_cast<std::uint64_t>(source), pieces, 16));
	EXPECT_EQ(std::memcmp(first, source, 4), 0);
	EXPECT_EQ(std::memcmp(second, source + 4, 12), 0);
}

TEST_F(Access, AMissingPageIsAFailureOfThisReadAlone) {
	char byte = 0;
	const iovec piece{&byte, 1};
	void* const gone = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_FALSE(access.read(reinterpret_cast<std::uint64_t>(gone), {&piece, 1}, 1));
	munmap(gone, 4096);
	const char source = 'x';
	EXPECT_TRUE(access.read(reinterpret_cast<std::uint64_t>(&source), {&piece, 1}, 1));
	EXPECT_EQ(byte, 'x');
}

TEST_F(Access, AProcessThatHasEndedIsNotRead) {
	const char source = 'x';
	char byte = 0;
	const iovec piece{&byte, 1};
	const pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	const Descriptor end = pidfd_of(child);
	PeerAccess of_child{*table, word, 1, child, end.get()};
	EXPECT_TRUE(of_child.read(reinterpret_cast<std::uint64_t>(&source), {&piece, 1}, 1));
	kill(child, SIGKILL);
	ASSERT_EQ(waitpid(child, nullptr, 0), child);
	EXPECT_FALSE(of_child.read(reinterpret_cast<std::uint64_t>(&source), {&piece, 1}, 1));
	// The number of the child may belong to another process, here to this one; its pidfd does not.
	PeerAccess reused{*table, word, 1, getpid(), end.get()};
	EXPECT_FALSE(reused.read(reinterpret_cast<std::uint64_t>(&source), {&piece, 1}, 1));
}

TEST_F(Access, APeerWithoutANumberHereIsNotReachable) {
	PeerAccess stranger{*table, word, 1, 0, -1};
	EXPECT_FALSE(stranger.reachable());
	seal();
	EXPECT_EQ(map(stranger, 0, 8), nullptr);
}

}  // namespace
}  // namespace verbena::engine
