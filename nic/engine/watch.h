// SPDX-License-Identifier: Apache-2.0
// Decides whether what arrives wakes the progress thread while the program makes verbs calls. There
// is one object for packets from other hosts, and one for requests of processes of this host.
//
// A program that polls its queues takes in by itself what arrives, and a thread that wakes for each
// packet takes the processor and the engine's lock from it. A program that waits for bytes in
// memory makes verbs calls too, for its own requests, but never takes in what its peer sends: then
// the progress thread must wake at once. The two cannot be distinguished beforehand, so the
// progress thread learns from what it finds.
//
//   silent    Packets wait for the program or for the thread's next tick. If two of the thread's
//             last eight ticks found packets that had waited since the tick before, while the
//             program ran and made no pass: watching.
//             Requests of this host wait for the program, or for a kick of a peer that has seen no
//             pass for a while (Link::kick_if_stuck). If four such kicks within two milliseconds
//             were needed, although the program made passes between them: watching. A program that
//             was preempted is kicked less often than that. If ticks found WRITEs late, as with
//             packets: watching; the peer waits for bytes in memory as well, and does not kick.
//   watching  What arrives wakes the thread. If three quarters of 32 wakes found nothing: silent.
//
// On a processor that both share, the thread that wakes interrupts the program and always finds the
// packet. So watching also ends by itself.
//
// A process whose program makes no verbs calls is ARMED, and everything wakes its thread, whatever
// this object says.
//
// Threads: under the engine's lock. Time is an argument.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace verbena::engine {

// A state that ends by itself after a millisecond. If it soon begins again, it lasts twice as long
// as the last time, up to a second.
class Spell {
public:
	static constexpr Nanoseconds first = 1'000'000, longest = 1'000'000'000;
	// It begins again soon if that is within four times its last duration, or in this time.
	static constexpr Nanoseconds soon_min = 20'000'000;

	bool active() const { return active_; }
	void begin(Nanoseconds now) {
		const bool soon = now - ended_ < std::max(4 * lasts_, soon_min);
		lasts_ = soon ? std::clamp(2 * lasts_, first, longest) : first;
		until_ = now + lasts_;
		active_ = true;
	}
	void end(Nanoseconds now) {
		active_ = false;
		ended_ = now;
	}
	// Ends it if its time is over.
	void expire(Nanoseconds now) {
		if (active_ && now >= until_) end(now);
	}

private:
	bool active_ = false;
	Nanoseconds until_ = 0, ended_ = 0, lasts_ = 0;
};

// The last eight ticks of the progress thread. Two that found something late are a habit.
class LateTicks {
public:
	// Returns true if the habit shows now, and then forgets the ticks.
	bool add(bool late) {
		ticks_ = static_cast<std::uint8_t>(ticks_ << 1 | (late ? 1 : 0));
		if (std::popcount(ticks_) < 2) return false;
		ticks_ = 0;
		return true;
	}

private:
	std::uint8_t ticks_ = 0;  // the last of them in the lowest bit
};

// Kicks without which a request would have waited. `habit` of them within two milliseconds are a
// habit; a program that was preempted needs fewer.
template <std::size_t habit> class NeededKicks {
public:
	static constexpr Nanoseconds within = 2'000'000;

	// Returns true if the habit shows now.
	bool add(Nanoseconds now) {
		Nanoseconds& oldest = times_[next_++ % times_.size()];
		const bool often = oldest != 0 && now - oldest <= within;
		oldest = now;
		return often;
	}
	void forget() { times_ = {}; }

private:
	// The times of the last ones; 0: none. The next one replaces the oldest.
	std::array<Nanoseconds, habit - 1> times_{};
	std::uint32_t next_ = 0;
};

class Watch {
public:
	static constexpr std::uint32_t wakes_judged = 32;

	bool watching() const { return spell_.active(); }

	void expire(Nanoseconds now) { spell_.expire(now); }

	// A tick. `waited`: it found packets, and since the tick before the program has run and made no
	// pass.
	void tick(bool waited, Nanoseconds now) {
		spell_.expire(now);
		if (!watching() && late_.add(waited)) begin(now);
	}

	// A kick by a peer that had waited; it found a request, and since the kick before the program
	// has made passes.
	void needed_kick(Nanoseconds now) {
		if (needed_kicks_.add(now) && !watching()) begin(now);
	}

	// A wake while watching. `found`: there was something to do.
	void wake(bool found, Nanoseconds now) {
		++wakes_;
		needless_ += found ? 0 : 1;
		const bool judged = wakes_ >= wakes_judged;
		if (judged && 4 * needless_ >= 3 * wakes_) spell_.end(now);
		else spell_.expire(now);
		if (judged) wakes_ = needless_ = 0;
	}

private:
	void begin(Nanoseconds now) {
		wakes_ = needless_ = 0;
		needed_kicks_.forget();
		spell_.begin(now);
	}

	Spell spell_;
	LateTicks late_;
	NeededKicks<4> needed_kicks_;
	std::uint32_t wakes_ = 0, needless_ = 0;
};

}  // namespace verbena::engine
