// Journal: where a store's changes go, so that they outlive its process. Changes collect until commit(); what has been
// committed is there after any crash of the process, whole and in order. Nothing may be told of a change before it is
// committed.
//
// One thread, the store's.
#pragma once

#include <string_view>

#include "lib/kv/wire.h"

namespace verbena::kv {

class Journal {
public:
	virtual ~Journal() = default;
	virtual void set(std::string_view key, Bytes value) = 0;
	virtual void remove(std::string_view key) = 0;
	// Whether something was changed that is not committed, and perhaps never will be.
	virtual bool pending() const = 0;
	// At once, if not. False: it could not be, and nothing can be from now on.
	virtual bool commit() = 0;
};

}  // namespace verbena::kv
