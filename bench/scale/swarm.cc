#include "bench/scale/swarm.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/managed.h"
#include "lib/channel/mux_carrier.h"

namespace verbena::scale {
namespace {

using async::Task;

// At the beginning of each message: the number of its client, and its own number.
struct Mark {
	std::uint32_t client = 0;
	std::uint32_t number = 0;
};

constexpr Nanoseconds look_interval = 500'000;
// An address has 28,232 ephemeral ports, so clients of a server on this host use several source
// addresses of 127.0.0.0/8.
constexpr std::uint32_t clients_per_address = 10'000;
// Clients continue this long after the measured time, so that all of them are still at work when
// the watching process takes its sample at the end of it, even a little late.
constexpr Nanoseconds tail = 100'000'000;

// The times of one client: the measured time and, with a rate, when each message is due.
struct Schedule {
	Schedule(const SwarmOptions& options, Nanoseconds began, std::uint32_t index)
		: from(began + options.warmup),
		  to(from + options.duration),
		  stop(to + tail),
		  interval(options.rate > 0 ? options.clients / options.rate * 1e9 : 0),
		  first_due(began + static_cast<Nanoseconds>(interval * index / options.clients)) {}

	Nanoseconds due(std::uint32_t number) const { return first_due + static_cast<Nanoseconds>(interval * number); }

	Nanoseconds from, to;   // the measured time, with a duration
	Nanoseconds stop;       // with a duration: no message begins after this
	double interval;        // nanoseconds between two messages of the client; 0: no rate
	Nanoseconds first_due;  // with a rate
};

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
	std::uint64_t now = peak.load();
	while (now < value && !peak.compare_exchange_weak(now, value)) {}
}

void lower_to(std::atomic<std::uint64_t>& least, std::uint64_t value) {
	std::uint64_t now = least.load();
	while (now > value && !least.compare_exchange_weak(now, value)) {}
}

// The reason why a connection was not made: the class is counted, the text is reported.
struct Why {
	channel::ConnectTrouble trouble = channel::ConnectTrouble::none;
	std::string text;
};

// The clients of one process, and the loop that runs them.
//
// Lifetime: must outlive its coroutines; run_part() waits for them.
struct Part {
	const SwarmOptions& options;
	Board& board;
	ClientRow* rows;
	PartRows& part;
	async::Loop loop;
	async::Semaphore handshakes{loop, options.handshakes};
	std::unique_ptr<channel::RcTransport> transport;
	std::unique_ptr<channel::ManagedEvents> events;  // with ConnectBy::rdmacm; else null
	std::vector<std::byte> pattern;
	bool loopback = false;  // whether all servers are at IPv4 loopback addresses
	async::List<async::Waiter> at_start, at_end;
	// For logical clients.
	channel::MuxGroup group;
	std::uint32_t carriers_wanted = 0, carriers_settled = 0;
	Why carrier_failure;
	async::List<async::Waiter> at_carriers;

	channel::ConnectOptions where(std::uint32_t index, const async::Address* from);
	// Sets the source address of a client; false: let the kernel choose it.
	bool address_of(std::uint32_t index, async::Address& from) const;
	// Connects one carrier of logical clients.
	Task<void> carrier(std::uint32_t index);
	// Connects one client; null, with the reason in `why`, if that failed.
	Task<std::unique_ptr<channel::Channel>> connect(std::uint32_t index, Why& why);
	// Makes a connection, not a logical channel; null, with the reason in `why`, if that failed.
	Task<std::unique_ptr<channel::Channel>> connect_stream(channel::ConnectOptions options, Why& why);
	// One client from its first step to its end.
	Task<void> client(std::uint32_t index);
	// Sends a client's messages and checks the echoes; false if the client failed.
	Task<bool> talk(std::uint32_t index, channel::Channel& channel);
	// A message of the client after its first `head` bytes, which hold its Mark.
	std::span<const std::byte> body_of(std::uint32_t index, std::size_t head) const {
		return std::span(pattern).subspan(index % 64, options.message_bytes - head);
	}
	// Whether these bytes are message `mark.number` of client `mark.client`.
	bool is_message(std::span<const std::byte> bytes, const Mark& mark) const;
	// Records the latency of an echo that has just arrived.
	void count_echo(Nanoseconds start, Nanoseconds now, const Schedule& schedule);
	// Starts and ends the clients of this process when the board says so.
	Task<void> watch();
	void fail(std::uint32_t index, Cause cause, const std::string& text);
};

void Part::fail(std::uint32_t index, Cause cause, const std::string& text) {
	rows[index].cause = cause;
	board.failures[static_cast<std::size_t>(cause)].fetch_add(1);
	if (part.first_failure[0] == '\0') std::strncpy(part.first_failure, text.c_str(), sizeof part.first_failure - 1);
}

bool Part::address_of(std::uint32_t index, async::Address& from) const {
	if (!loopback || events) return false;
	auto& address = reinterpret_cast<sockaddr_in&>(from.storage);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + options.first_address + index / clients_per_address);
	from.length = sizeof address;
	return true;
}

