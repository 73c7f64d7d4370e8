// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/library_folders.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <cstddef>
#include <fstream>
#include <memory>
#include <string_view>

namespace verbena::verbs {
namespace {

constexpr std::string_view blanks = " \t\r";
constexpr int include_depth_max = 8;  // a file may include itself

std::string_view trimmed(std::string_view text) {
	const std::size_t first = text.find_first_not_of(blanks);
	if (first == text.npos) return "";
	return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> files_matching(std::string pattern, const std::string& included_from) {
	if (!pattern.starts_with('/')) pattern.insert(0, included_from.substr(0, included_from.rfind('/') + 1));
	glob_t found{};
	std::vector<std::string> files;
	if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
	globfree(&found);
	return files;
}

void read_configuration(const std::string& file, int depth, std::vector<std::string>& folders) {
	if (depth == include_depth_max) return;
	std::ifstream lines(file);
	for (std::string line; std::getline(lines, line);) {
		const std::string_view text = trimmed(std::string_view(line).substr(0, line.find('#')));
		if (text.starts_with('/')) {
			// An old form of the line is FOLDER=TYPE.
			folders.emplace_back(trimmed(text.substr(0, text.find('='))));
		} else if (text.starts_with("include") && text.size() > 8) {
			for (const std::string& included : files_matching(std::string(trimmed(text.substr(8))), file))
				read_configuration(included, depth + 1, folders);
		}
	}
}

struct SearchPath {
	std::vector<std::string> before, system;
};

SearchPath search_path(link_map& from) {
	SearchPath path;
	Dl_serinfo size;
	// glibc's handle of a loaded object is its link_map.
	if (dlinfo(&from, RTLD_DI_SERINFOSIZE, &size) != 0) return path;
	const auto bytes = std::make_unique<std::byte[]>(size.dls_size);
	auto* const info = reinterpret_cast<Dl_serinfo*>(bytes.get());
	info->dls_size = size.dls_size;
	info->dls_cnt = size.dls_cnt;
	if (dlinfo(&from, RTLD_DI_SERINFO, info) != 0) return path;
	for (unsigned i = 0; i < info->dls_cnt; ++i) {
		const Dl_serpath& folder = info->dls_serpath[i];
		(folder.dls_flags & LA_SER_DEFAULT ? path.system : path.before).emplace_back(folder.dls_name);
	}
	return path;
}

}  // namespace

std::vector<std::string> library_folders(link_map& from) {
	auto [folders, system] = search_path(from);
	for (std::string& folder : configured_folders("/etc/ld.so.conf")) folders.push_back(std::move(folder));
	// The loader's own default folders differ between distributions; where it does not say them,
	// these are the usual ones.
	for (const char* folder : {"/lib64", "/usr/lib64", "/lib", "/usr/lib"}) system.emplace_back(folder);
	for (std::string& folder : system) folders.push_back(std::move(folder));
	return folders;
}

std::vector<std::string> configured_folders(const std::string& file) {
	std::vector<std::string> folders;
	read_configuration(file, 0, folders);
	return folders;
}

}  // namespace verbena::verbs
