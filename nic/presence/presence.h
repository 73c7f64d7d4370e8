// SPDX-License-Identifier: Apache-2.0
// The process's view of our devices in the file system: which path of the program is ours, and
// where the snapshot on disk has it.
//
// Threads: any. A mutex inside is held for the copy of a pointer only. In a fork's child it is
//   free.
// Errors: resolve() never fails. If there is no memory, no snapshot can be made or nothing was
//   installed, no path is ours.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <memory>
#include <string>

#include "nic/presence/facts.h"
#include "nic/presence/path.h"
#include "nic/presence/tree.h"

namespace verbena::presence {

// Sets where the facts come from; before that, no path is ours. `source` lives for ever.
void install(const Source& source);
// The installed source, or null.
const Source* installed();

// While one exists, no path is ours for this thread: the real libibverbs must see real devices
// only, and our own work must not come back to us.
class Unseen {
public:
	Unseen() { ++depth_; }
	~Unseen() { --depth_; }
	Unseen(const Unseen&) = delete;
	Unseen& operator=(const Unseen&) = delete;

	static bool here() { return depth_ > 0; }

private:
	static inline constinit thread_local int depth_ = 0;
};

// The tree, and the snapshot of it.
struct View {
	Tree tree;
	std::uint64_t hash = 0;
	std::string root;  // the folder of the snapshot
	uid_t user = 0;  // the effective user that can read it
};

struct Target {
	enum class Where {
		untouched,  // make the program's call as it is
		system,  // make it with `path`
		ours,  // `path` is in the snapshot
		failed,  // the call fails with `error`
	};
	Where where = Where::untouched;
	std::string path;
	int error = 0;
	bool missing = false;  // with `system`: our folder has no entry of this name
	std::string canonical;  // with `ours`: the path that the program may see
	Kind kind = Kind::folder;  // with `ours`
	std::uint32_t number = 0;  // N, if it is a device
	std::string counter;  // if it is a live file: "DEVICE/FOLDER/COUNTER"
};

// Finds what `path` names, relative to the folder `dirfd`. `follow`: a link at the end counts as
// what it leads to.
Target resolve(int dirfd, const char* path, bool follow) noexcept;

// True after the program got a descriptor of one of our folders. From then on a path that is
// relative to any descriptor may be ours.
inline constinit std::atomic<bool> folder_given{false};
// True after the program made one of our folders its working folder: any relative path may be ours.
inline constinit std::atomic<bool> working_folder_given{false};

// False for almost every path: then the program's call is none of our business.
inline bool may_concern_us(int dirfd, const char* path) noexcept {
	if (may_be_ours(path)) return true;
	const auto& given = dirfd == AT_FDCWD ? working_folder_given : folder_given;
	return given.load(std::memory_order_relaxed) && path && path[0] != '/' && path[0] != '\0';
}
inline bool may_concern_us(const char* path) noexcept { return may_concern_us(AT_FDCWD, path); }

// To be called when the working folder has changed.
void note_working_folder() noexcept;

// The path that the program may see instead of `path`, if that lies in a snapshot; otherwise empty.
std::string visible_path(std::string_view path) noexcept;

// Opens a live file for reading. -1 with errno.
int open_live(const std::string& counter, int flags) noexcept;

}  // namespace verbena::presence
