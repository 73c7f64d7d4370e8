// How a call fails. 0 to 255 are the library's own codes, with the names that coro_rpc's users know; 256 to 65535
// belong to the program.
//
// An rpc_error is thrown by a handler to answer with it, and is what a caller gets. Its text is one sentence for
// people, never to be parsed.
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
	not_connected = 2,             // there is none
	timed_out = 3,                 // no answer within the call's time; the server was told to forget it
	invalid_rpc_arguments = 4,     // the server could not read them as the function's parameters
	address_in_used = 5,
	bad_address = 6,
	open_error = 7,                // the device or the socket could not be opened
	listen_error = 8,
	operation_canceled = 9,
	rpc_throw_exception = 10,      // the handler threw something, or gave no answer
	function_not_registered = 11,
	protocol_error = 12,
	unknown_protocol_version = 13,
	message_too_large = 14,
	server_has_ran = 15,           // started twice
	invalid_rpc_result = 16,       // the answer is not of the function's type
	serial_number_conflict = 17,
	too_many_streams = 18,         // of one connection
};

std::string_view message_of(errc code);

// A code with its words. True if it is an error: `if (auto ec = co_await client.connect(...); ec) ...`
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

inline constexpr std::uint16_t user_code_min = 256;

// Values, copied and thrown; constructed as coro_rpc's: rpc_error{10404, "no such thing"}.
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
