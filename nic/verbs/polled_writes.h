// SPDX-License-Identifier: Apache-2.0
// The checker's search for threads that wait for the bytes of a WRITE instead of a completion: a
// WRITE that arrives waits for a moment while the accesses of the program to its first and its last
// word are counted.
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
	// A WRITE without an immediate is about to be executed. `length` is not 0.
	void look(std::uint32_t qpn, std::uint64_t address, std::uint64_t length);
	// A message arrives that takes a receive.
	void note_message(std::uint32_t qpn);

private:
	// The traffic of a queue pair so far.
	struct Arrived {
		std::uint32_t writes = 0;
		bool data = false;  // a WRITE that was longer than a word
		bool messages = false;
	};
	Arrived* find(std::uint32_t qpn);

	std::unordered_map<std::uint32_t, Arrived> arrived_;  // by queue pair number
	Nanoseconds spent_ = 0;
};

}  // namespace verbena::verbs
