// The settings of servers and clients. Names and defaults of RDMA are those that coro_rpc's users know (docs/rpc.md
// says what each does here).
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "lib/channel/options.h"
#include "lib/rpc/frame.h"
#include "lib/verbs/device.h"

namespace verbena::rpc {

// Where requests and answers arrive: see channel::RecvMode.
enum class recv_mode_t : std::uint8_t { srq, per_connection };

// Of the registered memory that connections of a thread share.
struct ib_buffer_pool_config {
	std::uint32_t buffer_size =
		256 << 10;      // a block: large data in memory that is not registered goes in parts of this size
	std::uint64_t max_memory_usage = ~0u;       // bytes of blocks and of receive buffers, each; 0: no limit
};

// What init_ibv() takes.
struct ibv_config {
	std::uint32_t recv_buffer_cnt = 8;  // per_connection: receive blocks that a connection has posted
	// Blocks of a connection under way at once: one is filled while others are fetched. Absent: 4, and 2 with
	// per_connection.
	std::optional<std::uint32_t> send_buffer_cnt;
	ibv_qp_type qp_type = IBV_QPT_RC;   // nothing else is there
	// max_send_wr: no more send work requests of a connection than this. max_inline_data: messages below it go inline,
	// where the device can.
	ibv_qp_cap cap{.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 3, .max_recv_sge = 1, .max_inline_data = 256};
	std::string device;  // empty: the best one ("verbena devices" shows which)
	std::optional<int> gid_index;  // absent: chosen by the rules
	recv_mode_t recv_mode = recv_mode_t::srq;
	channel::Watermark watermark = channel::Watermark::wait;  // what becomes of a message above max_memory_usage
	ib_buffer_pool_config buffer_pool_config;
	// The other numbers of a connection. Units of 4 KiB and their headers: many small calls share one.
	channel::RcOptions channel{.unit_bytes = 4096 + 16};

	static constexpr std::uint32_t own_blocks_min = 3;

	// Error: a value that is not supported, in one sentence.
	std::expected<channel::RcOptions, std::string> rc() const;
};

// What init_ssl() takes. Without files: this user's identity, which both ends must have. With files: an authority, and
// one's own certificate of it; both ends show theirs (TLS 1.3).
struct ssl_config {
	std::string base_path;  // in front of the names, if there is one
	std::string ca_file, cert_file, key_file;
	bool any_name = false;  // a client: any server of the authority will do, whatever its name
};

struct client_config {
	std::chrono::milliseconds connect_timeout_duration{30'000};
	std::chrono::milliseconds request_timeout_duration{30'000};  // 0: none
	std::string host, port;  // for connect() without them
	FrameLimits limits;
	std::size_t unsent_max = 64u << 20;  // calls wait while so much has not been sent
	bool coalesce = true;  // calls of one turn share messages
	std::uint32_t stream_window = 256 << 10;  // bytes of a stream's items that have not been read; from 64 KiB on
};

// Where the words for a program's log go: one sentence each, from any thread. The default is standard error.
using Log = void (*)(std::string_view sentence);
void log_to_standard_error(std::string_view sentence);

}  // namespace verbena::rpc
