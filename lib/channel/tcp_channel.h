// SPDX-License-Identifier: Apache-2.0
// TcpChannel: a channel over a TCP stream, in TLS or in clear. It implements the interface of
// channel.h.
//
// On the stream each message follows its length, as a MessageHeader. Small messages of one turn of
// the loop are written together, at its end; large ones at once and, in clear, without a copy.
//
// Threads: the loop's thread.
// Owns: the socket, and received messages until the program takes them.
// Backpressure: bytes that the kernel does not take are kept, up to `buffer_max`; beyond that
//   senders wait. Messages that the program does not receive are kept up to the same amount; beyond
//   that the socket is not read, and TCP slows the peer down.
// Liveness: a peer whose host does not answer for `dead_after_ms` is lost, idle or not, and so is
//   one that sends nothing for `stall_timeout_ms` in the middle of a message (tcp_watch.h).
// Errors: a broken stream ends the channel as `lost`, and so does an end of the stream without
//   TLS's closing alert, since anyone on the way could have cut it.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "lib/async/job.h"
#include "lib/async/socket.h"
#include "lib/channel/channel.h"
#include "lib/channel/frame.h"
#include "lib/channel/heap_message.h"
#include "lib/channel/setup/tls_session.h"
#include "lib/channel/tcp_watch.h"

namespace verbena::channel {

struct TcpOptions {
	std::size_t buffer_max = 256 << 10;  // bytes kept, each way
	std::uint32_t message_max = 64u << 20;
	std::uint32_t close_timeout_ms = 1000;  // the time that close() gives the peer
	// The peer's host is taken for dead after this time without an answer; 0: never.
	std::uint32_t dead_after_ms = 8000;
	// The time that the peer may send nothing in the middle of a message; 0: for ever. A stopped
	// process sends nothing.
	std::uint32_t stall_timeout_ms = 30'000;
};

class TcpChannel final : public Channel, private async::Timer, private async::TurnEnd, private TcpWatch::Owner {
public:
	TcpChannel(async::Loop& loop, async::Socket socket, std::optional<TlsSession> tls, std::string peer_name,
		const TcpOptions& options);
	~TcpChannel() override;

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && close_sent_); }
	Path path() const override;

private:
	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override { return !inbox_.empty(); }
	Received next() override;

	struct Arrived {
		HeapBlock block;
		std::size_t size = 0;
	};

	async::Task<void> read();
	async::Task<void> write();
	bool write_some();  // false: the kernel takes no more for now
	void write_at_once(Sending& sending);
	std::size_t room() const { return options_.buffer_max - std::min(out_.size() - out_taken_, options_.buffer_max); }
	void turn_ends() override;
	std::span<std::byte> place_to_read();
	Sending::Progress put(Sending& sending);
	void put(std::span<const std::byte> plain);
	void take_tls();
	bool handle(std::span<const std::byte> plain);
	bool handle_received(std::span<const std::byte> bytes);
	void note_arrived(std::size_t count);
	void handle_end();
	void limit_closing();
	void finish_close();
	void fail(Trouble trouble, std::string reason);
	void expire() override;
	std::size_t received_in_part() const override;
	bool has_unsent() const override { return !out_.empty() || !senders_.empty(); }
	void peer_failed(std::string why) override;

	async::Socket socket_;
	std::optional<TlsSession> tls_;
	std::string peer_name_;
	TcpOptions options_;

	std::vector<std::byte> out_;
	std::size_t out_taken_ = 0;
	bool writing_ = false;  // the writer waits for the kernel
	bool in_message_ = false;  // the bytes put so far end within a message
	async::List<async::Waiter> idle_writer_, full_reader_;
	bool close_alert_sent_ = false, close_sent_ = false, peer_closed_ = false, lost_ = false;

	std::deque<Arrived> inbox_;
	std::size_t inbox_bytes_ = 0;
	std::byte header_[MessageHeader::bytes];
	std::size_t header_filled_ = 0;
	Arrived arriving_;
	std::size_t arrived_ = 0;
	std::size_t received_ = 0;  // bytes, as they came from the socket
	TcpWatch watch_;

	async::Job reader_, writer_;
};

}  // namespace verbena::channel
