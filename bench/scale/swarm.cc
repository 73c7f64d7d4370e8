// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/part.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/scale/raise_to.h"

namespace verbena::scale {
namespace {

constexpr Nanoseconds poll_interval = 500'000;

void lower_to(std::atomic<std::uint64_t>& least, std::uint64_t value) {
	std::uint64_t now = least.load();
	while (now > value && !least.compare_exchange_weak(now, value)) {}
}

}  // namespace

using async::Task;

void Part::fail(std::uint32_t index, Cause cause, const std::string& text) {
	rows[index].cause = cause;
	board.failures[static_cast<std::size_t>(cause)].fetch_add(1);
	if (part.first_failure[0] == '\0') std::strncpy(part.first_failure, text.c_str(), sizeof part.first_failure - 1);
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
		part.connect_sum_ns += ready - begun;
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

Task<void> Part::watch() {
	while (board.settled.load() < options.clients) co_await loop.sleep_for(poll_interval);
	std::uint64_t nobody = 0;
	board.began.compare_exchange_strong(nobody, monotonic_now());
	loop.resume_soon(at_start);
	while (board.finished.load() < options.clients) co_await loop.sleep_for(poll_interval);
	if (options.hold > 0) co_await loop.sleep_until(board.ended.load() + options.hold);
	while (!board.sampled.load()) co_await loop.sleep_for(poll_interval);
	loop.resume_soon(at_end);
}

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

metrics::Families families_of(const Board& board, std::uint32_t clients) {
	using namespace metrics;
	Families all{gauge("verbena_test_clients", "Clients of this test", clients),
		gauge("verbena_test_clients_connected", "Clients that have connected", board.connected.load()),
		board.connects.family("verbena_connect_seconds", "From when a client wants to connect to its proven channel"),
		board.round_trips.family("verbena_round_trip_seconds", "From sending a message to its verified echo")};
	Family& failures = all.emplace_back(Family{.name = "verbena_test_failures_total",
		.help = "Clients that failed, by cause",
		.kind = metrics::Kind::counter,
		.samples = {}});
	for (std::size_t cause = 1; cause < causes; ++cause)
		failures.samples.push_back({.labels = {{"cause", std::string(name_of(static_cast<Cause>(cause)))}},
			.value = static_cast<double>(board.failures[cause].load()),
			.distribution = {}});
	return all;
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
