// One TLS session without I/O: bytes of the peer go in, bytes for the peer come out, and between them is plain text.
//
//     feed(received)   take(room) -> to send        write(plain)   read(room) -> plain        exporter_key()
//
// After each call there may be something to take. Owned by one connection, used by one thread at a time; many share a
// TlsContext. Nothing grows with what a peer sends: feed() takes at most 32 KiB more than read() has asked for.
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

struct SessionNotes;

using ExporterKey = std::array<std::byte, 32>;
inline constexpr std::string_view exporter_label = "EXPORTER-verbena-channel";

class TlsSession {
public:
	enum class State : std::uint8_t { handshaking, open, failed };

	// `host`: the name or address that the user asked for. Tickets are kept for host and port.
	static TlsSession client(
		std::shared_ptr<const TlsContext> context, const std::string& host, std::uint16_t port = 0);
	static TlsSession server(std::shared_ptr<const TlsContext> context);
	TlsSession(TlsSession&&) noexcept;
	TlsSession& operator=(TlsSession&&) noexcept;
	~TlsSession();

	State state() const { return state_; }
	const std::string& error() const {
		return error_;
	}  // failed: one sentence, with what to do where there is something

	// How many bytes were taken: all, unless too much waits for read(). A failed session takes everything and heeds
	// nothing.
	std::size_t feed(std::span<const std::byte> received);
	// The connection has ended and no more will come.
	void feed_end();
	// Also when failed: the peer should hear why.
	std::size_t take(std::span<std::byte> room);
	std::size_t pending() const;  // bytes to take

	void write(std::span<const std::byte> plain);  // open
	std::size_t read(std::span<std::byte> room);   // 0: nothing there yet
	void close();          // says goodbye; the session is of no more use
	bool peer_closed() const { return peer_closed_; }
	// Failed, because what came was a set-up's message without TLS.
	bool peer_in_clear() const { return peer_in_clear_; }

	// Once open: the same on both ends of this session, and known to nobody else (RFC 8446, 7.5).
	ExporterKey exporter_key() const;
	bool resumed() const;
	bool by_identity_key() const;  // no certificates were shown: both ends have the user's key

private:
	struct Free {
		void operator()(ssl_st* ssl) const;
	};
	TlsSession(std::shared_ptr<const TlsContext> context, const std::string& host, std::uint16_t port);
	void advance();
	void fail(std::string sentence);

	std::unique_ptr<SessionNotes> notes_;
	std::unique_ptr<ssl_st, Free> ssl_;
	State state_ = State::handshaking;
	std::string error_;
	bool begun_ = false;  // the first byte was seen
	bool peer_closed_ = false;
	bool peer_in_clear_ = false;
};

}  // namespace verbena::channel
