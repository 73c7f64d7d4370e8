// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/doubt.h"

#include <algorithm>

#include "nic/transport/in_flight.h"
#include "nic/transport/recovery.h"

namespace verbena::transport {

namespace {

// The first look for an acknowledgement comes after this part of the least wait. The distances
// between looks double up to this part of the wait.
constexpr Nanoseconds looks = 8;
// Late answers of a true peer are at most a window behind.
constexpr Psn late_answers_max = 1 << 16;

Nanoseconds least_wait(const QueuePair& qp) {
	return std::max(believe_after_round_trips * round_trip(qp), believe_after_min);
}

Nanoseconds wait(const QueuePair& qp) {
	const Nanoseconds least = least_wait(qp);
	return qp.cold->doubt.forgery_seen ? std::max(least, believe_after_forgery) : least;
}

void clear(Doubt& doubt) {
	doubt.psn = 0;
	doubt.look_at = never;
}

bool refuted(const QueuePair& qp) { return qp.cold->doubt.psn != 0 && qp.una > qp.cold->doubt.psn; }

void end_refuted(Context& context, QueuePair& qp) {
	++context.counters.naks_refuted;
	qp.cold->doubt.forgery_seen = true;
	clear(qp.cold->doubt);
	if (context.report_forgery) context.report_forgery(qp);
}

}  // namespace

void doubt_nak(Context& context, QueuePair& qp, Psn psn, queues::Status status) {
	++context.counters.fatal_naks_received;
	if (refuted(qp)) end_refuted(context, qp);
	Doubt& doubt = qp.cold->doubt;
	if (doubt.psn != 0 && doubt.psn <= psn) return;
	const Nanoseconds now = context.fresh_now();
	doubt.psn = psn;
	doubt.status = status;
	doubt.distance = least_wait(qp) / looks;
	doubt.look_at = now + doubt.distance;
	doubt.believe_at = now + wait(qp);
	schedule_timer(context, qp);
}

void note_stray(Context& context, QueuePair& qp, Psn psn, Psn sent_end, bool ends_connection) {
	if (psn < sent_end && psn + late_answers_max >= qp.una && !ends_connection) return;
	++context.counters.stray_answers;
	qp.cold->doubt.forgery_seen = true;
}

void note_sign_of_life(Context& context, QueuePair& qp) {
	if (qp.cold->doubt.psn != 0) qp.cold->doubt.believe_at = context.fresh_now() + wait(qp);
}

bool believe_rnr_nak(Context& context, QueuePair& qp) {
	Nanoseconds& believe_at = qp.cold->doubt.believe_rnr_at;
	const Nanoseconds now = context.fresh_now();
	if (believe_at == 0) believe_at = now + wait(qp);
	return now >= believe_at;
}

Nanoseconds retry_distance(const QueuePair& qp) { return wait(qp) / looks; }

bool handle_doubt(Context& context, QueuePair& qp, Nanoseconds now) {
	Doubt& doubt = qp.cold->doubt;
	if (doubt.psn == 0) return true;
	if (refuted(qp)) {
		end_refuted(context, qp);
		return true;
	}
	if (now < doubt.look_at) return true;
	if (now >= doubt.believe_at) {
		believe_nak(context, qp);
		return false;
	}
	doubt.distance = std::min(2 * doubt.distance, wait(qp) / looks);
	doubt.look_at = now + doubt.distance;
	send_probe(context, qp);
	return true;
}

void believe_nak(Context& context, QueuePair& qp) {
	Doubt& doubt = qp.cold->doubt;
	const Psn psn = doubt.psn;
	clear(doubt);
	// A NAK acknowledges everything before its PSN.
	skip_to(qp, psn);
	retire_to(context, qp, psn);
	if (qp.state == QpState::rts || qp.state == QpState::sqd) fail_send_queue(context, qp, doubt.status);
}

}  // namespace verbena::transport
