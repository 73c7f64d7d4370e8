#include "lib/rpc/errors.h"

namespace verbena::rpc {

std::string_view message_of(errc code) {
	switch (code) {
		case errc::ok: return "ok";
		case errc::io_error: return "the connection broke";
		case errc::not_connected: return "not connected: call connect() first";
		case errc::timed_out: return "no answer in time";
		case errc::invalid_rpc_arguments: return "the arguments do not fit the function's parameters";
		case errc::address_in_used: return "the address is in use: another program listens there";
		case errc::bad_address: return "the address cannot be used";
		case errc::open_error: return "the device or socket could not be opened";
		case errc::listen_error: return "the port could not be listened at";
		case errc::operation_canceled: return "canceled";
		case errc::rpc_throw_exception: return "the function threw an exception";
		case errc::function_not_registered: return "no function of this name is registered at the server";
		case errc::protocol_error: return "the peer breaks the protocol";
		case errc::unknown_protocol_version: return "the peer speaks another version of the protocol";
		case errc::message_too_large: return "the message is larger than its limit";
		case errc::server_has_ran: return "the server runs already";
		case errc::invalid_rpc_result: return "the answer is not of the function's type";
		case errc::serial_number_conflict: return "two requests have the same number";
		case errc::too_many_streams: return "as many streams are open on the connection as the server allows";
	}
	return static_cast<std::uint16_t>(code) >= user_code_min ? "an error of the called function"
															 : "an error that this version does not know";
}

}  // namespace verbena::rpc