channel::ConnectOptions Part::where(std::uint32_t index, const async::Address* from) {
	return {.protection = options.protection,
		.host = options.hosts[index % options.hosts.size()],
		.port = options.port,
		.patience = options.patience,
		.from = from,
		.handshakes = options.handshakes > 0 ? &handshakes : nullptr};
}

Task<std::unique_ptr<channel::Channel>> Part::connect_stream(channel::ConnectOptions where, Why& why) {
	where.trouble = &why.trouble;
	std::unique_ptr<channel::Channel> channel;
	if (options.transport == Transport::rdma) {
		auto connecting = events ? channel::connect_managed(*events, *transport, std::move(where))
								 : channel::connect(*transport, std::move(where));
		auto made = co_await std::move(connecting);
		if (made) channel = std::move(*made);
		else why.text = made.error();
	} else {
		const channel::TcpOptions tcp;
		auto made = co_await channel::connect_tcp(loop, std::move(where), tcp);
		if (made) channel = std::move(*made);
		else why.text = made.error();
	}
	co_return std::move(channel);
}

Task<void> Part::carrier(std::uint32_t index) {
	async::Address from;
	const bool chosen = address_of(index, from);
	channel::Negotiated granted;
	channel::ConnectOptions to = where(index, chosen ? &from : nullptr);
	to.shared_queue_pairs = options.queue_pairs;
	to.logical_channels = options.clients;
	to.negotiated = &granted;
	auto connecting = connect_stream(std::move(to), carrier_failure);
	auto channel = co_await std::move(connecting);
	if (channel && granted.shared_queue_pairs < options.queue_pairs) {
		carrier_failure.text = "the server lets logical clients share at most " +
			std::to_string(granted.shared_queue_pairs) + " queue pairs: use a smaller --qps";
		channel.reset();
	}
	if (channel)
		group.add(std::make_unique<channel::MuxCarrier>(
			std::move(channel), channel::Mux::Side::opener, mux_options(options)));
	if (++carriers_settled == carriers_wanted) loop.resume_soon(at_carriers);
}

Task<std::unique_ptr<channel::Channel>> Part::connect(std::uint32_t index, Why& why) {
	if (!options.logical()) {
		async::Address from;
		const bool chosen = address_of(index, from);
		auto connecting = connect_stream(where(index, chosen ? &from : nullptr), why);
		auto channel = co_await std::move(connecting);
		co_return std::move(channel);
	}
	while (carriers_settled < carriers_wanted) co_await async::Park(at_carriers);
	std::unique_ptr<channel::Channel> channel;
	if (group.carriers().empty()) {
		why = carrier_failure;
		co_return std::move(channel);
	}
	auto opening = group.open(index);
	auto opened = co_await std::move(opening);
	if (opened) channel = std::move(*opened);
	else why.text = opened.error();
	co_return std::move(channel);
}

Task<void> Part::client(std::uint32_t index) {
	if (options.stagger > 0) co_await loop.sleep_for(index % 10 * options.stagger);
	Why why;
	const Nanoseconds begun = monotonic_now();
	lower_to(board.connecting_began, begun);
	auto connecting = connect(index, why);
	const std::unique_ptr<channel::Channel> channel = co_await std::move(connecting);
	if (channel) {
		const Nanoseconds ready = monotonic_now();
		part.connect.record(ready - begun);
		if (options.metered) board.connects.record(ready - begun);
		rows[index].connected = true;
		rows[index].connect_ms = static_cast<float>(static_cast<double>(ready - begun) / 1e6);
		raise_to(board.connecting_ended, ready);
		board.connected.fetch_add(1);
	} else {
		fail(index, cause_of(why.trouble), why.text);
	}
	board.settled.fetch_add(1);
	co_await async::Park(at_start);
	const bool good = channel && co_await talk(index, *channel);
	const Nanoseconds done = monotonic_now();
	raise_to(board.ended, done);
	if (good) lower_to(board.first_finished, done);
	board.finished.fetch_add(1);
	co_await async::Park(at_end);
	if (!channel) co_return;
	channel->close();
	co_await channel->until_closed();
}

// Waits for a send that found no room at once. If it fails, the next receive() has the reason.
Task<void> finish(channel::Channel::Sending& sending) { co_await sending; }

bool Part::is_message(std::span<const std::byte> bytes, const Mark& mark) const {
	const std::size_t head = std::min<std::size_t>(sizeof mark, options.message_bytes);
	const auto body = body_of(mark.client, head);
	return bytes.size() == options.message_bytes && std::memcmp(bytes.data(), &mark, head) == 0 &&
		(body.empty() || std::memcmp(bytes.data() + head, body.data(), body.size()) == 0);
}

