// SPDX-License-Identifier: Apache-2.0
// The users of this host with whose processes this one may have links (VERBENA_PEERS).
//
// Threads: any. The variable is read once.
#pragma once

#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace verbena::engine {

enum class Peers {
	own,  // this process's user alone
	host,  // every user whose processes allow it too
};

inline Peers allowed_peers() {
	static const Peers allowed = [] {
		const char* const value = secure_getenv("VERBENA_PEERS");
		if (value == nullptr || *value == 0 || std::strcmp(value, "own") == 0) return Peers::own;
		if (std::strcmp(value, "host") == 0) return Peers::host;
		log::error("VERBENA_PEERS=%s is neither 'own' nor 'host'; processes of other users are refused", value);
		return Peers::own;
	}();
	return allowed;
}

}  // namespace verbena::engine
