// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/tcp_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace verbena::channel {
namespace {

using async::Task;

constexpr std::size_t read_at_once = 64 << 10;
	// Smaller messages wait for the end of the turn.
constexpr std::size_t write_at_once_min = 16 << 10;
constexpr int reads_in_turn = 8;  // further reads wait for the next turn, after other channels
// Counted against `buffer_max` for each message besides its bytes: an empty message is not free.
constexpr std::size_t message_charge = 64;
// Answers of TLS to what the peer sends, such as new keys, have no sender that could wait. A peer
// that asks for them and does not read has this many bytes of them kept beyond `buffer_max`.
constexpr std::size_t tls_answers_max = 64 << 10;

// One for all channels of a thread: no coroutine is suspended while it holds bytes. On the heap:
// thread-local bytes are taken from the stack of every thread of the program, also of those that a
// library makes with a small one.
std::span<std::byte> read_buffer() {
	thread_local const auto bytes = std::make_unique_for_overwrite<std::byte[]>(read_at_once);
	return {bytes.get(), read_at_once};
}

}  // namespace

TcpChannel::TcpChannel(async::Loop& loop, async::Socket socket, std::optional<TlsSession> tls, std::string peer_name,
	const TcpOptions& options)
	: Channel(loop, options.message_max),
	  socket_(std::move(socket)),
	  tls_(std::move(tls)),
	  peer_name_(std::move(peer_name)),
	  options_(options),
	  watch_(*this, *socket_, Nanoseconds{options.dead_after_ms} * 1'000'000,
		  Nanoseconds{options.stall_timeout_ms} * 1'000'000),
	  reader_(loop, read()),
	  writer_(loop, write()) {
	finishes_begun_ = true;
}

TcpChannel::~TcpChannel() { loop_.cancel(*this); }

Path TcpChannel::path() const {
	return {.transport = tls_ ? "tcp+tls" : "tcp", .device = {}, .gid = {}, .mtu = 0, .peer = peer_name_};
}

Channel::Sending::Progress TcpChannel::advance(Sending& sending) {
	if (in_message_ && !sending.begun) fail(Trouble::lost, "a send was abandoned in the middle of its message");
	const Sending::Progress progress = lost_ ? Sending::Progress::failed : put(sending);
	in_message_ = progress == Sending::Progress::waiting && sending.begun;
	if (progress == Sending::Progress::failed) sending.trouble = trouble_;
	return progress;
}

Channel::Sending::Progress TcpChannel::put(Sending& sending) {
	using Progress = Sending::Progress;
	if (!sending.begun && !tls_ && sending.size() >= write_at_once_min && !writing_ && write_some())
		write_at_once(sending);
	if (!sending.begun) {
		if (room() == 0 && (writing_ || !write_some())) return Progress::waiting;
		sending.begun = true;
		std::byte header[MessageHeader::bytes];
		MessageHeader{.kind = MessageKind::whole, .length = static_cast<std::uint32_t>(sending.size())}.write(header);
		put(header);
	}
	while (sending.offset < sending.size() && !lost_) {
		const std::size_t length = std::min(sending.size() - sending.offset, room());
		if (length == 0) {
			if (writing_ || !write_some()) return Progress::waiting;
			continue;
		}
		for (const auto& each : sending.slices(sending.offset, length)) put(each);
		sending.offset += length;
	}
	if (lost_) return Progress::failed;
	loop_.at_turn_end(*this);
	return Progress::done;
}