void Part::count_echo(Nanoseconds start, Nanoseconds now, const Schedule& schedule) {
	if (!options.timed() || (start >= schedule.from && now <= schedule.to)) {
		part.latency.record(now - start);
		part.latency_sum += static_cast<double>(now - start);
	}
	if (options.metered) board.round_trips.record(now - start);
}

// Closes a channel whose server is behind with its echoes and sends none for `patience`.
class EchoWatch final : public async::Timer {
public:
	EchoWatch(channel::Channel& channel, const std::uint32_t& sent, const std::uint32_t& done, Nanoseconds patience)
		: channel_(channel), sent_(sent), done_(done), patience_(patience) {
		if (patience > 0) look_again(monotonic_now() + patience);
	}
	~EchoWatch() { channel_.loop().cancel(*this); }
	bool expired() const { return expired_; }

private:
	void look_again(Nanoseconds when) {
		done_then_ = done_;
		waiting_ = sent_ != done_;
		channel_.loop().schedule(*this, when);
	}
	void expire() override {
		if (!waiting_ || done_ != done_then_) return look_again(monotonic_now() + patience_);
		expired_ = true;
		channel_.close();
	}

	channel::Channel& channel_;
	const std::uint32_t &sent_, &done_;
	Nanoseconds patience_;
	std::uint32_t done_then_ = 0;
	bool waiting_ = false, expired_ = false;
};

Task<bool> Part::talk(std::uint32_t index, channel::Channel& channel) {
	const Schedule schedule(options, board.began.load(), index);
	const bool paced = schedule.interval > 0;
	std::vector<Nanoseconds> begun(options.window);
	Nanoseconds sum = 0;
	std::uint32_t sent = 0, done = 0;
	const EchoWatch watch(channel, sent, done, options.echo_patience);
	// The latest message. While it waits for room, echoes are received: otherwise both ends would
	// wait for each other if they cannot buffer a whole window.
	Mark last_sent;
	std::optional<channel::Channel::Sending> sending;
	async::Job waiting;

	const auto wants_more = [&] {
		return (options.messages == 0 || sent < options.messages) &&
			(!options.timed() || monotonic_now() < schedule.stop);
	};
	while (true) {
		while (sent - done < options.window && waiting.done() && wants_more()) {
			Nanoseconds start = monotonic_now();
			if (paced) {
				const Nanoseconds due = schedule.due(sent);
				if (options.timed() && due >= schedule.stop) {
					if (sent == done) co_await loop.sleep_until(schedule.stop);
					break;
				}
				if (due > start) {
					if (sent > done) break;  // receive the outstanding echoes first
					co_await loop.sleep_until(due);
					start = monotonic_now();  // the lateness of our own timer must not count
				} else if (sent > 0) {
					start = due;  // the wait for earlier messages counts as latency of this one
				}
			}
			begun[sent % options.window] = start;
			last_sent = {.client = index, .number = sent};
			const std::span<const std::byte> whole_mark = std::as_bytes(std::span(&last_sent, 1));
			const auto head = whole_mark.first(std::min<std::size_t>(whole_mark.size(), options.message_bytes));
			sending.emplace(channel, head, body_of(index, head.size()));
			if (!sending->await_ready()) waiting = async::Job(loop, finish(*sending));
			else if (const auto done_at_once = sending->await_resume();
				!done_at_once && done_at_once.error() == channel::Trouble::too_large) {
				fail(index, Cause::lost,
					"the server accepts no message of " + std::to_string(options.message_bytes) + " bytes");
				co_return false;  // the channel is still open, and no echo would come
			}
			++sent;
		}
		if (sent == done) {
			if (waiting.done()) break;
			co_await async::NextTurn(loop);  // the echo came before its send was resumed
			continue;
		}
		auto echo = co_await channel.receive();
		if (!echo && watch.expired()) {
			fail(index, Cause::timed_out, "the server sends no echo in time");
			co_return false;
		}
		if (!echo) {
			fail(index, Cause::lost,
				channel.reason().empty() ? std::string(channel::name_of(echo.error())) : channel.reason());
			co_return false;
		}
		if (!is_message(echo->bytes(), {.client = index, .number = done})) {
			fail(index, Cause::wrong_echo, "an echo differs from the message that was sent");
			co_return false;
		}
		*echo = {};
		const Nanoseconds now = monotonic_now(), start = begun[done % options.window];
		count_echo(start, now, schedule);
		sum += now - start;
		++done;
		rows[index].echoes = done;
		rows[index].latency_ms = static_cast<float>(static_cast<double>(sum) / 1e6 / done);
		if (options.think > 0 && !paced && wants_more()) co_await loop.sleep_for(options.think);
	}
	co_return true;
}

