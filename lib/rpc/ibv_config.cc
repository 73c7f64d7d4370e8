// SPDX-License-Identifier: Apache-2.0
// ibv_config::rc(): from coro_rpc's published fields to the options of a channel (options.h).
#include <algorithm>
#include <limits>

#include "lib/rpc/options.h"

namespace verbena::rpc {

std::expected<channel::RcOptions, std::string> ibv_config::rc() const {
	const std::uint32_t block = buffer_pool_config.buffer_size;
	if (qp_type != IBV_QPT_RC)
		return std::unexpected("init_ibv: qp_type must be IBV_QPT_RC: calls need a reliable connection");
	if (block < 4096 || block > 1 << 20) return std::unexpected("init_ibv: buffer_size must be 4 KiB to 1 MiB");
	const bool own = recv_mode == recv_mode_t::per_connection;
	const std::uint32_t send_buffers = send_buffer_cnt.value_or(own ? 2 : 4);
	if (send_buffers < 1) return std::unexpected("init_ibv: send_buffer_cnt must be at least 1");
	if (recv_buffer_cnt < own_blocks_min)
		return std::unexpected("init_ibv: recv_buffer_cnt must be at least 3: two blocks are for flow control");

	channel::RcOptions options = channel;
	options.inline_max = cap.max_inline_data;
	options.send_depth = std::min(options.send_depth, cap.max_send_wr);
	options.watermark = watermark;
	// The same memory as coro_rpc's blocks, in smaller parts: the first part leaves sooner, and the
	// next one is copied while the peer fetches it.
	options.part_bytes = std::min(block, channel.part_bytes);
	options.offers_max = send_buffers * (block / options.part_bytes);
	if (own) {
		// As in coro_rpc, all data is sent by SENDs of at most a block, into receive blocks of the
		// connection's own. Two of these are reserved for flow control.
		options.recv_mode = channel::RecvMode::per_connection;
		options.receive_depth = recv_buffer_cnt - channel::control_kinds;
		options.unit_bytes = block;
		options.send_units_max = send_buffers;
		options.direct_depth = 0;
	}
	if (const std::uint64_t most = buffer_pool_config.max_memory_usage; most != 0) {
		options.memory.max = static_cast<std::size_t>(most);
		options.units_max =
			static_cast<std::uint32_t>(std::min<std::uint64_t>(options.units_max, most / options.unit_bytes));
	} else {
		options.memory.max = std::numeric_limits<std::size_t>::max();
	}
	return options;
}

}  // namespace verbena::rpc
