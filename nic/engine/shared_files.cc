// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/cancellation.h"

namespace verbena::engine {
namespace {

using detail::SharedMapping;

// The definitions of linux/fs.h from Linux 6.11 on, for builds with older headers.
struct ProcMapQuery {
	std::uint64_t size = sizeof(ProcMapQuery), flags = 0, address = 0;
	std::uint64_t begin = 0, end = 0, vma_flags = 0, page_bytes = 0, offset = 0, inode = 0;
	std::uint32_t device_major = 0, device_minor = 0, name_bytes = 0, build_id_bytes = 0;
	std::uint64_t name = 0, build_id = 0;
};
static_assert(sizeof(ProcMapQuery) == 104);
constexpr unsigned long procmap_query = _IOWR('f', 17, ProcMapQuery);
constexpr std::uint64_t vma_shared = 8;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
File open_maps() { return {std::fopen("/proc/self/maps", "re"), std::fclose}; }

bool is_memory(int fd) {
	struct statfs where;
	return fstatfs(fd, &where) == 0 && (where.f_type == TMPFS_MAGIC || where.f_type == HUGETLBFS_MAGIC);
}

// Another part of the program may own `fd`, and close it meanwhile. The thread sanitizer calls that
// a race with fstat(), but does not watch statx().
bool is_file_of(int fd, const SharedMapping& mapping) {
	struct statx file;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &file) != 0 || file.stx_ino != mapping.inode) return false;
	return makedev(file.stx_dev_major, file.stx_dev_minor) == mapping.device && is_memory(fd);
}

// Opens the file anew: by its name, or through a descriptor that the program has open.
Descriptor open_again(const SharedMapping& mapping) {
	if (mapping.path.starts_with('/')) {
		Descriptor named(open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
		if (named && is_file_of(named.get(), mapping)) return named;
	}
	const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/fd"), closedir);
	if (!all) return {};
	while (const dirent* entry = readdir(all.get())) {
		int fd = -1;
		const char* const end = entry->d_name + std::char_traits<char>::length(entry->d_name);
		if (std::from_chars(entry->d_name, end, fd).ptr != end || fd < 0) continue;
		if (!is_file_of(fd, mapping)) continue;
		return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	}
	return {};
}

// A memfd whose size cannot change, as the heap's files are. Without this check a peer could make
// this process write to another program's shared memory that the peer itself may only read.
bool has_sealed_size(int fd) {
	constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
	const int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & wanted) == wanted;
}

std::string descriptor_path(const std::string& process, std::uint32_t descriptor) {
	return "/proc/" + process + "/fd/" + std::to_string(descriptor);
}

}  // namespace

namespace detail {

std::optional<SharedMapping> ask_mapping(std::uint64_t address, bool& answered) {
	answered = false;
	const File maps = open_maps();
	if (!maps) return std::nullopt;
	char name[PATH_MAX] = "";
	ProcMapQuery query{.address = address, .name_bytes = sizeof name, .name = reinterpret_cast<std::uint64_t>(name)};
	answered = ioctl(fileno(maps.get()), procmap_query, &query) == 0 || errno == ENOENT;
	if (!answered || !(query.vma_flags & vma_shared) || query.inode == 0) return std::nullopt;
	return SharedMapping{
		query.begin, query.end, query.offset, query.inode, makedev(query.device_major, query.device_minor), name};
}

std::optional<SharedMapping> look_up_mapping(std::uint64_t address) {
	const File maps = open_maps();
	char line[PATH_MAX + 128];
	while (maps && std::fgets(line, sizeof line, maps.get()) != nullptr) {
		SharedMapping found;
		char permissions[5];
		unsigned device_major = 0, device_minor = 0;
		int name_at = 0;
		if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &found.begin, &found.end,
				permissions, &found.offset, &device_major, &device_minor, &found.inode, &name_at) != 7)
			return std::nullopt;
		if (address >= found.end) continue;
		if (address < found.begin || permissions[3] != 's' || found.inode == 0) return std::nullopt;
		found.device = makedev(device_major, device_minor);
		found.path.assign(line + name_at, std::strcspn(line + name_at, "\n"));
		return found;
	}
	return std::nullopt;
}

}  // namespace detail

