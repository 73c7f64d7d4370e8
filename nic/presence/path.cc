// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/path.h"

#include <span>
#include <string_view>

namespace verbena::presence {
namespace {

// The end of `path` behind `pattern`, or null. A slash of the pattern stands for one or more.
const char* behind(const char* path, std::string_view pattern) noexcept {
	for (const char expected : pattern) {
		if (*path != expected) return nullptr;
		++path;
		if (expected == '/')
			while (*path == '/') ++path;
	}
	return path;
}

bool ends_component(const char* at) noexcept { return *at == '\0' || *at == '/'; }

struct Folder {
	std::string_view path;
	bool verbs;  // a folder with this name and the suffix "_verbs" is ours as well
};

constexpr Folder absolute[] = {
	{"/dev/infiniband", false},
	{"/sys/class/infiniband", true},
	{"/sys/devices/virtual/infiniband", true},
};
constexpr Folder relative[] = {
	{"dev/infiniband", false},
	{"sys/class/infiniband", true},
	{"sys/devices/virtual/infiniband", true},
	{"class/infiniband", true},
	{"devices/virtual/infiniband", true},
	{"virtual/infiniband", true},
	{"infiniband", true},
};

bool matches(std::span<const Folder> folders, const char* path) noexcept {
	for (const Folder& folder : folders) {
		const char* rest = behind(path, folder.path);
		if (!rest) continue;
		if (ends_component(rest)) return true;
		const char* longer = folder.verbs ? behind(rest, "_verbs") : nullptr;
		if (longer && ends_component(longer)) return true;
	}
	return false;
}

}  // namespace

bool is_in_our_folders(const char* path) noexcept { return matches(absolute, path); }
bool may_lead_to_our_folders(const char* path) noexcept { return matches(relative, path); }

}  // namespace verbena::presence
