// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/errors.h"

namespace verbena::rpc {

std::string_view message_of(errc code) {
	switch (code) {
		case errc::ok: return "ok";
		case errc::io_error: return "the connection broke";
		case errc::not_connected: return "not connected: call connect() first";
		case errc::timed_out: return "no response in time";
		case errc::invalid_rpc_arguments: return "the arguments do not fit the function's parameters";
		case errc::address_in_used:
			return "the address is in use: another program listens there, so choose another port";
		case errc::bad_address: return "the address cannot be resolved";
		case errc::open_error: return "the RDMA device or the identity could not be opened";
		case errc::listen_error: return "the server cannot listen at this address";
		case errc::operation_canceled: return "the call was canceled";
		case errc::rpc_throw_exception: return "the function threw an exception";
		case errc::function_not_registered: return "no function of this name is registered at the server";
		case errc::protocol_error: return "the peer violated the protocol";
		case errc::unknown_protocol_version:
			return "the peer has another version of the protocol: update the older side";
		case errc::message_too_large: return "the message is larger than the limit";
		case errc::server_has_ran: return "the server is already running";
		case errc::invalid_rpc_result: return "the result cannot be read as the function's type";
		case errc::serial_number_conflict: return "two requests in flight have the same sequence number";
		case errc::too_many_streams:
			return "the connection has as many open streams as the server allows: finish one first";
	}
	return static_cast<std::uint16_t>(code) >= user_code_min ? "an error of the called function"
															 : "an error that this version does not know";
}

}  // namespace verbena::rpc
