// SPDX-License-Identifier: Apache-2.0
// The part of what this process has for all other users that one of them may take.
//
// Threads: any; all functions are pure.
#pragma once

#include <cstddef>

namespace verbena::engine {

// Links with processes of other users (each takes up to 300 KiB), and connections of such processes
// that have not said their HELLO (each takes a descriptor).
inline constexpr std::size_t strangers_max = 64, stranger_greetings_max = 64;

// True if the user may have one more of `all`. A user may have half of those that the other users
// leave: a single one 32 of 64, a second one 16 then. So it takes six users, and not one, to leave
// none to the others.
struct Taken {
	std::size_t by_the_user, by_others;
};
constexpr bool has_room_for_stranger(Taken taken, std::size_t all) {
	return taken.by_others < all && taken.by_the_user < (all - taken.by_others) / 2;
}

}  // namespace verbena::engine
