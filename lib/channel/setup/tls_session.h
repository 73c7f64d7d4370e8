// SPDX-License-Identifier: Apache-2.0
// One TLS session without I/O: bytes of the peer go in, bytes for the peer come out, and between
// them is plain text.
//
//     feed(received)   take(room) -> to send        write(plain)   read(room) -> plain
//
// After each call there may be bytes to take.
//
// Threads: one at a time; it belongs to one connection. Many sessions share a TlsContext.
// Owns: bounded memory: feed() takes at most 32 KiB beyond what read() has returned.
// Errors: state `failed` and error(), one sentence with what to do if there is something.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/channel/setup/tls_context.h"

struct ssl_st;

namespace verbena::channel {

struct SessionData;

using ExporterKey = std::array<std::byte, 32>;
inline constexpr std::string_view exporter_label = "EXPORTER-verbena-channel";

// The alert by which a server without room for another set-up answers a ClientHello: the record's
// type and version, its length, `fatal`, and `user_canceled`, which RFC 8446, 6.1 has for the end
// of a handshake that no fault of the protocol explains.
inline constexpr std::array<std::byte, 7> busy_alert{
	std::byte{21}, std::byte{3}, std::byte{3}, std::byte{0}, std::byte{2}, std::byte{2}, std::byte{90}};

class TlsSession {
public:
	enum class State : std::uint8_t { handshaking, open, failed };

	// `host` is the name or address that the user asked for. Tickets are kept by host and port.
	static TlsSession client(
		std::shared_ptr<const TlsContext> context, const std::string& host, std::uint16_t port = 0);
	static TlsSession server(std::shared_ptr<const TlsContext> context);
	TlsSession(TlsSession&&) noexcept;
	TlsSession& operator=(TlsSession&&) noexcept;
	~TlsSession();

	State state() const { return state_; }
	// Only in state `failed`.
	const std::string& error() const { return error_; }

	// Returns the number of bytes that it took: all, unless too many wait for read(). A failed
	// session takes and ignores all.
	std::size_t feed(std::span<const std::byte> received);
	// The connection has ended.
	void feed_end();
	// Moves bytes for the peer into `room`; also when failed, so that the peer learns why.
	std::size_t take(std::span<std::byte> room);
	std::size_t pending() const;  // bytes to take

	void write(std::span<const std::byte> plain);  // only when open
	std::size_t read(std::span<std::byte> room);   // 0: nothing has arrived yet
	bool in_record() const;  // the beginning of a record has arrived, and its end has not
	void close();          // sends close_notify (RFC 8446, 6.1); call nothing but take() afterwards
	bool peer_closed() const { return peer_closed_; }
	// Failed because the peer sent a set-up message without TLS.
	bool peer_in_clear() const { return peer_in_clear_; }
	// Failed because the server has sent busy_alert.
	bool peer_busy() const { return peer_busy_; }

	// Only when open: a key that both ends of this session can compute, and no one else (RFC 8446,
	// 7.5).
	ExporterKey exporter_key() const;
	// By a ticket, without certificates.
	bool resumed() const;
	bool by_identity_key() const;  // by the user's key, without certificates

private:
	struct Free {
		void operator()(ssl_st* ssl) const;
	};
	TlsSession(std::shared_ptr<const TlsContext> context, const std::string& host, std::uint16_t port);
	void advance();
	void fail(std::string sentence);

	std::unique_ptr<SessionData> notes_;
	std::unique_ptr<ssl_st, Free> ssl_;
	State state_ = State::handshaking;
	std::string error_;
	bool begun_ = false;  // the first byte of the peer was seen
	bool peer_closed_ = false;
	bool peer_in_clear_ = false;
	bool peer_busy_ = false;
};

}  // namespace verbena::channel
