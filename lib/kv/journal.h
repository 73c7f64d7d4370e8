// Journal: the interface by which a store makes its changes durable.
//
// Changes collect until commit() makes them durable together, as one transaction.
//
// Threads: one, the store's.
// Errors: once a change could not be written, no later change is written either, and commit()
//   returns false from then on.
// Invariants: no answer that reveals a change leaves the server before that change is committed
//   (outbox.h). After a crash of the process the journal holds every committed change, whole and in
//   order.
#pragma once

#include <string_view>

#include "lib/kv/wire.h"

namespace verbena::kv {

class Journal {
public:
	virtual ~Journal() = default;
	virtual void set(std::string_view key, Bytes value) = 0;
	virtual void remove(std::string_view key) = 0;
	// True while a change is not committed. Once a change could not be written, pending() stays
	// true.
	virtual bool pending() const = 0;
	// Commits all pending changes before it returns. Returns false if this commit or an earlier
	// write failed.
	virtual bool commit() = 0;
};

}  // namespace verbena::kv