// Writes a large message from the sender's memory, as much as the kernel takes. No earlier bytes
// are kept.
void TcpChannel::write_at_once(Sending& sending) {
	std::array<std::byte, MessageHeader::bytes> header;
	MessageHeader{.kind = MessageKind::whole, .length = static_cast<std::uint32_t>(sending.size())}.write(
		header.data());
	const auto piece = [](std::span<const std::byte> bytes) {
		return iovec{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
	};
	const std::array pieces{piece(header), piece(sending.head), piece(sending.body)};
	const ssize_t put = async::try_write(*socket_, pieces);
	if (put <= 0) return;  // write_some() gets the same error and handles it
	watch_.watch();
	sending.begun = true;
	const auto taken = static_cast<std::size_t>(put);
	if (taken < header.size()) this->put(std::span(header).subspan(taken));
	else sending.offset = taken - header.size();
}

void TcpChannel::turn_ends() {
	if (lost_ || writing_ || !write_some()) return;
	advance_senders();
	finish_close();
}

void TcpChannel::put(std::span<const std::byte> plain) {
	if (plain.empty()) return;
	if (!tls_) {
		out_.insert(out_.end(), plain.begin(), plain.end());
		return;
	}
	tls_->write(plain);
	take_tls();
}

void TcpChannel::take_tls() {
	while (const std::size_t count = tls_->pending()) {
		const std::size_t before = out_.size();
		out_.resize(before + count);
		out_.resize(before + tls_->take(std::span(out_).subspan(before)));
	}
}

bool TcpChannel::write_some() {
	while (out_taken_ < out_.size()) {
		const ssize_t put = async::try_write(*socket_, std::span(out_).subspan(out_taken_));
		if (put >= 0) {
			out_taken_ += static_cast<std::size_t>(put);
			watch_.watch();
		} else if (put == -EAGAIN) {
			// Drop the bytes that were written, so that the buffer does not grow without bound.
			out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_taken_));
			out_taken_ = 0;
			loop_.resume_soon(idle_writer_);
			return false;
		} else if (put != -EINTR) {
			fail(
				Trouble::lost, peer_name_ + ": the connection is lost (" + std::strerror(static_cast<int>(-put)) + ")");
			return true;
		}
	}
	out_.clear();
	out_taken_ = 0;
	return true;
}

// Resumed only when a write would have blocked.
Task<void> TcpChannel::write() {
	while (!lost_) {
		if (out_.empty()) co_await async::Park(idle_writer_);
		writing_ = true;
		while (!lost_ && !write_some()) co_await async::Wait(*socket_, async::Wait::For::writing, never);
		writing_ = false;
		advance_senders();
		finish_close();
	}
}

Task<void> TcpChannel::read() {
	int reads = 0;
	while (!lost_ && !peer_closed_) {
		if (inbox_bytes_ >= options_.buffer_max) {
			co_await async::Park(full_reader_);
			continue;
		}
		if (++reads > reads_in_turn) {
			reads = 0;
			co_await async::NextTurn(loop_);
		}
		const std::span<std::byte> place = place_to_read();
		const ssize_t got = async::try_read(*socket_, place);
		if (got > 0) {
			const auto count = static_cast<std::size_t>(got);
			received_ += count;
			if (place.data() != read_buffer().data()) note_arrived(count);
			else if (!handle_received(place.first(count))) co_return;
			if (has_message()) wake_receiver();
		} else if (got == 0) {
			handle_end();
		} else if (got == -EAGAIN) {
			reads = 0;
			if (received_in_part() != 0) watch_.watch();
			co_await async::Wait(*socket_, async::Wait::For::reading, never);
		} else if (got != -EINTR) {
			fail(
				Trouble::lost, peer_name_ + ": the connection is lost (" + std::strerror(static_cast<int>(-got)) + ")");
		}
	}
}

// The rest of a large message in clear is read directly into its block.
std::span<std::byte> TcpChannel::place_to_read() {
	const bool in_message = !tls_ && header_filled_ == MessageHeader::bytes;
	if (!in_message || arriving_.size - arrived_ < read_at_once) return read_buffer();
	return {arriving_.block.get() + arrived_, arriving_.size - arrived_};
}

void TcpChannel::note_arrived(std::size_t count) {
	arrived_ += count;
	if (arrived_ < arriving_.size) return;
	inbox_bytes_ += arriving_.size + message_charge;
	inbox_.push_back(std::move(arriving_));
	header_filled_ = 0;
}

bool TcpChannel::handle_received(std::span<const std::byte> bytes) {
	if (!tls_) return handle(bytes);
	std::array<std::byte, 16 << 10> plain;
	while (!bytes.empty()) {
		const std::size_t fed = tls_->feed(bytes);
		bytes = bytes.subspan(fed);
		while (const std::size_t count = tls_->read(plain))
			if (!handle(std::span(plain).first(count))) return false;
		if (tls_->state() == TlsSession::State::failed) {
			fail(Trouble::lost, peer_name_ + ": " + tls_->error());
			return false;
		}
		if (tls_->peer_closed()) break;  // bytes behind the closing alert are ignored
		if (fed == 0) {
			fail(Trouble::protocol, peer_name_ + " breaks the protocol: more TLS bytes than the session can take");
			return false;
		}
	}
	take_tls();
	if (!writing_) write_some();
	if (out_.size() - out_taken_ > options_.buffer_max + tls_answers_max) {
		fail(Trouble::protocol, peer_name_ + " breaks the protocol: it asks TLS for answers and does not read them");
		return false;
	}
	if (tls_->peer_closed()) handle_end();
	return true;
}

