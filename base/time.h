// Time as a value: nanoseconds on a monotonic clock, passed as an argument to everything that needs it.
#pragma once

#include <cstdint>
#include <ctime>

namespace verbena {

using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds never = ~Nanoseconds{0};

inline Nanoseconds monotonic_now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(t.tv_nsec);
}

// `ns` is not `never`.
constexpr timespec to_timespec(Nanoseconds ns) {
	return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace verbena
