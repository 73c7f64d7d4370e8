// SPDX-License-Identifier: Apache-2.0
// Lanes: the object behind a kv_handle of the C interface. Each lane is a Handle with connections,
// a loop and a lock of its own. A thread keeps to one lane, so as many threads as there are lanes
// do not wait for each other.
//
// Threads: any, for mine(). Each Handle has its own lock (handle.h).
// Lifetime: no thread may be in a call of the handle when it is destroyed. Threads that used it may
//   live longer or shorter.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/kv/handle.h"

namespace verbena::kv {

class Lanes {
public:
	static constexpr std::size_t lanes_max = 64;
	struct Failure {
		int result = KV_INVALID;
		std::string sentence;
	};
	// kv_open_with().
	static std::expected<std::unique_ptr<Lanes>, Failure> open(const char* server, const kv_options& options);

	explicit Lanes(std::vector<std::unique_ptr<Handle>> handles);
	// The lane of this thread: the first time, the one to which the fewest threads keep.
	Handle& mine() { return *handles_[handles_.size() == 1 ? 0 : lane_of_this_thread()]; }
	const std::vector<std::unique_ptr<Handle>>& all() const { return handles_; }

	// The number of threads that keep to each lane.
	struct Seats {
		std::mutex lock;
		std::vector<std::uint32_t> threads;
	};

private:
	std::size_t lane_of_this_thread() const;

	std::vector<std::unique_ptr<Handle>> handles_;
	std::shared_ptr<Seats> seats_;
};

}  // namespace verbena::kv
