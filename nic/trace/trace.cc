// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kept_errno.h"
#include "base/log.h"
#include "base/spin_lock.h"
#include "base/time.h"

namespace verbena::trace {

// The mapped file: the page FileHead, then `capacity` records.
struct detail::Ring {
	FileHead head;
	std::byte unused[FileHead::bytes - sizeof(FileHead)];
	Record records[];
};

namespace {

using detail::Ring;

constexpr std::uint64_t megabyte = 1 << 20;
constexpr std::uint64_t size_default = 16 << 20, size_max = 64 << 20;
// Bytes of one event; those of a longer one are cut off.
constexpr std::size_t event_bytes_max = 16 << 10;
constexpr int names_max = 1000;  // files of one process number: each exec(2) makes another one

constinit SpinLock beginning;  // a second thread must not make a second file

std::uint64_t number_of(const char* name, std::uint64_t otherwise, std::uint64_t most) {
	const char* const given = std::getenv(name);
	if (given == nullptr || *given == '\0') return otherwise;
	return std::min<std::uint64_t>(std::strtoull(given, nullptr, 10), most);
}

// Makes FOLDER/PID-N.trace. The system calls themselves are used, because the NIC interposes
// open().
int make_file(const char* folder) {
	char path[512];
	for (int n = 0; n < names_max; ++n) {
		if (std::snprintf(path, sizeof path, "%s/%d-%d.trace", folder, getpid(), n) >= static_cast<int>(sizeof path)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		const auto fd = static_cast<int>(
			syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
		if (fd >= 0 || errno != EEXIST) return fd;
	}
	return -1;
}

void read_program_name(char (&name)[64]) {
	const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC));
	if (fd < 0) return;
	const long got = syscall(SYS_read, fd, name, sizeof name - 1);
	syscall(SYS_close, fd);
	name[std::max<long>(got, 0)] = '\0';
	if (char* const end = std::strchr(name, '\n')) *end = '\0';
}

// All pages of the file exist before the first record is written: a write to a page that a full
// disk cannot give ends the program by SIGBUS.
Ring* map_ring(int fd, std::uint64_t size) {
	if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(size)); error != 0) {
		errno = error;
		return nullptr;
	}
	void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) return nullptr;
	madvise(memory, size, MADV_DONTFORK);
	return static_cast<Ring*>(memory);
}

Ring* make_ring(const char* folder) {
	const int fd = make_file(folder);
	if (fd < 0) return nullptr;
	const std::uint64_t size = std::max(
		number_of("VERBENA_TRACE_BYTES", size_default, size_max) / FileHead::bytes * FileHead::bytes, megabyte);
	Ring* const ring = map_ring(fd, size);
	const int error = errno;
	syscall(SYS_close, fd);
	errno = error;
	if (ring == nullptr) return nullptr;
	FileHead& head = ring->head;
	head.pid = static_cast<std::uint32_t>(getpid());
	head.packet_bytes = static_cast<std::uint32_t>(number_of("VERBENA_TRACE_PACKETS", 0, event_bytes_max / 2));
	head.capacity = (size - FileHead::bytes) / sizeof(Record);
	head.began = monotonic_now();
	timespec wall;
	clock_gettime(CLOCK_REALTIME, &wall);
	head.epoch =
		static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(wall.tv_nsec) - head.began;
	read_program_name(head.program);
	std::atomic_ref(head.magic).store(FileHead::magic_value, std::memory_order_release);
	return ring;
}

bool given_up = false;  // under `beginning`

constinit thread_local std::uint32_t known_thread = 0;  // 0: not asked yet

std::uint32_t this_thread() {
	if (known_thread == 0) known_thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
	return known_thread;
}

}  // namespace

bool begin() noexcept {
	if (on()) return true;
	const KeptErrno kept;
	const char* const folder = std::getenv("VERBENA_TRACE");
	if (folder == nullptr || *folder == '\0') return false;
	beginning.lock();
	if (!on() && !given_up) {
		Ring* const made = make_ring(folder);
		given_up = made == nullptr;
		if (given_up) log::error("no trace of process %d in %s: %s", getpid(), folder, std::strerror(errno));
		detail::ring.store(made, std::memory_order_release);
	}
	beginning.unlock();
	return on();
}

void abandon_after_fork() noexcept {
	detail::ring.store(nullptr, std::memory_order_relaxed);
	known_thread = 0;
	beginning.unlock();
}

namespace {

// Copies bytes into consecutive records, past the end of the ring to its beginning.
class Bytes {
public:
	Bytes(Ring& ring, std::uint64_t position) : ring_(ring), at_(position * sizeof(Record)) {}
	void append(std::span<const std::byte> bytes) {
		const std::uint64_t size = ring_.head.capacity * sizeof(Record);
		auto* const memory = reinterpret_cast<std::byte*>(ring_.records);
		while (!bytes.empty()) {
			const std::uint64_t to = at_ % size;
			const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), size - to));
			std::memcpy(memory + to, part.data(), part.size());
			at_ += part.size();
			bytes = bytes.subspan(part.size());
		}
	}

private:
	Ring& ring_;
	std::uint64_t at_;
};

std::span<const std::byte> cut(std::span<const std::byte> bytes, std::size_t most) {
	return bytes.first(std::min(bytes.size(), most));
}

}  // namespace

void write(const Record& event, std::span<const std::byte> bytes, std::span<const std::byte> rest) noexcept {
	Ring* const ring = detail::ring.load(std::memory_order_acquire);
	if (ring == nullptr) return;
	bytes = cut(bytes, event_bytes_max);
	rest = cut(rest, event_bytes_max - bytes.size());
	Record record = event;
	record.more = static_cast<std::uint16_t>((bytes.size() + rest.size() + sizeof(Record) - 1) / sizeof(Record));
	if (record.time == 0) record.time = monotonic_now();
	record.thread = this_thread();
	const std::uint64_t at = ring->head.records.fetch_add(1 + record.more, std::memory_order_relaxed);
	ring->head.events.fetch_add(1, std::memory_order_relaxed);
	Record& place = ring->records[at % ring->head.capacity];
	std::atomic_ref(place.sequence).store(0, std::memory_order_relaxed);
	std::atomic_thread_fence(std::memory_order_release);
	Bytes body(*ring, at + 1);
	body.append(bytes);
	body.append(rest);
	record.sequence = 0;
	place = record;
	std::atomic_ref(place.sequence).store(static_cast<std::uint32_t>(at) + 1, std::memory_order_release);
}

void write_text(const Record& record, std::string_view text) noexcept {
	static constexpr std::byte end{0};
	write(record, std::as_bytes(std::span(text)), {&end, 1});
}

std::uint32_t packet_bytes() noexcept {
	const Ring* const ring = detail::ring.load(std::memory_order_acquire);
	return ring ? ring->head.packet_bytes : 0;
}

}  // namespace verbena::trace
