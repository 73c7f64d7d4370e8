// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/recovery.h"

#include <algorithm>
#include <utility>

#include "nic/transport/doubt.h"
#include "nic/transport/in_flight.h"
#include "nic/transport/requester.h"
#include "nic/transport/retry_timer.h"

namespace verbena::transport {

namespace {

constexpr Nanoseconds round_trip_unknown = 250'000;  // before the first sample
constexpr Nanoseconds round_trip_min = 25'000;  // shorter samples measure only the scheduler
constexpr Nanoseconds round_trip_max = 20'000'000;
constexpr unsigned probe_after_round_trips = 4;
constexpr unsigned probes_max = 12;

// Smooths the samples with the weight 1/8, as TCP does (RFC 6298, 2).
void measured(QueuePair& qp, Nanoseconds sample) {
	Nanoseconds& smoothed = qp.outlet->round_trip;
	sample = std::clamp(sample, round_trip_min, round_trip_max);
	smoothed = smoothed ? smoothed - smoothed / 8 + sample / 8 : sample;
}

std::uint32_t window_of(const QueuePair& qp) {
	return std::max(qp.outlet->window ? qp.outlet->window : window_bytes_first, window_packets_min << qp.mtu_shift);
}

// The end of the QP's share of the window, of which a socket has room for `room` bytes; 0: unknown.
Psn window_end(const QueuePair& qp, std::uint32_t room) {
	const Outlet& outlet = *qp.outlet;
	const Recovery& r = qp.cold->recovery;
	std::uint32_t share = window_of(qp) / (outlet.senders + (r.in_flight == 0)), least = share_packets_min;
	if (room != 0) {
		// The QPs that began earlier may still have more than their share in flight.
		const std::uint32_t others = outlet.in_flight - r.in_flight;
		share = std::min(share, room - std::min(room, others));
		least = 1;
	}
	return std::max(qp.una + std::max(share >> qp.mtu_shift, least), r.probe_end);
}

void count_in_flight(QueuePair& qp, std::uint32_t bytes) {
	Outlet& outlet = *qp.outlet;
	const std::uint32_t before = std::exchange(qp.cold->recovery.in_flight, bytes);
	outlet.in_flight += bytes - before;
	outlet.senders = outlet.senders + (bytes != 0) - (before != 0);
}

std::uint32_t unacknowledged_bytes(const QueuePair& qp) {
	return static_cast<std::uint32_t>(qp.next_psn - qp.una) << qp.mtu_shift;
}

// The time of the next probe. The waits between probes are 1, 2, 4, ... times the first.
Nanoseconds next_probe(const QueuePair& qp) {
	const Recovery& r = qp.cold->recovery;
	if (r.probes == probes_max) return never;
	return r.waiting_since + probe_after_round_trips * round_trip(qp) * ((Nanoseconds{2} << r.probes) - 1);
}

// When the local ACK timeout expires (IBA 9.7.6.1.3).
Nanoseconds ack_timeout_deadline(const QueuePair& qp) {
	const Nanoseconds timeout = ack_timeout(qp.cold->attributes.timeout);
	return timeout == never ? never : qp.cold->recovery.waiting_since + timeout;
}

void note_loss(QueuePair& qp, Nanoseconds now) {
	Outlet& outlet = *qp.outlet;
	if (outlet.window_cut_at != 0 && now - outlet.window_cut_at < round_trip(qp)) return;
	outlet.window_cut_at = now;
	outlet.window = window_of(qp) / 2;
	outlet.window_progress = 0;
}

void grow_window(QueuePair& qp, std::uint64_t packets) {
	Outlet& outlet = *qp.outlet;
	const std::uint32_t window = window_of(qp);
	outlet.window_progress += static_cast<std::uint32_t>(packets << qp.mtu_shift);
	if (outlet.window_progress < window) return;
	outlet.window_progress = 0;
	const std::uint32_t most = std::max(outlet.room, outlet.own_room);
	outlet.window = std::min({window + window / 8, window_bytes_max, most ? most : window_bytes_max});
}

}  // namespace

Nanoseconds round_trip(const QueuePair& qp) {
	return qp.outlet->round_trip ? qp.outlet->round_trip : round_trip_unknown;
}

void schedule_timer(Context& context, QueuePair& qp) {
	const Nanoseconds when = std::min({next_probe(qp), ack_timeout_deadline(qp), qp.cold->doubt.look_at});
	qp.cold->timer_armed = when != never;
	context.timers.schedule(*qp.cold, when);
}

void send_probe(Context& context, QueuePair& qp) {
	if (qp.una >= qp.next_psn || (qp.blocked && qp.blocked != blocked_window)) return;
	++context.counters.probes;
	qp.cold->recovery.probe_end = qp.next_psn;
	rewind_to(qp, qp.next_psn - 1);
	transmit(context, qp);
}

Psn window_end(const QueuePair& qp) { return window_end(qp, qp.outlet->room); }

bool window_is_scarce(const QueuePair& qp, Psn end, std::uint32_t bytes_left) {
	constexpr Psn batch = 16;
	// Without packets in flight no acknowledgement comes, and a probe must not wait for one.
	if (end >= qp.next_psn + batch || qp.una >= qp.next_psn || qp.next_psn < qp.cold->recovery.probe_end) return false;
	return end < qp.next_psn + std::min((end - qp.una) / 2, Psn{qp.packets_for(bytes_left)});
}

std::uint32_t read_span(const QueuePair& qp, std::uint32_t offset, std::uint32_t rest) {
	const std::uint32_t part = read_part_bytes - offset % read_part_bytes;
	if (qp.next_psn < qp.cold->recovery.sent_end) return std::min(rest, part);
	const Psn end = window_end(qp, qp.outlet->own_room);
	const std::uint64_t room = end > qp.next_psn ? (end - qp.next_psn) << qp.mtu_shift : 0;
	const std::uint64_t parts = std::clamp<std::uint64_t>(room / read_part_bytes, 1, read_parts_at_once);
	return static_cast<std::uint32_t>(std::min<std::uint64_t>(rest, part + (parts - 1) * read_part_bytes));
}

bool window_allows_request(const QueuePair& qp, std::uint32_t packets) {
	const Psn under_way = qp.next_psn - qp.una;
	if (under_way == 0) return true;
	// The responder counts request packets against max_dest_rd_atomic, and each part of a READ is
	// one. The sum is an upper bound of those in flight: one for each READ, and one for each whole
	// part.
	const Psn asked = qp.reads_in_flight + under_way / (read_part_bytes >> qp.mtu_shift);
	return asked < qp.reads_max && qp.next_psn + packets <= window_end(qp, qp.outlet->own_room);
}

void stop_sending(QueuePair& qp) {
	if (qp.cold->recovery.in_flight != 0) count_in_flight(qp, 0);
}

void note_sent(Context& context, QueuePair& qp, Psn before) {
	Recovery& r = qp.cold->recovery;
	count_in_flight(qp, unacknowledged_bytes(qp));
	if (qp.next_psn > r.sent_end) {
		const bool first_in_flight = qp.una >= r.sent_end;
		// Measure only packets sent for the first time: the answer to a retransmission is ambiguous
		// (RFC 6298, 3).
		const bool times = before >= r.sent_end && r.timed_psn == 0;
		if (first_in_flight || times) {
			const Nanoseconds now = context.fresh_now();
			if (first_in_flight) r.waiting_since = now, r.probes = 0;
			if (times) r.timed_psn = qp.next_psn, r.timed_at = now;
		}
		r.sent_end = qp.next_psn;
	}
	if (!qp.cold->timer_armed) schedule_timer(context, qp);
}

void note_progress(Context& context, QueuePair& qp, Psn before) {
	ColdQueuePair& cold = *qp.cold;
	Recovery& r = cold.recovery;
	const Nanoseconds now = context.fresh_now();
	cold.retries_left = cold.attributes.retry_count;
	cold.rewound_for_gap = false;
	r.waiting_since = now;
	if (r.timed_psn != 0 && qp.una >= r.timed_psn) {
		measured(qp, now - r.timed_at);
		r.timed_psn = 0;
	}
	grow_window(qp, qp.una - before);
	count_in_flight(qp, qp.una < qp.next_psn ? unacknowledged_bytes(qp) : 0);
	if (r.probes != 0) {  // after several probes the timer is set far ahead
		r.probes = 0;
		// The peer has taken the request that an RNR NAK named, so the NAK is forged, or has become
		// untrue.
		if (qp.blocked & blocked_rnr) end_rnr_pause(context, qp);
		else if (cold.timer_armed) schedule_timer(context, qp);
	}
}

void resend_from(Context& context, QueuePair& qp, Psn psn) {
	Recovery& r = qp.cold->recovery;
	++context.counters.retransmissions;
	r.probe_end = 0;
	r.resent_psn = psn;
	r.resent_at = context.fresh_now();
	note_loss(qp, r.resent_at);
	if (context.observer) [[unlikely]]
		context.observer->waits(qp, Waits::again, 0);
	rewind_to(qp, psn);
}

bool nak_needs_resend(Context& context, QueuePair& qp, Psn psn) {
	const Recovery& r = qp.cold->recovery;
	return r.resent_psn != psn || context.fresh_now() - r.resent_at >= round_trip(qp);
}

bool nak_is_due(Context& context, QueuePair& qp) {
	Recovery& r = qp.cold->recovery;
	const Nanoseconds now = context.fresh_now();
	if (qp.gap_reported && now - r.nak_at < round_trip(qp)) return false;
	r.nak_repeated = qp.gap_reported;
	r.nak_at = now;
	return true;
}

void note_not_ready(Context& context, QueuePair& qp) {
	if (qp.outlet->lossless) return;
	qp.cold->recovery.nak_at = context.fresh_now();
	qp.cold->recovery.nak_repeated = true;
}

void note_gap_closed(Context& context, QueuePair& qp) {
	Recovery& r = qp.cold->recovery;
	if (r.nak_at != 0 && !r.nak_repeated) measured(qp, context.fresh_now() - r.nak_at);
	r.nak_at = 0;
}

void handle_no_progress(Context& context, QueuePair& qp) {
	ColdQueuePair& cold = *qp.cold;
	Recovery& r = cold.recovery;
	const Nanoseconds now = context.fresh_now();
	if (!handle_doubt(context, qp, now)) return;
	if (qp.una >= qp.next_psn) return;  // all acknowledged; the next request arms the timer
	if (now >= ack_timeout_deadline(qp)) {
		++context.counters.timeouts;
		if (cold.retries_left == 0)
			return cold.doubt.psn != 0 ? believe_nak(context, qp)
									   : fail_send_queue(context, qp, queues::Status::retry_exceeded);
		--cold.retries_left;
		resend_from(context, qp, qp.una);
		// The peer may only be late, with all these packets still in its socket.
		qp.outlet->window = window_packets_min << qp.mtu_shift;
		r.waiting_since = now;
		r.probes = 0;
		transmit(context, qp);
	} else if (now >= next_probe(qp)) {
		++r.probes;
		send_probe(context, qp);
	}
	if (qp.una < qp.next_psn && !cold.timer_armed) schedule_timer(context, qp);
}

}  // namespace verbena::transport
