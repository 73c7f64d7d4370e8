// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of this folder: a temporary folder, certificates in files, and two ends
// joined by queues of bytes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "lib/channel/setup/certificate.h"
#include "lib/channel/setup/parameters.h"
#include "lib/channel/setup/tls_context.h"

namespace verbena::channel::testing_tools {

// A temporary folder; its destructor removes it.
class Folder {
public:
	Folder() {
		std::string name = std::filesystem::temp_directory_path() / "verbena-setup-XXXXXX";
		check(mkdtemp(name.data()) != nullptr, "a folder for the test");
		path_ = name;
	}
	~Folder() {
		std::error_code ignored;
		std::filesystem::remove_all(path_, ignored);
	}
	Folder(const Folder&) = delete;

	std::string operator/(const std::string& name) const { return path_ + "/" + name; }
	const std::string& path() const { return path_; }
	// Writes a file that no other user may read, as the file of a key must be.
	std::string write(const std::string& name, const std::string& text) const {
		std::ofstream(*this / name) << text;
		std::filesystem::permissions(
			*this / name, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
		return *this / name;
	}

private:
	std::string path_;
};

// An authority with the files of a server for 127.0.0.1, ::1, localhost and `more_hosts`, and of a
// client.
class AuthorityFiles {
public:
	explicit AuthorityFiles(const std::string& name = "test authority", const std::vector<std::string>& more_hosts = {})
		: authority(*make_authority(name, 30)) {
		ca = folder.write("ca.pem", authority.certificate_pem);
		std::vector<std::string> hosts{"127.0.0.1", "::1", "localhost"};
		hosts.insert(hosts.end(), more_hosts.begin(), more_hosts.end());
		server = trust("server", Use::server, hosts);
		client = trust("client", Use::client, {});
	}
	Trust trust(const std::string& name, Use use, const std::vector<std::string>& hosts, unsigned days = 30) const {
		const Credential made = *issue(authority, use, {.name = name, .hosts = hosts, .days = days});
		return {.kind = TrustKind::authority,
			.ca = ca,
			.certificate = folder.write(name + ".pem", made.certificate_pem),
			.key = folder.write(name + ".key", made.key_pem)};
	}

	Folder folder;
	Credential authority;
	std::string ca;
	Trust server, client;
};

inline Trust identity_in(const Folder& folder) { return {.kind = TrustKind::identity, .folder = folder / "verbena"}; }

template <class Made> auto made(Made result) {
	if (!result) ADD_FAILURE() << result.error();
	check(result.has_value(), "what the test stands on was made");
	return *result;
}

// Moves bytes from one end to the other, at most `chunk` at a time. Returns false if there were
// none.
template <class From, class To> bool pass(From& from, To& to, std::size_t chunk = 4096) {
	std::vector<std::byte> room(chunk);
	const std::size_t size = from.take(room);
	if (size != 0) to.feed(std::span(room).first(size));
	return size != 0;
}

// Passes bytes both ways until neither end has any.
template <class One, class Other> void converse(One& one, Other& other, std::size_t chunk = 4096) {
	for (int turns = 0; turns < 1'000'000; ++turns) {
		const bool there = pass(one, other, chunk), back = pass(other, one, chunk);
		if (!there && !back) return;
	}
	FAIL() << "the two ends never fall silent";
}

inline Parameters parameters_of(Role role, std::uint32_t qp_number = 0x4711) {
	Parameters parameters{.role = role,
		.qp_number = qp_number,
		.first_psn = secure_random<std::uint32_t>() & 0xffffff,
		.mtu = role == Role::client ? 4096u : 1024u,
		.receive_depth = 256,
		.credits_granted = 32,
		.eager_size_max = 16384,
		.reads_as_target = 16,
		.reads_as_initiator = 16,
		.nonce = random_nonce()};
	parameters.gid[15] = std::byte{1};
	return parameters;
}

}  // namespace verbena::channel::testing_tools
