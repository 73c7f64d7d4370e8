// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/identity_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/private_folder.h"
#include "lib/channel/setup/identity.h"

namespace verbena::channel {
namespace {

constexpr const char* remedy = "set XDG_CONFIG_HOME to a folder that can be written, or use --ca, --cert and --key";

// The user's configuration folder; empty: the environment names none.
std::string configured(const IdentityPlaces& places) {
	if (places.xdg_config_home.starts_with('/')) return places.xdg_config_home + "/verbena";
	if (places.home.starts_with('/')) return places.home + "/.config/verbena";
	return {};
}

bool has_identity(const std::string& folder) {
	struct stat status;
	return lstat((folder + "/" + identity_file).c_str(), &status) == 0;
}

bool can_write(const std::string& path) { return faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0; }

// Returns 0 if files can be made in this folder, or the folder itself and its parents can be; else
// the errno that prevents it. A home that does not exist is not made.
int why_not_writable(std::string path, const IdentityPlaces& places) {
	struct stat status;
	if (!places.xdg_config_home.starts_with('/') && stat(places.home.c_str(), &status) != 0) return errno;
	while (!can_write(path)) {
		if (errno != ENOENT || path == "/") return errno;
		path.resize(std::max<std::size_t>(path.rfind('/'), 1));
	}
	return 0;
}

// Returns whether the folder is this user's alone; makes it if it does not exist.
bool is_private(const std::string& folder) {
	const int fd = open_private_folder(folder);
	return fd >= 0 && close(fd) == 0;
}

std::string foreign_text(const std::vector<std::string>& folders) {
	const auto foreign = foreign_folder(folders);
	if (!foreign) return "there is no private folder";
	return "user id " + std::to_string(foreign->owner) + " has made " + foreign->path + ", so it is not used";
}

}  // namespace

std::expected<std::string, std::string> choose_identity_folder(const IdentityPlaces& places) {
	const std::string first = configured(places);
	const auto& others = places.private_folders;
	if (first.empty() && others.empty())
		return std::unexpected(
			"no folder for this user's identity: set HOME or XDG_CONFIG_HOME, or use --ca, --cert and --key");
	if (others.empty() || (!first.empty() && has_identity(first))) return first;
	const int error = first.empty() ? ENOENT : why_not_writable(first, places);
	const bool named = places.xdg_config_home.starts_with('/');
	if (named && error == 0) return first;
	const auto found = std::ranges::find_if(
		others, [](const std::string& folder) { return has_identity(folder) && is_private(folder); });
	if (found != others.end()) return *found;
	if (error == 0) return first;
	const auto made =
		std::ranges::find_if(others, [](const std::string& folder) { return is_private(folder) && can_write(folder); });
	if (made != others.end()) return *made;
	const std::string why = first.empty() ? "neither HOME nor XDG_CONFIG_HOME is set"
										  : "cannot make the folder " + first + " (" + std::strerror(error) + ")";
	return std::unexpected(
		"no folder for this user's identity: " + why + ", and " + foreign_text(others) + "; " + remedy);
}

}  // namespace verbena::channel
