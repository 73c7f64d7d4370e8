// SPDX-License-Identifier: Apache-2.0
// EtcdPrefix: the place in etcd where servers enter themselves, and how to get there.
//
//     etcd://HOST:2379/PREFIX                  etcd without TLS
//     etcds://HOST:2379,HOST:2379/PREFIX       members of one etcd cluster, with TLS
//
// The rest of a key below the prefix is the name of a server.
//
// Threads: thread-safe; a program takes the environment with etcd_environment().
// Errors: one sentence that says what to do.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::discovery {

// The user's words about TLS and the password; an empty one is not given. VERBENA_ETCD_CA, _CERT,
// _KEY, _USER and _PASSWORD_FILE stand in for what is not given.
struct EtcdAccess {
	std::string ca;  // PEM file of the authority of etcd's certificate; empty: those of the system
	std::string certificate, key;  // PEM files, for an etcd that asks for a certificate
	std::string user, password_file;
};
EtcdAccess etcd_environment();

struct EtcdPrefix {
	std::vector<std::string> urls;  // "http://HOST:PORT" or "https://HOST:PORT"; one or more
	std::string prefix;  // ends with "/"
	EtcdAccess access;
};

inline bool is_etcd(std::string_view text) { return text.starts_with("etcd://") || text.starts_with("etcds://"); }
// Reads a prefix, and checks that the files can be read and that no other user can read the key and
// the password. Errors: the text lacks its hosts or its prefix; an option needs TLS, or another
// option; a file is refused.
std::expected<EtcdPrefix, std::string> read_etcd(
	std::string_view text, const EtcdAccess& given = {}, const EtcdAccess& environment = {});
// Reads the password: the text of the file without the end of its line.
std::expected<std::string, std::string> read_password(const EtcdAccess& access);

}  // namespace verbena::discovery
