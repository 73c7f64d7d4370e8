// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <map>

#include "base/private_folder.h"

namespace verbena::presence {
namespace {

// Part of each name, so that a NIC with other formats does not take our snapshots for its own.
constexpr std::string_view name_prefix = "v1-";
constexpr std::size_t name_length = name_prefix.size() + 16;
constexpr std::size_t kept_max = 8;  // snapshots that are never removed
constexpr time_t kept_seconds = 600;  // a snapshot that was used since stays as well

class File {
public:
	explicit File(int fd) : fd_(fd) {}
	~File() {
		if (fd_ >= 0) close(fd_);
	}
	File(const File&) = delete;
	File& operator=(const File&) = delete;
	int fd() const { return fd_; }
	explicit operator bool() const { return fd_ >= 0; }

private:
	int fd_;
};

int open_folder(int at, const char* path) { return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

std::string name_of(const Tree& tree) {
	char hash[17];
	std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(tree.hash()));
	return std::string(name_prefix) + hash;
}

bool is_snapshot_name(std::string_view name) { return name.size() == name_length && name.starts_with(name_prefix); }

bool write_file(int root, const char* path, std::string_view content) {
	const File file(openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444));
	return file && write(file.fd(), content.data(), content.size()) == static_cast<ssize_t>(content.size());
}

// Makes the name of a character device. Linux lets every user make one with the number 0:0, which
// cannot be opened; where it does not, a link to a harmless device takes the place.
bool make_node(int root, const char* path) {
	return mknodat(root, path, S_IFCHR | 0666, makedev(0, 0)) == 0 || symlinkat("/dev/null", root, path) == 0;
}

class Builder {
public:
	explicit Builder(int root) : root_(root) {}

	bool add(const std::string& absolute, const Entry& entry) {
		const char* path = absolute.c_str() + 1;
		switch (entry.kind) {
			case Kind::folder:
			case Kind::passage: return mkdirat(root_, path, 0755) == 0;
			case Kind::file: return add_file(path, entry.text);
			case Kind::live: return add_file(path, "0\n");
			case Kind::unreadable: return add_file(path, "");
			case Kind::link: return symlinkat(entry.text.c_str(), root_, path) == 0;
			case Kind::device: return make_node(root_, path);
			case Kind::system: return symlinkat(absolute.c_str(), root_, path) == 0;
		}
		return false;
	}

private:
	// A device has hundreds of files with the content of an empty GID: they are one file with
	// many names.
	bool add_file(const char* path, const std::string& content) {
		const auto same = files_.find(content);
		if (same != files_.end() && linkat(root_, same->second.c_str(), root_, path, 0) == 0) return true;
		files_[content] = path;
		return write_file(root_, path, content);
	}

	int root_;
	std::map<std::string, std::string> files_;  // content -> a path with this content
};

// Removes a folder and everything in it.
void remove_folder(int at, const char* name) {
	if (unlinkat(at, name, 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
	const int fd = open_folder(at, name);
	if (fd < 0) return;
	DIR* folder = fdopendir(fd);
	if (!folder) {
		close(fd);
		return;
	}
	while (const dirent* entry = readdir(folder))
		if (const std::string_view inner = entry->d_name; inner != "." && inner != "..")
			remove_folder(fd, entry->d_name);
	closedir(folder);
	unlinkat(at, name, AT_REMOVEDIR);
}

// Removes snapshots that no process has used for a while, and what is left of builders that died.
void remove_old(int home) {
	struct Old {
		std::string name;
		time_t used;
	};
	std::vector<Old> found;
	const int fd = open_folder(home, ".");
	DIR* folder = fd < 0 ? nullptr : fdopendir(fd);
	if (!folder) return;
	while (const dirent* entry = readdir(folder)) {
		struct stat status;
		std::string_view name = entry->d_name;
		if (name.starts_with('.')) name.remove_prefix(1);
		if (!is_snapshot_name(name.substr(0, name_length))) continue;
		if (fstatat(home, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0)
			found.push_back({entry->d_name, status.st_mtime});
	}
	closedir(folder);
	std::ranges::sort(found, std::greater{}, &Old::used);
	const time_t now = time(nullptr);
	for (std::size_t i = kept_max; i < found.size(); ++i)
		if (now - found[i].used > kept_seconds) remove_folder(home, found[i].name.c_str());
}

// Marks a snapshot as used. True if it exists.
bool touch(int home, const char* name) { return utimensat(home, name, nullptr, AT_SYMLINK_NOFOLLOW) == 0; }

bool build(int home, const std::string& name, const Tree& tree) {
	timespec now{};
	clock_gettime(CLOCK_MONOTONIC, &now);
	const std::string aside = '.' + name + '.' + std::to_string(getpid()) + '.' + std::to_string(now.tv_nsec);
	if (mkdirat(home, aside.c_str(), 0755) != 0) return false;
	bool built;
	{
		const File root(open_folder(home, aside.c_str()));
		Builder builder(root.fd());
		built = root && std::ranges::all_of(tree.entries(), [&](const auto& named) {
			return builder.add(named.first, named.second);
		});
	}
	if (built && renameat(home, aside.c_str(), home, name.c_str()) == 0) return true;
	remove_folder(home, aside.c_str());
	return built && touch(home, name.c_str());  // another process was faster
}

}  // namespace

std::vector<std::string> snapshot_homes() { return private_folders(); }

std::string make_snapshot(const Tree& tree, const std::vector<std::string>& homes) {
	const std::string name = name_of(tree);
	for (const std::string& home : homes) {
		const File folder(open_private_folder(home));
		if (!folder) continue;
		if (touch(folder.fd(), name.c_str())) return home + '/' + name;
		const bool built = build(folder.fd(), name, tree);
		remove_old(folder.fd());
		if (built) return home + '/' + name;
	}
	return "";
}

std::string_view inside_snapshot(std::string_view path, const std::vector<std::string>& homes) {
	for (const std::string& home : homes) {
		if (!path.starts_with(home) || path.size() < home.size() + 1 + name_length || path[home.size()] != '/')
			continue;
		if (!is_snapshot_name(path.substr(home.size() + 1, name_length))) continue;
		const std::string_view rest = path.substr(home.size() + 1 + name_length);
		if (rest.empty() || rest.starts_with('/')) return rest.empty() ? "/" : rest;
	}
	return {};
}

}  // namespace verbena::presence
