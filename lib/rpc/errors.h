// SPDX-License-Identifier: Apache-2.0
// The errors of calls: a code and one sentence.
//
// Codes 0 to 255 are the library's, with the names of coro_rpc; 256 to 65535 belong to the program.
// A handler throws an rpc_error to answer with it, and the caller receives it. The text is one
// sentence for people and is never to be parsed.
//
// Threads: plain values, without shared state.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::rpc {

enum class errc : std::uint16_t {
	ok = 0,
	io_error = 1,                  // the connection broke in the middle of the call
	not_connected = 2,             // there is no connection, or the server is stopping
	timed_out = 3,                 // no response in time; the server was asked to cancel the call
	invalid_rpc_arguments = 4,     // they cannot be packed, or read as the function's parameters
	address_in_used = 5,           // another socket listens at the server's port
	bad_address = 6,               // the server's address cannot be resolved
	open_error = 7,                // the RDMA device or the identity could not be opened
	listen_error = 8,              // the server cannot listen at its address
	operation_canceled = 9,        // by the caller, who may have closed its client
	rpc_throw_exception = 10,      // the handler threw an exception, or ended without a response
	function_not_registered = 11,
	protocol_error = 12,           // the peer sent what the protocol forbids; the connection ends
	unknown_protocol_version = 13,
	message_too_large = 14,        // above a limit of either end; the connection stays up
	server_has_ran = 15,           // the server was started while it was running
	invalid_rpc_result = 16,       // the result cannot be read as the function's type
	serial_number_conflict = 17,   // a sequence number that is in use; the connection ends
	too_many_streams = 18,         // more on one connection than the server allows
};

// One sentence for the code. The view is of static storage.
std::string_view message_of(errc code);

// A code and its sentence. True if it is an error:
// `if (auto ec = co_await client.connect(...); ec) ...`
class err_code {
public:
	constexpr err_code() = default;
	constexpr err_code(errc code) : ec(code) {}
	constexpr explicit err_code(std::uint16_t code) : ec(static_cast<errc>(code)) {}

	constexpr explicit operator bool() const { return ec != errc::ok; }
	constexpr operator errc() const { return ec; }
	constexpr std::uint16_t val() const { return static_cast<std::uint16_t>(ec); }
	std::string_view message() const { return message_of(ec); }

	errc ec = errc::ok;
};

inline constexpr std::uint16_t user_code_min = 256;  // the first code that belongs to the program

// The error of a call: `throw rpc_error{10404, "no such thing"}` in a handler. At most the first
// 1,024 bytes of the text reach the caller. True if it is an error.
class rpc_error {
public:
	rpc_error() = default;
	rpc_error(errc code) : code(code), msg(message_of(code)) {}
	rpc_error(errc code, std::string text) : code(code), msg(std::move(text)) {}
	explicit rpc_error(std::uint16_t number) : rpc_error(static_cast<errc>(number)) {}
	rpc_error(std::uint16_t number, std::string text) : rpc_error(static_cast<errc>(number), std::move(text)) {}

	std::uint16_t val() const { return code.val(); }
	explicit operator bool() const { return static_cast<bool>(code); }

	err_code code;
	std::string msg;
};

template <class T> using rpc_result = std::expected<T, rpc_error>;

}  // namespace verbena::rpc