Task<void> Part::watch() {
	while (board.settled.load() < options.clients) co_await loop.sleep_for(look_interval);
	std::uint64_t nobody = 0;
	board.began.compare_exchange_strong(nobody, monotonic_now());
	loop.resume_soon(at_start);
	while (board.finished.load() < options.clients) co_await loop.sleep_for(look_interval);
	if (options.hold > 0) co_await loop.sleep_until(board.ended.load() + options.hold);
	loop.resume_soon(at_end);
}

}  // namespace

std::string_view name_of(Cause cause) {
	switch (cause) {
		case Cause::none: return "good";
		case Cause::connect: return "connect";
		case Cause::timed_out: return "timed out";
		case Cause::descriptors: return "no descriptor";
		case Cause::ports: return "no port";
		case Cause::lost: return "lost";
		case Cause::wrong_echo: return "wrong echo";
	}
	return "";
}

std::string_view name_of(Without what) {
	switch (what) {
		case Without::nothing: break;
		case Without::coalescing: return "coalescing";
		case Without::pooling: return "pooling";
		case Without::batched_polling: return "batched polling";
	}
	return "";
}

Cause cause_of(channel::ConnectTrouble trouble) {
	switch (trouble) {
		case channel::ConnectTrouble::no_descriptor: return Cause::descriptors;
		case channel::ConnectTrouble::no_port: return Cause::ports;
		case channel::ConnectTrouble::timed_out: return Cause::timed_out;
		default: return Cause::connect;
	}
}

channel::RcOptions rc_options(const SwarmOptions& options, std::uint32_t connections) {
	channel::RcOptions rc = channel::many_connections({.units_start = std::max(256u, std::min(connections, 4096u)),
		.units_max = std::max(8192u, connections * 8),
		.connections_max = connections + 16});
	rc.coalesce = options.without != Without::coalescing;
	if (!options.logical()) return rc;
	// A carrier has the traffic of many clients.
	rc.units_max = std::max(8192u, connections * 256);
	rc.send_depth = 64;
	rc.send_units_max = 32;
	return rc;
}

channel::MuxOptions mux_options(const SwarmOptions& options) {
	channel::MuxOptions mux;
	if (options.without == Without::coalescing) mux.batch_bytes = 1;
	return mux;
}

std::expected<void, std::string> run_part(const SwarmOptions& options, std::uint32_t first, std::uint32_t last,
	Board& board, ClientRow* rows, PartRows& part) {
	Part state{
		.options = options, .board = board, .rows = rows, .part = part, .loop = async::Loop({.spin = options.spin})};
	const auto share = [&](std::uint32_t upto) {
		return static_cast<std::uint32_t>(std::uint64_t{options.queue_pairs} * upto / options.clients);
	};
	state.carriers_wanted = share(last) - share(first);
	const std::uint32_t connections = options.logical() ? state.carriers_wanted : last - first;
	if (options.transport == Transport::rdma) {
		auto transport = channel::RcTransport::open(state.loop, options.wish, rc_options(options, connections));
		if (!transport) return std::unexpected(transport.error());
		state.transport = std::move(*transport);
		const lib::OpenDevice& device = state.transport->device();
		std::strncpy(part.device, device.choice.device.c_str(), sizeof part.device - 1);
		std::strncpy(part.gid, lib::format_gid(device.choice.gid).c_str(), sizeof part.gid - 1);
		part.mtu = device.mtu_bytes();
		if (options.connect_by == ConnectBy::rdmacm) {
			auto events = channel::ManagedEvents::open(state.loop);
			if (!events) return std::unexpected(events.error());
			state.events = std::move(*events);
		}
	}
	state.loopback = true;
	for (const std::string& host : options.hosts) {
		const auto address = async::resolve(host, options.port);
		if (!address) return std::unexpected(address.error());
		state.loopback = state.loopback && address->family() == AF_INET && async::is_loopback(*address);
	}
	state.pattern.resize(options.message_bytes + 64);
	for (std::size_t i = 0; i < state.pattern.size(); ++i) state.pattern[i] = static_cast<std::byte>(i * 31 + i / 251);

	for (std::uint32_t each = 0; each < state.carriers_wanted; ++each)
		state.loop.spawn(state.carrier(share(first) + each));
	for (std::uint32_t index = first; index < last; ++index) state.loop.spawn(state.client(index));
	state.loop.spawn(state.watch());
	state.loop.run_until([&] { return state.loop.spawned() == 0; });
	for (auto& each : state.group.carriers()) each->close();
	for (auto& each : state.group.carriers()) state.loop.complete(each->until_ended());
	return {};
}

}  // namespace verbena::scale
