// SPDX-License-Identifier: Apache-2.0
// The exceptions of a measurement that has a far end, and take(), which throws them.
//
// Threads: values and pure functions.
#pragma once

#include <expected>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "lib/verbs/connection_manager.h"

namespace verbena::bench {

// Thrown when a cell could not be measured; the sweep goes on with the next one.
struct Failure : std::runtime_error {
	using runtime_error::runtime_error;
};
// Thrown when the other process is gone; the sweep ends.
struct PeerLost : Failure {
	using Failure::Failure;
};

// Both return the value of an expected, or throw its error as a Failure.
template <class T> T take(std::expected<T, std::string> made) {
	if (!made) throw Failure(made.error());
	if constexpr (!std::is_void_v<T>) return std::move(*made);
}
template <class T> T take(lib::Connected<T> made) {
	if (!made) throw Failure(made.error().text);
	if constexpr (!std::is_void_v<T>) return std::move(*made);
}

}  // namespace verbena::bench
