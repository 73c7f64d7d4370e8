// SPDX-License-Identifier: Apache-2.0
// Change: one change of the store, from its acceptance until it is visible (state/window.h), and
// the request that asked for it.
//
// Threads: one, the store's.
// Lifetime: dies before its store.
#pragma once

#include "lib/kv/item.h"
#include "lib/kv/state/window.h"

namespace verbena::kv {

// The maker of a request, who gets its answer.
class Asker {
public:
	// `number` is RequestHeader::number. `version` is Answer::version, or any_version if the answer
	// shall have none.
	virtual void decided(std::uint32_t number, Status status, std::uint64_t version) = 0;

protected:
	~Asker() = default;
};

// The request that asked for a change.
struct Ticket {
	Asker* asker = nullptr;  // null: the asker is gone
	std::uint32_t number = 0;
	bool versioned = false;  // the answer shall have the version
	std::uint64_t client = 0, order = 0;  // Hello::client and ChangeId::order; order 0: no id
};

struct Change {
	enum class Kind : std::uint8_t {
		none,    // nothing: the answer depends on the changes before it
		set,     // `value` becomes the key's version
		remove,  // `value` is the version that the key loses
		end,     // the same, because the time of `value` has come
	};
	Kind kind = Kind::none;
	Status status = Status::good;  // the answer, once the change is held
	std::uint64_t version = 0;  // that of the change; none: the answer's
	std::uint32_t freed = 0;  // bytes that are free once it is applied, and that have no credit
	Value value;
	Ticket ticket;

	std::string_view key() const { return value.key(); }
};

using ChangeWindow = Window<Change>;

}  // namespace verbena::kv
