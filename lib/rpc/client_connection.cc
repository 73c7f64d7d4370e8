// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/client_connection.h"

#include <algorithm>

#include "lib/channel/transports_by_address.h"
#include "lib/rpc/protection.h"

namespace verbena::rpc {
namespace {

using async::Task;

// Stands for no limit.
constexpr Nanoseconds no_time_limit = Nanoseconds{365} * 24 * 3600 * 1'000'000'000;

// Closes a channel, and keeps it until it is closed.
Task<void> close_and_await(std::unique_ptr<channel::Channel> channel) {
	channel->close();
	co_await channel->until_closed();
}

std::string with_port(const std::string& host, const std::string& port) {
	const bool bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
	return (bare_v6 ? "[" + host + "]" : host) + ":" + port;
}

void log_plain_text_once() {
	static std::atomic<bool> said{false};
	if (!said.exchange(true))
		log_to_standard_error(
			"TCP in plain text: peers are not authenticated and nothing is encrypted; call init_ssl() at both ends");
}

}  // namespace

// A ping that waits for its pong.
struct ClientConnection::Pong : async::Linked {
	explicit Pong(std::uint32_t number) : sequence(number) {}
	std::uint32_t sequence;
	bool arrived = false;
	async::List<async::Waiter> waiting;
};

Pending::~Pending() {
	if (sequence_ != 0) connection_->forget(*this, true);
	if (stream) stream->end(rpc_error(errc::operation_canceled));
}

void Pending::cancel() {
	if (sequence_ == 0) return;
	error = rpc_error(errc::operation_canceled);
	connection_->forget(*this, true);
	finish();
}

void Pending::finish() {
	done_ = true;
	if (stream) stream->end(error);
	if (coroutine) connection_->thread_.loop().resume_soon(*this);
}

void Pending::expire() {
	error = rpc_error(errc::timed_out);
	connection_->forget(*this, true);
	finish();
}

ClientConnection::~ClientConnection() {
	check(channel_ == nullptr, "a client's connection must be closed on its own thread");
}

err_code ClientConnection::usable() const {
	if (!channel_ || !connected()) return errc::not_connected;
	return errc::ok;
}

Task<err_code> ClientConnection::connect(std::shared_ptr<ClientConnection> connection, Target target) {
	IoThread::Visit visit(connection->thread_);
	co_await visit.there();
	connection->close();
	const err_code opened = co_await connection->open(std::move(target));
	co_await visit.back();
	co_return opened;
}

Task<err_code> ClientConnection::open(Target target) {
	const std::uint64_t attempt = ++attempt_;
	target_ = std::move(target);
	reason_.clear();
	const std::string host = target_.port.empty() ? target_.host : with_port(target_.host, target_.port);
	const Nanoseconds patience =
		target_.patience.count() > 0 ? static_cast<Nanoseconds>(target_.patience.count()) * 1'000'000 : no_time_limit;
	channel::ConnectOptions options{.host = host, .port = 9001, .patience = patience};
	if (target_.ssl || target_.ibv) {
		auto protection = make_protection(Side::client, target_.ssl);
		if (!protection) {
			reason_ = protection.error();
			co_return errc::open_error;
		}
		options.protection = std::move(*protection);
		options.clear_advice = "call init_ibv() or init_ssl() in the server too, before it starts";
	} else {
		options.clear_advice = "call init_ssl() in the client too, before it connects";
		log_plain_text_once();
	}
	async::Loop& loop = thread_.loop();
	const Nanoseconds began = monotonic_now();
	const auto failed = [&](std::string why) -> err_code {
		reason_ = std::move(why);
		return monotonic_now() - began >= options.patience ? errc::timed_out : errc::not_connected;
	};
	std::unique_ptr<channel::Channel> connected;
	if (target_.ibv) {
		const auto address = async::resolve(host, 9001);
		if (!address) co_return failed(address.error());
		const bool is_chosen_here = target_.ibv->device.empty() && !target_.ibv->gid_index;
		const lib::DeviceRequest wish{
			.device = is_chosen_here ? channel::device_towards({&*address, 1}) : target_.ibv->device,
			.gid_index = target_.ibv->gid_index,
			.both_ends_on_this_host = async::is_loopback(*address)};
		const auto numbers = target_.ibv->rc();
		if (!numbers) {
			reason_ = numbers.error();
			co_return errc::open_error;
		}
		const auto transport = thread_.transport(wish, *numbers);
		if (!transport) {
			reason_ = transport.error();
			co_return errc::open_error;
		}
		auto channel = co_await channel::connect(**transport, options);
		if (!channel) co_return failed(channel.error());
		connected = std::move(*channel);
	} else {
		auto channel = co_await channel::connect_tcp(loop, options);
		if (!channel) co_return failed(channel.error());
		connected = std::move(*channel);
	}
	if (attempt != attempt_) {  // close() or another connect() came in between
		loop.spawn(close_and_await(std::move(connected)));
		co_return errc::operation_canceled;
	}
	channel_ = std::move(connected);
	path_ = channel_->path();
	goodbye_ = false;
	server_level_ = 0;
	outbox_.emplace(*channel_, batch_max_of(*channel_, target_.coalesce), target_.unsent_max);
	receiver_ = async::Job(loop, receive());
	connected_.store(true, std::memory_order_relaxed);
	co_return errc::ok;
}

void ClientConnection::close(errc why) {
	++attempt_;
	connected_.store(false, std::memory_order_relaxed);
	if (!channel_) return;
	fail_all(rpc_error(why));
	outbox_->flush();
	receiver_ = {};
	outbox_.reset();
	thread_.loop().spawn(close_and_await(std::move(channel_)));
}

Task<void> ClientConnection::receive() {
	while (true) {
		auto message = co_await channel_->receive();
		if (!message) break;
		Arrived arrived(std::move(*message), thread_);
		FrameReader reader(arrived.bytes(), target_.limits);
		while (!reader.done()) {
			const auto frame = reader.next();
			if (frame) {
				handle(*frame, arrived);
			} else if (frame.error().code == errc::message_too_large) {
				if (Pending* pending = find(frame.error().sequence)) {
					pending->error =
						rpc_error(errc::message_too_large, "the response is larger than the client's limit");
					// The frame may be an item, after which the server's function would go on.
					forget(*pending, pending->stream != nullptr);
					pending->finish();
				}
			} else {
				break_off(frame.error().code, frame.error().text);
				break;
			}
		}
	}
	connected_.store(false, std::memory_order_relaxed);
	if (reason_.empty()) reason_ = channel_->reason().empty() ? "the server closed the connection" : channel_->reason();
	fail_all(rpc_error(errc::io_error, reason_));
}

// The server has broken the protocol: fails all calls and closes the connection.
void ClientConnection::break_off(errc code, std::string_view why) {
	reason_ = std::string(why);
	connected_.store(false, std::memory_order_relaxed);
	fail_all(rpc_error(code, reason_));
	channel_->close();
}

void ClientConnection::handle(const Frame& frame, Arrived& arrived) {
	switch (frame.header.kind) {
		case FrameKind::response:
			if (Pending* pending = find(frame.header.sequence)) answer(*pending, frame, arrived);
			return;
		case FrameKind::item:
		case FrameKind::window:
			if (Pending* pending = find(frame.header.sequence);
				pending != nullptr && pending->stream && pending->stream->take(frame, arrived) != StreamEnd::Taken::yes)
				break_off(errc::protocol_error,
					"a stream's flow control was violated: more was sent or granted than its window allows");
			return;
		case FrameKind::pong: {
			async::List<Pong> others;
			while (Pong* pong = pings_.pop_front()) {
				if (pong->sequence == frame.header.sequence) {
					pong->arrived = true;
					thread_.loop().resume_soon(pong->waiting);
				} else {
					others.push_back(*pong);
				}
			}
			pings_.splice(others);
			return;
		}
		case FrameKind::goodbye: {
			// The server is stopping. It answers the calls in flight, and closes the connection
			// when it has also our goodbye. Behind that we send only frames of open streams.
			if (goodbye_) return;
			goodbye_ = true;
			connected_.store(false, std::memory_order_relaxed);
			FrameDraft goodbye = outbox_->begin({.kind = FrameKind::goodbye});
			outbox_->finish(goodbye);
			return;
		}
		case FrameKind::request:
		case FrameKind::open:
		case FrameKind::done:
		case FrameKind::cancel:
		case FrameKind::ping: return;  // ignored: a server sends no requests to its clients
	}
}

void ClientConnection::answer(Pending& pending, const Frame& frame, Arrived& arrived) {
	forget(pending, false);
	if (frame.header.code != 0) {
		std::string text;
		if (!unpack_value(unpacker_, frame.body, text)) text = message_of(static_cast<errc>(frame.header.code));
		pending.error = rpc_error(frame.header.code, std::move(text));
	} else {
		const bool fits = frame.attachment.size() <= pending.attachment_room.size();
		// share() may move the bytes: kept() finds them where the share keeps them.
		if (pending.keeps_message() || !fits) pending.share = arrived.share();
		if (!pending.take(pending.keeps_message() ? arrived.kept(frame.body) : frame.body, unpacker_)) {
			pending.error = rpc_error(errc::invalid_rpc_result);
		} else if (fits) {
			std::ranges::copy(frame.attachment, pending.attachment_room.begin());
			pending.attachment = pending.attachment_room.first(frame.attachment.size());
		} else {
			pending.attachment = arrived.kept(frame.attachment);
		}
	}
	unpacker_.release();
	pending.finish();
}

void ClientConnection::fail_all(const rpc_error& error) {
	std::vector<Pending*> all;
	for (Pending* pending : places_)
		if (pending != nullptr) all.push_back(pending);
	for (Pending* pending : all) {
		pending->error = error;
		forget(*pending, false);
		pending->finish();
	}
	while (Pong* pong = pings_.pop_front()) thread_.loop().resume_soon(pong->waiting);
}

// The table has one call for each place. A number whose place is taken by an older call is skipped;
// the table doubles before more than half of its places are taken, so the search is short.
void ClientConnection::add(Pending& pending) {
	if (2 * in_flight() >= places_.size()) {
		std::vector<Pending*> old(places_.size() * 2);
		old.swap(places_);
		for (Pending* each : old)
			if (each != nullptr) place_of(each->sequence_) = each;
	}
	do {
		if (++sequence_ == 0) ++sequence_;  // 0 stands for "not in flight"
	} while (place_of(sequence_) != nullptr);
	place_of(sequence_) = &pending;
	pending.sequence_ = sequence_;
	in_flight_.fetch_add(1, std::memory_order_relaxed);
}

void ClientConnection::forget(Pending& pending, bool tell_server) {
	thread_.loop().cancel(pending);
	// The attachment may be in memory that the caller frees next: detach() copies what is unsent.
	// After a goodbye only streams are canceled: the server answers its calls in flight anyway.
	if (tell_server && outbox_ && (!goodbye_ || pending.stream)) {
		outbox_->detach(pending.large_);
		FrameDraft cancel = outbox_->begin({.kind = FrameKind::cancel, .sequence = pending.sequence_});
		outbox_->finish(cancel);
	} else if (outbox_) {
		outbox_->detach(pending.large_);
	}
	pending.large_ = 0;
	place_of(pending.sequence_) = nullptr;
	pending.sequence_ = 0;
	in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

FrameDraft ClientConnection::begin(Pending& pending, std::uint32_t function, Nanoseconds patience) {
	add(pending);
	// The field has 32 bits. A longer patience is sent as 0, no limit; the timer of submit() then
	// cancels the call.
	Nanoseconds microseconds = patience == never ? 0 : std::max<Nanoseconds>(patience / 1000, 1);
	if (microseconds > ~std::uint32_t{0}) microseconds = 0;
	return outbox_->begin({.kind = pending.stream ? FrameKind::open : FrameKind::request,
		.sequence = pending.sequence_,
		.function = function,
		.patience_us = static_cast<std::uint32_t>(microseconds)});
}

bool ClientConnection::submit(Pending& pending, FrameDraft& draft, Attachment attachment, Nanoseconds patience) {
	if (outbox_->body_size(draft) > target_.limits.body_max ||
		attachment.bytes.size() > target_.limits.attachment_max || !outbox_->fits(draft, attachment.bytes.size())) {
		give_up(pending, draft);
		pending.fail(rpc_error(errc::message_too_large, "the request is larger than the client's limit"));
		return false;
	}
	if (patience != never) thread_.loop().schedule(pending, thread_.loop().now() + patience);
	pending.large_ = outbox_->finish(draft, std::move(attachment));
	if (pending.stream) pending.stream->begin(*outbox_, pending.sequence_);
	return true;
}

void ClientConnection::give_up(Pending& pending, FrameDraft& draft) {
	outbox_->drop(draft);
	forget(pending, false);
}

Task<Nanoseconds> ClientConnection::until_room(Nanoseconds patience) {
	// Wakes the waiting calls at the deadline; each then looks at its own clock.
	struct Clock final : async::Timer {
		explicit Clock(ClientConnection& connection) : connection(connection) {}
		~Clock() { connection.thread_.loop().cancel(*this); }
		void expire() override {
			if (connection.outbox_) connection.outbox_->notify_progress();
		}
		ClientConnection& connection;
	};
	Clock clock(*this);
	const Nanoseconds deadline = patience == never ? never : monotonic_now() + patience;
	if (deadline != never) thread_.loop().schedule(clock, deadline);
	Nanoseconds left = patience;
	while (crowded() && left > 0) {
		co_await until_progress();
		if (const Nanoseconds now = monotonic_now(); deadline != never) left = now < deadline ? deadline - now : 0;
	}
	co_return left;
}

Task<bool> ClientConnection::ping(std::shared_ptr<ClientConnection> connection, Nanoseconds patience) {
	IoThread::Visit visit(connection->thread_);
	co_await visit.there();
	const bool answered = co_await connection->ping(patience);
	co_await visit.back();
	co_return answered;
}

Task<OutboxCounters> ClientConnection::counters(std::shared_ptr<ClientConnection> connection) {
	IoThread::Visit visit(connection->thread_);
	co_await visit.there();
	const OutboxCounters counted = connection->outbox_ ? connection->outbox_->counters() : OutboxCounters{};
	co_await visit.back();
	co_return counted;
}

Task<RdmaUse> ClientConnection::rdma(std::shared_ptr<ClientConnection> connection) {
	IoThread::Visit visit(connection->thread_);
	co_await visit.there();
	const RdmaUse use = connection->thread_.rdma();
	co_await visit.back();
	co_return use;
}

Task<bool> ClientConnection::ping(Nanoseconds patience) {
	if (usable()) co_return false;
	Pong pong(++sequence_);
	pings_.push_back(pong);
	FrameDraft draft = outbox_->begin({.kind = FrameKind::ping, .sequence = pong.sequence});
	outbox_->finish(draft);
	struct WakeAt final : async::Timer {
		WakeAt(async::Loop& loop, Nanoseconds when, async::List<async::Waiter>& who) : loop(loop), who(who) {
			loop.schedule(*this, when);
		}
		~WakeAt() { loop.cancel(*this); }
		void expire() override { loop.resume_soon(who); }
		async::Loop& loop;
		async::List<async::Waiter>& who;
	};
	const WakeAt timer(thread_.loop(), monotonic_now() + patience, pong.waiting);
	if (!pong.arrived) co_await async::Park(pong.waiting);
	co_return pong.arrived;
}

}  // namespace verbena::rpc
