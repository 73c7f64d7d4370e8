// SPDX-License-Identifier: Apache-2.0
// The files, folders and links that show our devices, and the walk of a path through them.
//
// A tree is a value. Its paths are absolute and canonical: "/sys/class/infiniband/vb_eth0".
//
// Threads: any may read a tree that no thread changes.
// Invariants: the folder of each entry is an entry as well, of kind `folder` or `passage`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace verbena::presence {

enum class Kind {
	folder,
	passage,  // a folder that the system has too; a path that ends in one is not ours
	file,
	live,  // a file whose text is made when it is read
	unreadable,  // a file that can be opened, but fails with EINVAL when read
	link,
	device,  // a character device
	system,  // an entry of one of our folders that belongs to the system
};

struct Entry {
	Kind kind = Kind::folder;
	// file: its content; link: its target; live: "DEVICE/FOLDER/COUNTER"
	std::string text;
	std::uint32_t number = 0;  // device: N of uverbsN

	friend bool operator==(const Entry&, const Entry&) = default;
};

// The end of a walk.
struct Place {
	// The path with all links resolved that the walk followed. A path that leaves the tree goes
	// on in the system.
	std::string path;
	const Entry* entry = nullptr;  // null: the path leads out of the tree
	bool missing = false;  // the folder is ours, and has no entry of this name
	int error = 0;  // ELOOP or ENOTDIR: the walk failed
};

class Tree {
public:
	// Adds an entry and the folders above it that are missing.
	void add(std::string path, Entry entry);
	// An entry, or null.
	const Entry* find(std::string_view path) const;
	// Walks an absolute path. A link at the end of the path is followed if `follow` or if a slash
	// comes after it.
	Place walk(std::string_view path, bool follow) const;

	const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
	// Equal trees have equal values, in each process. A change of its inputs needs a new version.
	std::uint64_t hash() const;

private:
	std::map<std::string, Entry, std::less<>> entries_;  // a folder comes before what is in it
};

}  // namespace verbena::presence
