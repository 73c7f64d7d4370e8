// SPDX-License-Identifier: Apache-2.0
// Journal: the interface by which a store makes its changes durable.
//
// Changes collect until commit() makes them durable together, as one transaction.
//
// Threads: one, the store's.
// Errors: if a change cannot be written, commit() returns false, and no change since the previous
//   commit() is written. Later transactions may succeed.
// Invariants: a change is visible only after its commit (changes.h). After a crash of the process
//   the journal holds every committed change, whole and in order.
#pragma once

#include <string_view>

#include "lib/kv/wire.h"

namespace verbena::kv {

// The facts about a version beside its bytes.
struct Stamp {
	std::uint64_t version = 0;
	// The time from which on the key is missing, in nanoseconds since 1970 (CLOCK_REALTIME); 0: it
	// has none.
	std::uint64_t expires = 0;
};

class Journal {
public:
	virtual ~Journal() = default;
	// `stamp.version` is that of the change.
	virtual void set(std::string_view key, Bytes value, const Stamp& stamp) = 0;
	virtual void remove(std::string_view key, std::uint64_t version) = 0;
	// Makes all changes since the previous call durable before it returns. Returns false if it
	// wrote none of them.
	virtual bool commit() = 0;
};

}  // namespace verbena::kv
