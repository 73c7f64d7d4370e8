// SPDX-License-Identifier: Apache-2.0
// Bytes that have arrived and are not in memory yet: the buffer between the NIC and memory.
//
// A packet's payload is cut at the cache lines of its destination. Some lines are stored at once,
// in any order, the others after a Delay, or when an ordering point of the queue pair demands it:
// then drain() returns only after all its bytes are in memory. The model says which bytes must wait
// for earlier ones of the same queue pair; there is no order between queue pairs.
//
// Threads: under the engine's lock.
// Owns: copies of the bytes.
// Errors: place() reports a page that is missing or read-only as the plain copy does. A page that
//   vanishes later loses the bytes, as the pages of a NIC that has pinned them would.
// Invariants: at most bytes_max bytes wait; what does not fit is stored at once, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nic/adversary/draws.h"
#include "nic/memory/guarded_copy.h"

namespace verbena::adversary {

// A moment, in both measures of a Delay.
struct Moment {
	std::uint64_t observations = 0;
	Nanoseconds time = 0;

	bool reached(const Moment& now) const { return now.observations >= observations || now.time >= time; }
	Moment after(const Delay& delay) const { return {observations + delay.observations, time + delay.time}; }
};
inline constexpr Moment no_moment{~std::uint64_t{0}, never};

// The half of a queue pair whose packets bring bytes: requests for its responder, or responses for
// its requester.
enum class Side : std::uint8_t { responder, requester };

class Placement {
public:
	Placement(const Spec& spec, const memory::Routines& plain) : spec_(spec), plain_(plain) {}

	struct Source {
		std::uint32_t qpn = 0;
		Side side = Side::responder;
		std::uint64_t message = 0;  // its number; one message has no order of its own
		Identity identity;
	};

	// Stores [from, from + n) at `to`, now or later: held() is greater then. False: a page is
	// missing or read-only.
	bool place(const Source&, std::byte* to, const std::byte* from, std::size_t n, const Moment& now);
	// The second half of a remote atomic: stores the new value when the queue pair is drained.
	void store_later(const Source&, std::uint64_t* to, std::uint64_t value);

	// Ordering points: all bytes that came through this half of the queue pair, or all bytes.
	void drain(std::uint32_t qpn, Side);
	void drain_all();
	// The values of remote atomics on this word, before another one.
	void drain_atomics(const std::uint64_t* word);

	// Stores what is due.
	void advance(const Moment& now);
	bool empty() const { return lanes_.empty(); }
	// The bytes that wait, and when the last ones of this half of a queue pair, which has some, are
	// due.
	std::size_t held() const { return bytes_; }
	Moment newest_due(const Source& source) const { return lanes_.at(key_of(source.qpn, source.side)).back().due; }
	// When advance() has something to do; no_moment if nothing waits.
	Moment due() const;

	static constexpr std::size_t bytes_max = 1 << 20;

private:
	struct Unit {
		std::byte* to;
		std::vector<std::byte> bytes;
		std::vector<std::uint16_t> lines;  // those that are not stored yet; the last one is next
		std::uint64_t message;
		Moment due;
		bool atomic = false;
	};
	using Lane = std::vector<Unit>;  // one half of a queue pair, oldest first

	static std::uint64_t key_of(std::uint32_t qpn, Side side) { return std::uint64_t{qpn} << 1 | unsigned(side); }
	bool must_precede(const Unit& earlier, std::uint64_t message, const std::byte* to, std::size_t n) const;
	bool writable(std::byte* to, std::size_t n) const;
	void store(Unit&, std::size_t lines_left);
	void store_with_predecessors(Lane&, std::size_t index);
	void remove_stored(Lane&);

	const Spec spec_;
	const memory::Routines plain_;
	std::unordered_map<std::uint64_t, Lane> lanes_;  // none is empty
	std::size_t bytes_ = 0;  // in all lanes
};

}  // namespace verbena::adversary
