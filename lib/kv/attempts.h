// SPDX-License-Identifier: Apache-2.0
// Attempts: what is known about one operation that may be sent several times, on one connection
// after the other. It says whether the operation may be sent again, and how it fails at its
// deadline.
//
// Threads: any one at a time; no I/O, and time is an argument.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "lib/kv/error.h"

namespace verbena::kv {

class Attempts {
public:
	// A change is not sent again when this time has passed since it was first sent. It is shorter
	// than the time for which a server remembers a client without a connection (Sessions::idle).
	static constexpr Nanoseconds resend_max = 240'000'000'000;

	// A GET may always be sent again.
	explicit Attempts(bool is_change) : is_change_(is_change) {}

	// The operation leaves on a connection to the server with this identity (Hello::identity).
	void sent(std::uint64_t identity, Nanoseconds now) {
		under_way_ = true;
		if (!lost_) identity_ = identity;
		if (first_sent_ == 0) first_sent_ = now;
		last_sent_ = now;
	}
	// The server has said that it did not execute this attempt.
	void refused() { under_way_ = false; }
	// The connection ended without an answer to this attempt.
	void lost() {
		lost_ = lost_ || under_way_;
		under_way_ = false;
	}

	// Whether it is known that no attempt has changed, or will change, anything.
	bool not_executed() const { return !lost_ && !under_way_; }
	// Whether the operation may be sent to the server with this identity; false: it ends with
	// Error::lost. `forgot` is Hello::forgot.
	bool may_send(std::uint64_t identity, bool forgot, Nanoseconds now) const {
		if (may_move()) return true;
		return identity == identity_ && !forgot && now - first_sent_ < resend_max;
	}
	// Whether another server may execute the operation.
	bool may_move() const { return !is_change_ || !lost_; }
	Nanoseconds last_sent() const { return last_sent_; }
	// The error with which the operation ends at its deadline.
	Error at_deadline() const { return not_executed() ? Error::unavailable : Error::timeout; }

private:
	bool is_change_;
	bool under_way_ = false;  // it was sent on the present connection
	bool lost_ = false;       // an earlier attempt has no answer
	std::uint64_t identity_ = 0;  // the server to which unanswered attempts were sent
	Nanoseconds first_sent_ = 0, last_sent_ = 0;
};

}  // namespace verbena::kv
