// SPDX-License-Identifier: Apache-2.0
// A GID as people write the address: "192.0.2.1" for an IPv4-mapped one, otherwise IPv6.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include "nic/wire/flow.h"

namespace verbena::wire {

struct GidText {
	char bytes[INET6_ADDRSTRLEN] = "?";
};

inline GidText text_of(const Gid& gid) {
	GidText text;
	const bool ipv4 = is_ipv4_mapped(gid);
	inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.data() + (ipv4 ? 12 : 0), text.bytes, sizeof text.bytes);
	return text;
}

}  // namespace verbena::wire
