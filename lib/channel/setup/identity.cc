// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/descriptor.h"
#include "lib/channel/setup/openssl.h"
#include "lib/channel/setup/private_file.h"

namespace verbena::channel {
namespace {

constexpr off_t file_size_max = 64 << 10;

std::unexpected<std::string> failed(const std::string& what, int error) {
	return std::unexpected(what + ": " + std::strerror(error));
}

// The mode as chmod(1) takes it.
std::string octal(mode_t mode) {
	char text[8];
	std::snprintf(text, sizeof text, "%04o", mode & 07777u);
	return text;
}

std::expected<void, std::string> check_owner(const std::string& path, const struct stat& status, uid_t owner) {
	if (status.st_uid == owner) return {};
	return std::unexpected(path + " belongs to uid " + std::to_string(status.st_uid) +
		", and this program runs as uid " + std::to_string(owner) +
		": set XDG_CONFIG_HOME to a folder of this user's own");
}

// Others who can write there could replace this user's key by theirs.
std::expected<void, std::string> check_folder(const std::string& folder, uid_t owner) {
	struct stat status;
	if (stat(folder.c_str(), &status) != 0) return failed("cannot look at " + folder, errno);
	if (!S_ISDIR(status.st_mode)) return std::unexpected(folder + " is not a folder: move it away");
	if (const auto good = check_owner(folder, status, owner); !good) return good;
	if (status.st_mode & 022)
		return std::unexpected(
			folder + " has mode " + octal(status.st_mode) + ", so others may write there: chmod 700 " + folder);
	return {};
}

std::expected<std::string, std::string> read_private(int fd, const std::string& path, uid_t owner) {
	struct stat status;
	if (fstat(fd, &status) != 0) return failed("cannot look at " + path, errno);
	if (!S_ISREG(status.st_mode)) return std::unexpected(path + " is not a file: move it away");
	if (const auto good = check_owner(path, status, owner); !good) return std::unexpected(good.error());
	if (status.st_mode & 077)
		return std::unexpected(path + " has mode " + octal(status.st_mode) +
			", so others may know its key: delete it (a new one is made), or chmod 600 if none of them has read it");
	if (status.st_size > file_size_max) return std::unexpected(path + " is too large for an identity: move it away");
	std::string text(static_cast<std::size_t>(status.st_size), '\0');
	for (std::size_t done = 0; done < text.size();) {
		const ssize_t got = pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return failed("cannot read " + path, got < 0 ? errno : EIO);
		done += static_cast<std::size_t>(got);
	}
	return text;
}

// One file holds the key and the certificate, so that they cannot be separated.
std::expected<Credential, std::string> parse(const std::string& text, const std::string& path) {
	const ossl::Certificate certificate = ossl::read_certificate(text);
	const ossl::Key key = ossl::read_key(text);
	const bool pair = certificate && key && X509_check_private_key(certificate.get(), key.get()) == 1;
	ERR_clear_error();
	if (!pair) return std::unexpected(path + " is not a key and its certificate: move it away, and a new one is made");
	return Credential{text, text};
}

}  // namespace

std::expected<std::optional<Identity>, std::string> find_identity(const std::string& folder, uid_t owner) {
	const std::string path = folder + "/" + identity_file;
	const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
	if (!file) {
		if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
		if (errno == ELOOP) return std::unexpected(path + " is a symbolic link: put the file itself there");
		return failed("cannot open " + path, errno);
	}
	if (const auto good = check_folder(folder, owner); !good) return std::unexpected(good.error());
	const auto text = read_private(file.get(), path, owner);
	if (!text) return std::unexpected(text.error());
	auto credential = parse(*text, path);
	if (!credential) return std::unexpected(credential.error());
	return Identity{std::move(*credential), path};
}

std::expected<Identity, std::string> find_or_create_identity(const std::string& folder, uid_t owner) {
	auto found = find_identity(folder, owner);
	if (!found) return std::unexpected(found.error());
	if (*found) return std::move(**found);

	std::error_code error;
	std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
	if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
	if (error)
		return failed("cannot make the folder " + folder +
				" for this user's identity (set XDG_CONFIG_HOME to a folder that can be written, or use --ca, --cert "
				"and --key)",
			error.value());
	if (const auto good = check_folder(folder, owner); !good) return std::unexpected(good.error());
	const auto made = make_identity("verbena user identity");
	if (!made) return std::unexpected(made.error());
	// If another process was first, its identity is this user's: the file is read again below.
	const auto written = write_whole(folder + "/" + identity_file, made->key_pem + made->certificate_pem);
	if (!written) return std::unexpected(written.error());

	found = find_identity(folder, owner);
	if (!found) return std::unexpected(found.error());
	if (!*found)
		return std::unexpected(folder + "/" + identity_file + " was made and has been deleted since: try again");
	(*found)->created = *written;
	return std::move(**found);
}

}  // namespace verbena::channel