std::optional<Backing> find_backing(const void* address, std::size_t length) {
	const auto begin = reinterpret_cast<std::uint64_t>(address);
	bool answered = false;
	auto mapping = detail::ask_mapping(begin, answered);
	if (!answered) mapping = detail::look_up_mapping(begin);
	if (!mapping || length > mapping->end - begin) return std::nullopt;
	Backing backing{.descriptor = open_again(*mapping), .file = {}};
	if (!backing.descriptor) return std::nullopt;
	backing.file = {.file = mapping->inode,
		.offset = mapping->offset + (begin - mapping->begin),
		.descriptor = static_cast<std::uint32_t>(backing.descriptor.get())};
	return backing;
}

PeerFiles::PeerFiles(pid_t peer, For use) : peer_(peer), use_(use) {
	// The kernel checks the same permission here as for the peer's descriptors.
	char ignored;
	reachable_ = peer > 0 && readlink(("/proc/" + std::to_string(peer) + "/exe").c_str(), &ignored, 1) >= 0;
}

PeerFiles::~PeerFiles() {
	for (const Mapping& each : mappings_) munmap(const_cast<std::byte*>(each.begin), each.bytes);
}

const std::byte* PeerFiles::find(const wire::SharedPayload& shared, std::uint32_t length) {
	const std::uint64_t end = shared.offset + length;
	if (end < shared.offset) return nullptr;
	const File found = file(shared.file, shared.descriptor, end);
	return found.begin ? found.begin + shared.offset : nullptr;
}

PeerFiles::File PeerFiles::file(std::uint64_t inode, std::uint32_t descriptor, std::uint64_t end) {
	for (std::size_t i = 0; i < mappings_.size(); ++i) {
		if (mappings_[i].file != inode || end > mappings_[i].bytes) continue;
		if (i > 0) std::swap(mappings_[i], mappings_[i - 1]);
		const Mapping& found = mappings_[i > 0 ? i - 1 : 0];
		return {const_cast<std::byte*>(found.begin), found.bytes};
	}
	const Mapping* const mapping = map(inode, descriptor, end);
	if (!mapping) return {nullptr, 0};
	return {const_cast<std::byte*>(mapping->begin), mapping->bytes};
}

const PeerFiles::Mapping* PeerFiles::map(std::uint64_t inode, std::uint32_t descriptor, std::uint64_t end) {
	if (!reachable_) return nullptr;
	const NotCancellable whole;  // part of a pass
	mappings_.reserve(mappings_max);
	// The file's type is checked before it is opened, because opening can have side effects in
	// other filesystems.
	const Descriptor named(open(descriptor_path(std::to_string(peer_), descriptor).c_str(), O_PATH | O_CLOEXEC));
	struct stat file;
	if (!named || fstat(named.get(), &file) != 0 || !S_ISREG(file.st_mode) || file.st_ino != inode ||
		!is_memory(named.get()))
		return nullptr;
	if (end > static_cast<std::uint64_t>(file.st_size)) return nullptr;
	const bool writing = use_ == For::writing;
	const Descriptor opened(open(descriptor_path("self", static_cast<std::uint32_t>(named.get())).c_str(),
		(writing ? O_RDWR : O_RDONLY) | O_CLOEXEC));
	if (!opened || (writing && !has_sealed_size(opened.get()))) return nullptr;
	const auto bytes = static_cast<std::size_t>(file.st_size);
	void* const at = mmap(nullptr, bytes, PROT_READ | (writing ? PROT_WRITE : 0), MAP_SHARED, opened.get(), 0);
	if (at == MAP_FAILED) return nullptr;
	madvise(at, bytes, MADV_DONTFORK);
	madvise(at, bytes, MADV_HUGEPAGE);
	madvise(at, bytes, MADV_DONTDUMP);  // a core dump would allocate each page of the peer's file
	// Replaces the mapping of a file that has grown, or the one least recently used.
	const auto stale = std::ranges::find(mappings_, inode, &Mapping::file);
	if (stale != mappings_.end() || mappings_.size() == mappings_max) {
		const auto victim = stale != mappings_.end() ? stale : std::prev(mappings_.end());
		munmap(const_cast<std::byte*>(victim->begin), victim->bytes);
		mappings_.erase(victim);
	}
	return &mappings_.emplace_back(inode, static_cast<const std::byte*>(at), bytes);
}

}  // namespace verbena::engine
