// What is called: the request's bytes as attachment, a 13-byte word back (sink, as the published benchmark), or the
// bytes themselves (echo).
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
