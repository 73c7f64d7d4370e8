// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/fabric.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace verbena::sim {

using transport::Outlet;
using transport::QueuePair;

struct Fabric::Path {
	Path(Host& from, Host& to, bool lossless) : from(from), to(to), direction(std::make_unique<wire::Direction>()) {
		outlet.slots.attach(direction.get());
		outlet.acks.attach(direction.get());
		outlet.lossless = lossless;
		outlet.peer = to.id;
		outlet.user = this;
		slots.attach(direction.get());
		acks.attach(direction.get());
		std::copy(from.gid.begin(), from.gid.end(), addresses.source);
		std::copy(to.gid.begin(), to.gid.end(), addresses.destination);
		addresses.hop_limit = 64;
		direction->addresses[0] = addresses;
		flow.source = from.gid;
		flow.destination = to.gid;
		flow.source_port = static_cast<std::uint16_t>(0xc000 + from.id);
	}

	Host& from;
	Host& to;
	std::unique_ptr<wire::Direction> direction;
	Outlet outlet;
	wire::SlotReader slots;
	wire::AckReader acks;
	wire::AddressPair addresses{};
	wire::Flow flow;
	Nanoseconds free_at = 0;  // the wire transmits earlier packets until then
	bool scheduled = false;  // an event for this path is pending
};

Fabric::Fabric(const FabricOptions& options) : options_(options), random_(options.seed) {}
Fabric::~Fabric() = default;

Host& Fabric::add_host() {
	return *hosts_.emplace_back(
		std::make_unique<Host>(*this, static_cast<std::uint32_t>(hosts_.size() + 1), random_.fork(), now_));
}

Fabric::Path& Fabric::path(Host& from, Host& to) {
	std::unique_ptr<Path>& found = paths_[{from.id, to.id}];
	if (!found) found = std::make_unique<Path>(from, to, options_.lossless);
	return *found;
}

Outlet& Fabric::outlet(Host& from, Host& to) { return path(from, to).outlet; }

void Fabric::pass(Host& host, const std::function<void()>& work) {
	host.adapter.begin_pass(now_);
	work();
	end_pass(host);
}

void Fabric::end_pass(Host& host) {
	host.adapter.finish_pass();
	transport::Context& context = host.adapter.context();
	for (Outlet* outlet = context.take_touched(); outlet;) {
		Outlet* next = outlet->next_touched;
		outlet->touched = false;
		schedule_path(*static_cast<Path*>(outlet->user));
		outlet = next;
	}
	host.events.insert(host.events.end(), context.raised_events.begin(), context.raised_events.end());
	context.raised_events.clear();
	while (context.raised_queues.take()) {}
}

// Schedules the draining or reading of a path to which something was written.
void Fabric::schedule_path(Path& path) {
	if (path.scheduled) return;
	path.scheduled = true;
	const Nanoseconds delay = options_.lossless ? options_.faults.delay + random_.below(options_.faults.jitter + 1) : 0;
	schedule(std::max(now_ + delay, path.free_at), {.path = &path});
}

void Fabric::resume_sender(Path& path) {
	const transport::Context& context = path.from.adapter.context();
	if (!path.outlet.waiting_first && !context.responding_first && context.refusals.empty()) return;
	++statistics.ring_full;
	pass(path.from, [&] { path.from.adapter.resume(path.outlet); });
}

// Lossy fabric: turns at most 16 slots into packets, which depart one after the other.
void Fabric::drain(Path& path) {
	path.scheduled = false;
	wire::Slot image;
	path.free_at = std::max(path.free_at, now_);
	for (int i = 0; i < 16 && path.slots.read(image); ++i) {
		const std::byte* payload = path.slots.payload(image, wire::extension_bytes(wire::facts(image.opcode())));
		check(payload, "a slot's payload lies in the arena");
		for (std::uint32_t packet = 0; packet < wire::packet_count(image); ++packet) {
			std::vector<std::byte> bytes(wire::packet_bytes_max);
			bytes.resize(wire::write_packet(image, packet, payload, path.flow, 0, bytes));
			path.free_at += 1 + bytes.size() * options_.ps_per_byte / 1000;
			const wire::Piece piece = wire::piece_of(image, packet);
			++statistics.packets;
			if (loses && loses({path.from, piece.opcode, piece.psn, image.syndrome()})) ++statistics.dropped;
			else depart(path, path.free_at, bytes);
		}
		path.slots.advance();
	}
	path.slots.release();
	if (path.slots.ready()) schedule_path(path);
	resume_sender(path);
}

// Applies the random faults to a packet and schedules the arrival of each copy.
void Fabric::depart(Path& path, Nanoseconds when, const std::vector<std::byte>& bytes) {
	const Faults& faults = options_.faults;
	if (random_.chance(faults.drop)) {
		++statistics.dropped;
		return;
	}
	const int copies = random_.chance(faults.duplicate) ? 2 : 1;
	statistics.duplicated += copies - 1;
	for (int copy = 0; copy < copies; ++copy) {
		Event event{.path = &path, .bytes = bytes};
		if (random_.chance(faults.corrupt)) {
			++statistics.corrupted;
			for (std::uint64_t flips = random_.between(1, 3); flips; --flips) {
				const std::uint64_t bit = random_.below(bytes.size() * 8);
				event.bytes[bit / 8] ^= std::byte{1} << bit % 8;
			}
		}
		Nanoseconds arrival = when + faults.delay + random_.below(faults.jitter + 1);
		if (random_.chance(faults.reorder)) {
			++statistics.reordered;
			arrival += random_.between(1, faults.reorder_by);
		}
		schedule(arrival, std::move(event));
	}
}

