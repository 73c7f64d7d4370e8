// The settings of servers and clients. Names and defaults of RDMA are those that coro_rpc's users know (docs/rpc.md says what each does
// here).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/channel/options.h"
#include "lib/rpc/frame.h"
#include "lib/verbs/device.h"

namespace verbena::rpc {

// What init_ibv() takes.
struct ibv_config {
	std::string device;                 // empty: the best one ("verbena devices" shows which)
	std::optional<int> gid_index;       // absent: chosen by the rules
	std::uint32_t max_inline_data = 256;
	// The numbers of the connection. Units of 4 KiB and their headers: many small calls share one.
	channel::RcOptions channel{.unit_bytes = 4096 + 16};

	channel::RcOptions rc() const {
		channel::RcOptions options = channel;
		options.inline_max = max_inline_data;
		return options;
	}
};

// What init_ssl() takes. Without files: this user's identity, which both ends must have. With files: an authority, and one's own
// certificate of it; both ends show theirs (TLS 1.3).
struct ssl_config {
	std::string base_path;  // in front of the names, if there is one
	std::string ca_file, cert_file, key_file;
	bool any_name = false;  // a client: any server of the authority will do, whatever its name
};

struct client_config {
	std::chrono::milliseconds connect_timeout_duration{30'000};
	std::chrono::milliseconds request_timeout_duration{30'000};  // 0: none
	std::string host, port;           // for connect() without them
	FrameLimits limits;
	std::size_t unsent_max = 64u << 20;  // calls wait while so much has not been sent
};

// Where the words for a program's log go: one sentence each, from any thread. The default is standard error.
using Log = void (*)(std::string_view sentence);
void log_to_standard_error(std::string_view sentence);

}  // namespace verbena::rpc
