// SPDX-License-Identifier: Apache-2.0
// Mistakes in the servers that a user names, which are wrong usage, unlike a server that does not
// answer.
#pragma once

#include <string>
#include <string_view>

#include "base/sizes.h"
#include "lib/async/socket.h"
#include "lib/discovery/etcd_prefix.h"

namespace verbena::tools {

// The mistake in a list HOST[:PORT],...; empty if there is none. No name is looked up.
inline std::string mistake_in_list(const std::string& servers) {
	for (const std::string_view each : split(servers)) {
		if (each.empty()) return "empty server name in the list '" + servers + "'";
		if (const auto host = async::split_host(std::string(each), 0); !host) return host.error();
	}
	return "";
}

// The same where etcd://HOST:2379/PREFIX may stand for the list.
inline std::string mistake_in_servers(const std::string& servers) {
	if (!discovery::is_etcd(servers)) return mistake_in_list(servers);
	const auto prefix = discovery::read_etcd(servers);
	return prefix ? "" : prefix.error();
}

}  // namespace verbena::tools