// Takes plain text, cut anywhere. False: the channel has ended.
bool TcpChannel::handle(std::span<const std::byte> plain) {
	while (!plain.empty()) {
		if (header_filled_ < MessageHeader::bytes) {
			const std::size_t count = std::min(MessageHeader::bytes - header_filled_, plain.size());
			std::memcpy(header_ + header_filled_, plain.data(), count);
			header_filled_ += count;
			plain = plain.subspan(count);
			if (header_filled_ < MessageHeader::bytes) return true;
			const auto header = MessageHeader::read(header_);
			if (!header || header->kind != MessageKind::whole || header->length > options_.message_max) {
				fail(Trouble::protocol, peer_name_ + " breaks the protocol: a message of an invalid kind or size");
				return false;
			}
			arriving_.block = make_heap_block(header->length);
			arriving_.size = header->length;
			arrived_ = 0;
			if (!arriving_.block) {
				fail(Trouble::no_memory, "no memory for a message of " + std::to_string(header->length) + " bytes");
				return false;
			}
		}
		const std::size_t count = std::min(arriving_.size - arrived_, plain.size());
		if (count > 0) std::memcpy(arriving_.block.get() + arrived_, plain.data(), count);
		plain = plain.subspan(count);
		note_arrived(count);
	}
	return true;
}

Channel::Received TcpChannel::next() {
	if (inbox_.empty()) return std::unexpected(trouble_);
	Arrived arrived = std::move(inbox_.front());
	inbox_.pop_front();
	inbox_bytes_ -= arrived.size + message_charge;
	if (inbox_bytes_ < options_.buffer_max) loop_.resume_soon(full_reader_);
	return heap_message(std::move(arrived.block), arrived.size);
}

void TcpChannel::handle_end() {
	if (peer_closed_) return;
	// A peer that learns of this end's close() in the middle of a message need not complete it.
	if (header_filled_ > 0 && !closing_)
		return fail(Trouble::lost, peer_name_ + ": the connection ended within a message");
	// Without a closing alert (RFC 8446, 6.1) an attacker may have cut the stream.
	if (tls_ && !tls_->peer_closed())
		return fail(Trouble::lost, peer_name_ + ": the connection ended without TLS's closing alert");
	peer_closed_ = true;
	if (!closing_) limit_closing();
	end(Trouble::closed, {});
	finish_close();
}

// Gives the peer `close_timeout_ms`: it may stop receiving what is sent before the close.
void TcpChannel::limit_closing() {
	loop_.schedule(*this, loop_.now() + Nanoseconds{options_.close_timeout_ms} * 1'000'000);
}

void TcpChannel::close() {
	if (!closing_ && !ended_) limit_closing();
	closing_ = true;
	finish_close();
}

void TcpChannel::finish_close() {
	if (lost_ || !(closing_ || peer_closed_) || !senders_.empty()) return;
	if (tls_ && !std::exchange(close_alert_sent_, true)) {
		tls_->close();
		take_tls();
	}
	if (!writing_) write_some();
	if (!close_sent_ && out_.empty()) {
		close_sent_ = true;
		shutdown(socket_->fd(), SHUT_WR);
	}
	if (closed()) {
		loop_.cancel(*this);
		wake_closers();
	}
}

void TcpChannel::fail(Trouble trouble, std::string reason) {
	if (lost_) return;
	lost_ = true;
	loop_.cancel(*this);
	watch_.stop();
	end(trouble, std::move(reason));
	// The peer must notice now, however long this channel's owner still keeps the channel.
	shutdown(socket_->fd(), SHUT_RDWR);
	loop_.resume_soon(idle_writer_);
	wake_closers();
}

std::size_t TcpChannel::received_in_part() const {
	if (lost_ || peer_closed_ || inbox_bytes_ >= options_.buffer_max) return 0;
	return header_filled_ > 0 || (tls_ && tls_->in_record()) ? received_ : 0;
}

void TcpChannel::peer_failed(std::string why) { fail(Trouble::lost, peer_name_ + ": the connection is lost: " + why); }

void TcpChannel::expire() { fail(Trouble::closed, peer_name_ + " does not close in time"); }

}  // namespace verbena::channel
