// SPDX-License-Identifier: Apache-2.0
// The settings of clients and of RDMA and TLS connections, as plain values.
//
// The fields of ibv_config have the names and defaults of coro_rpc; docs/rpc.md, "Options", gives
// the effect of each one here. A server's own settings are in server.h.
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

// Where requests and responses arrive: in one receive queue that all connections of a thread share
// (srq), or in a queue of each connection's own. See channel::RecvMode.
enum class recv_mode_t : std::uint8_t { srq, per_connection };

// The registered memory that the connections of one I/O thread share.
struct ib_buffer_pool_config {
	// Size of a block in bytes, 4 KiB to 1 MiB. Large data in memory that is not registered is sent
	// in parts of at most this size.
	std::uint32_t buffer_size = 256 << 10;
	// Limit in bytes for the blocks, and the same limit again for the receive buffers; 0: no limit.
	std::uint64_t max_memory_usage = ~0u;
};

// The argument of init_ibv(): how RDMA connections are made.
struct ibv_config {
	// per_connection: the number of receive blocks that a connection keeps posted, 3 or more.
	std::uint32_t recv_buffer_cnt = 8;
	// The number of blocks that one connection may have in flight, 1 or more: one is filled while
	// others are fetched. Absent: 4, or 2 with per_connection.
	std::optional<std::uint32_t> send_buffer_cnt;
	ibv_qp_type qp_type = IBV_QPT_RC;   // no other type is supported
	// max_send_wr limits the send work requests of one connection. Frames of up to
	// max_inline_data bytes are sent inline if the device can. The other three have no effect.
	ibv_qp_cap cap{.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 3, .max_recv_sge = 1, .max_inline_data = 256};
	std::string device;  // name; empty: the best device (`verbena devices` shows it and why)
	std::optional<int> gid_index;  // absent: chosen by the rules in docs/rpc.md
	recv_mode_t recv_mode = recv_mode_t::srq;
	// The fate of a message that would exceed max_memory_usage: it waits, or its connection ends.
	channel::Watermark watermark = channel::Watermark::wait;
	ib_buffer_pool_config buffer_pool_config;
	// The other numbers of a connection. A unit holds 4 KiB and its headers, so that many small
	// calls share one.
	channel::RcOptions channel{.unit_bytes = 4096 + 16};

	static constexpr std::uint32_t own_blocks_min = 3;  // the lowest recv_buffer_cnt

	// Translates these fields into the channel's options.
	// Error: one sentence that names the field whose value is not supported.
	std::expected<channel::RcOptions, std::string> rc() const;
};

// The argument of init_ssl(): how both ends authenticate each other (TLS 1.3, docs/security.md).
//
// Without files, here and in VERBENA_CA, VERBENA_CERT and VERBENA_KEY, both ends must have the
// identity of the same user. With files each end shows a certificate that the authority in ca_file
// has signed.
struct ssl_config {
	// The folder of the three files. Empty: their names are used as they are.
	std::string base_path;
	std::string ca_file, cert_file, key_file;  // PEM
	// Client only: accept any server of the authority, whatever name its certificate has.
	bool any_name = false;
};

struct client_config {
	std::chrono::milliseconds connect_timeout_duration{30'000};  // 0: none
	std::chrono::milliseconds request_timeout_duration{30'000};  // for each call; 0: none
	std::string host, port;  // for connect() without arguments
	FrameLimits limits;  // the largest body and attachment, of requests and of responses
	// Backpressure: calls and writers of streams wait while this many bytes are unsent.
	std::size_t unsent_max = 64u << 20;
	bool coalesce = true;  // requests of one turn of the loop share messages
	// Limit in bytes for the items of a stream that have arrived and are unread; 64 KiB to 1 GiB.
	std::uint32_t stream_window = 256 << 10;
};

// The receiver of a program's log: called with one sentence, from any thread.
// The default writes to standard error.
using Log = void (*)(std::string_view sentence);
void log_to_standard_error(std::string_view sentence);

}  // namespace verbena::rpc
