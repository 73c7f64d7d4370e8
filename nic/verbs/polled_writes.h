// SPDX-License-Identifier: Apache-2.0
// The checker's search for threads that wait for the bytes of a WRITE instead of a completion: the
// last packet of a WRITE waits for a moment while the accesses of the program to the first and the
// last word of the message are counted.
//
// A WRITE of one word may be waited for, because it arrives whole: a counter of credits. It may not
// be the flag of other data.
//
// Threads: one at a time, and not the one that waits for the WRITE.
// Errors: std::bad_alloc; where threads cannot be watched, nothing is found.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/time.h"

namespace verbena::verbs {

class PolledWrites {
public:
	// The first packet of a WRITE is about to be executed. `length`: of the message, in bytes.
	void begins(std::uint32_t qpn, std::uint64_t address, std::uint64_t length);
	// The last packet of that WRITE is about to be executed, and has no immediate.
	void look(std::uint32_t qpn);
	// A message arrives that takes a receive.
	void note_message(std::uint32_t qpn);
	// The queue pair ends; its number may come again.
	void forget(std::uint32_t qpn) { arrived_.erase(qpn); }

private:
	// The traffic of a queue pair so far.
	struct Arrived {
		std::uint32_t writes = 0;
		std::uint64_t address = 0, length = 0;  // the memory of the WRITE that has begun, if any
		bool data = false;  // a WRITE that was longer than a word
		bool messages = false;
	};
	Arrived* find(std::uint32_t qpn);

	std::unordered_map<std::uint32_t, Arrived> arrived_;  // by queue pair number
	Nanoseconds spent_ = 0;
};

}  // namespace verbena::verbs