void Fabric::deliver(Path& path, const std::vector<std::byte>& bytes) {
	const auto parsed = wire::parse(path.flow, bytes, {});
	if (!parsed) {
		++statistics.refused[static_cast<int>(parsed.error())];
		return;
	}
	path.to.adapter.handle_slot(outlet(path.to, path.from), parsed->slot, parsed->payload.data(), path.addresses);
}

// Lossy fabric: one pass for a packet and those that reach the same host within `batch` after it.
void Fabric::arrive(Path& path, const std::vector<std::byte>& bytes) {
	pass(path.to, [&] {
		deliver(path, bytes);
		while (!events_.empty()) {
			const auto next = events_.begin();
			Event& event = next->second;
			if (next->first.first > now_ + options_.batch || !event.path || event.bytes.empty() ||
				&event.path->to != &path.to)
				break;
			deliver(*event.path, event.bytes);
			events_.erase(next);
		}
	});
}

// Lossless fabric: the receiving host reads the ring itself, a random number of slots in one pass.
void Fabric::read(Path& path) {
	path.scheduled = false;
	pass(path.to, [&] {
		Outlet& back = outlet(path.to, path.from);
		wire::AckRecord record;
		while (path.acks.read(record)) path.to.adapter.handle_ack(back, record);
		wire::Slot image;
		for (std::uint64_t left = random_.between(1, 32); left && path.slots.read(image); --left) {
			const std::byte* payload = path.slots.payload(image, wire::extension_bytes(wire::facts(image.opcode())));
			check(payload, "a slot's payload lies in the arena");
			path.to.adapter.handle_slot(back, image, payload, path.addresses);
			path.slots.advance();
		}
		path.slots.release();
	});
	if (path.slots.ready()) schedule_path(path);
	resume_sender(path);
}

void Fabric::at(Nanoseconds when, std::function<void()> what) {
	schedule(std::max(when, now_), {.action = std::move(what)});
}

// Runs the earliest timers if they are due at `until` or before. False if none is.
bool Fabric::run_timers(Nanoseconds until) {
	Nanoseconds due = never;
	for (auto& host : hosts_) due = std::min(due, host->adapter.poll_timeout());
	if (due == never || due > until) return false;
	now_ = std::max(now_, due);
	for (auto& host : hosts_)
		if (host->adapter.poll_timeout() <= now_) pass(*host, [&] { host->adapter.handle_timeouts(); });
	return true;
}

// Runs one event, or the timers of one moment. False if neither is left.
bool Fabric::step() {
	++statistics.events;
	if (run_timers(events_.empty() ? never : events_.begin()->first.first)) return true;
	if (events_.empty()) return false;
	const auto first = events_.begin();
	now_ = std::max(now_, first->first.first);
	Event event = std::move(first->second);
	events_.erase(first);
	if (!event.path) event.action();
	else if (!event.bytes.empty()) arrive(*event.path, event.bytes);
	else if (options_.lossless) read(*event.path);
	else drain(*event.path);
	return true;
}

Ended Fabric::run_until(const std::function<bool()>& goal) {
	const std::uint64_t events_end = statistics.events + options_.events_max;
	const Nanoseconds end = now_ + options_.time_max;
	for (;;) {
		if (each_step) each_step();
		if (goal()) return Ended::reached;
		if (statistics.events >= events_end || now_ >= end) return Ended::limit;
		if (!step()) return Ended::idle;
	}
}

void Fabric::run_for(Nanoseconds time) {
	const Nanoseconds end = now_ + time;
	const auto over = std::make_shared<bool>(false);  // the event outlives a run that hits a bound
	at(end, [over] { *over = true; });
	run_until([&] { return *over; });
}

std::string Fabric::describe() {
	std::string text;
	for (auto& host : hosts_) {
		host->adapter.queue_pairs().for_each([&](QueuePair& qp) {
			if (qp.sq_empty() && qp.una == qp.next_psn && qp.pending_answer == transport::ack_none &&
				qp.cold->pending_count == 0)
				return;
			char line[320];
			std::snprintf(line, sizeof line,
				"host %u qp %06x state %d: sq tail %u next %u head %u offset %u, una %llx next_psn %llx, blocked %d, "
				"reads %d, timer %d, "
				"retries %d; "
				"expected %llx answer %d pending %u gap %d\n",
				host->id, qp.qpn, static_cast<int>(qp.state.load()), qp.sq_tail.load(), qp.sq_next, qp.sq_head.load(),
				qp.message_offset, static_cast<unsigned long long>(qp.una),
				static_cast<unsigned long long>(qp.next_psn), qp.blocked, qp.reads_in_flight, qp.cold->timer_armed,
				qp.cold->retries_left, static_cast<unsigned long long>(qp.expected_psn), qp.pending_answer,
				qp.cold->pending_count, qp.gap_reported);
			text += line;
		});
	}
	return text;
}

}  // namespace verbena::sim
