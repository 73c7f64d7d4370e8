// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/retry_timer.h"

#include "nic/transport/in_flight.h"
#include "nic/transport/recovery.h"
#include "nic/transport/requester.h"

namespace verbena::transport {

Nanoseconds ack_timeout(std::uint8_t timeout) { return timeout == 0 ? never : Nanoseconds{4096} << (timeout & 31); }

Nanoseconds rnr_pause(std::uint8_t code) {
	static constexpr std::uint32_t tens_of_us[32] = {65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256,
		384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
	return Nanoseconds{tens_of_us[code & 31]} * 10'000;
}

void pause_requester(Context& context, QueuePair& qp, Nanoseconds pause) {
	ColdQueuePair& cold = *qp.cold;
	qp.blocked |= blocked_rnr;
	cold.timer_armed = true;
	context.timers.schedule(cold, context.fresh_now() + pause);
	// note_progress() then looks whether an acknowledgement ends the pause.
	if (!qp.outlet->lossless) cold.recovery.probes = 1;
}

void end_rnr_pause(Context& context, QueuePair& qp) {
	qp.blocked &= ~blocked_rnr;
	schedule_timer(context, qp);
}

void handle_retry_timer(Context& context, QueuePair& qp) {
	ColdQueuePair& cold = *qp.cold;
	cold.timer_armed = false;
	if (qp.blocked & blocked_rnr) {
		qp.blocked &= ~blocked_rnr;
		cold.recovery.waiting_since = context.now;
		cold.recovery.probes = 0;
		transmit(context, qp);
		if (cold.timer_armed || qp.outlet->lossless) return;
		// transmit() sent nothing, because late acknowledgements during the pause advanced the
		// queue. Wait for the requests that are still in flight.
	}
	if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
	if (!qp.outlet->lossless) return handle_no_progress(context, qp);
	// On the same host only handle_unexpected_psn() (completer.cc) arms the timer. Without progress
	// since then there will be none.
	if (qp.una == cold.una_at_timer && qp.una < qp.next_psn) {
		++context.counters.timeouts;
		fail_send_queue(context, qp, queues::Status::retry_exceeded);
	}
}

}  // namespace verbena::transport
