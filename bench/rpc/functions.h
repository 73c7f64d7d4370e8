// SPDX-License-Identifier: Apache-2.0
// The benchmark's two RPC functions. Both take the request's bytes as attachment; sink returns a
// word of 13 bytes, as in the published benchmark, and echo returns the bytes.
//
// Errors: sink fails the call if the payload is damaged.
#pragma once

#include <string_view>

#include "bench/rpc/payload.h"
#include "lib/rpc/server.h"

namespace verbena::rpcbench {

inline std::string_view sink() {
	if (!is_whole(rpc::get_context()->get_request_attachment()))
		throw rpc::rpc_error(500, "the payload arrived damaged");
	return reply_of_sink;
}
inline void echo() { rpc::get_context()->set_response_attachment(rpc::get_context()->get_request_attachment()); }

}  // namespace verbena::rpcbench
