// SPDX-License-Identifier: Apache-2.0
// Messages of the NIC to the person who runs a program on it, one line each on standard error:
//
//     verbena: error: UDP port 4791 is held by user id 1000: ...
//
// The environment variable VERBENA_LOG names the lowest level that is printed: `error` (default),
// `warn`, `info` or `debug`.
//  - error: an action of the user cannot work at all, for a reason outside of the program.
//  - warn: an action works, but not as well as the user may expect.
//  - info: a call of the program was refused; the line has the reason of its errno.
//  - debug: events that help a developer of the NIC; with the time and the thread.
//
// Threads: any, also under the engine's lock; no function here waits, allocates or changes errno.
// Lifetime: usable at any time, in a fork's child too. VERBENA_LOG is read once.
// Errors: a line that standard error cannot take at once is lost. A line that is printed again
//   within a second is left out and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::log {

enum class Level : std::uint8_t { error, warn, info, debug };

// The level of this name, if there is one.
std::optional<Level> level_named(std::string_view name);
inline constexpr const char* level_names = "error, warn, info, debug";

namespace detail {
// The lowest level that is printed; `unread` until the first message.
inline constexpr std::uint8_t unread = 0xff;
inline constinit std::atomic<std::uint8_t> lowest = unread;
std::uint8_t read_level();
}  // namespace detail

// True if messages of this level are printed. Costs one load after the first call.
inline bool enabled(Level level) {
	std::uint8_t lowest = detail::lowest.load(std::memory_order_relaxed);
	if (lowest == detail::unread) [[unlikely]]
		lowest = detail::read_level();
	return static_cast<std::uint8_t>(level) <= lowest;
}

// Gets the reason of each refused call (refuse()), also where it is not printed; null: there is no
// such function. The text is not ended by a NUL.
inline constinit std::atomic<void (*)(int error, std::string_view reason)> keep_reason = nullptr;

// True if the reason of a refused call is printed or kept, so that it is worth finding out.
inline bool wants_reasons() { return enabled(Level::info) || keep_reason.load(std::memory_order_relaxed) != nullptr; }

// The format is that of printf(3), without a newline. Text beyond 480 bytes is cut off.
[[gnu::cold, gnu::format(printf, 1, 2)]] void error(const char* format, ...);
[[gnu::cold, gnu::format(printf, 1, 2)]] void warn(const char* format, ...);
[[gnu::cold, gnu::format(printf, 1, 2)]] void info(const char* format, ...);
[[gnu::cold, gnu::format(printf, 1, 2)]] void debug(const char* format, ...);

// Prints a line at every level: an answer that the user has asked for.
[[gnu::cold, gnu::format(printf, 1, 2)]] void answer(const char* format, ...);

// Refuses a call of the program: prints the reason, sets errno to `error` and returns `error`. For
// functions that return errno values, and for those that only set it. The level is info, but error
// for EMFILE and ENFILE: a full table of descriptors is no mistake in the call. Then the line ends
// with what to do about it.
[[gnu::cold, gnu::format(printf, 2, 3)]] int refuse(int error, const char* format, ...);

}  // namespace verbena::log
