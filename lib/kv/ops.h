// SPDX-License-Identifier: Apache-2.0
// Ops: an array of struct kv_op as a program has it, whose header may be an older one.
//
// Threads: any; a value.
// Lifetime: refers to the program's array.
#pragma once

#include <cstddef>

#include "lib/include/verbena/kv.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

// The size of the first version of struct kv_op. Later versions add members behind it.
constexpr std::size_t op_size_min = offsetof(kv_op, user) + sizeof(void*);

// Why an expected version of this number is refused: in a message it means any version.
inline constexpr const char* no_version = "no key has the version 2^64 - 1";

struct Ops {
	kv_op* first = nullptr;
	int count = 0;

	// The distance from one op to the next is the size that the first one says.
	kv_op& operator[](int i) const {
		return *reinterpret_cast<kv_op*>(
			reinterpret_cast<std::byte*>(first) + static_cast<std::size_t>(i) * first->size);
	}
	// Null, or one sentence that says why the array cannot be used.
	const char* fault() const {
		if (count < 0 || (first == nullptr && count > 0)) return "the array of operations is missing";
		if (count > 0 &&
			(first->size < op_size_min || first->size > sizeof(kv_op) || first->size % alignof(kv_op) != 0))
			return "kv_op.size is not sizeof(struct kv_op) of this version or an earlier one";
		return nullptr;
	}
	// Null, or one sentence that says why an op is not an operation.
	const char* fault_of(int i) const {
		const kv_op& op = (*this)[i];
		if (op.size != first->size) return "kv_op.size is not that of the first operation";
		if (op.kind < KV_OP_GET || op.kind > KV_OP_SCAN)
			return "kv_op.kind is KV_OP_GET, KV_OP_SET, KV_OP_DEL or KV_OP_SCAN";
		if (op.kind == KV_OP_SCAN) return fault_of_scan(op);
		if ((op.flags & ~unsigned{KV_OP_VERSION}) != 0) return "kv_op.flags has a flag that this version does not know";
		if (op.kind != KV_OP_GET && (op.flags & KV_OP_VERSION) != 0 && op.version == any_version) return no_version;
		if (op.ttl_ms != 0 && op.kind != KV_OP_SET) return "kv_op.ttl_ms is for KV_OP_SET, and 0 for the others";
		if (op.key == nullptr) return "kv_op.key is missing";
		if (op.kind == KV_OP_SET && op.value == nullptr && op.value_length > 0) return "kv_op.value is missing";
		return nullptr;
	}

private:
	static const char* fault_of_scan(const kv_op& op) {
		if (op.size < sizeof(kv_op) || op.cursor == nullptr) return "kv_op.cursor is missing";
		if (op.cursor->done != 0) return "the walk is done; a cursor of zeros begins another one";
		if (op.flags != 0 || op.ttl_ms != 0) return "kv_op.flags and kv_op.ttl_ms are 0 for KV_OP_SCAN";
		if (op.key == nullptr && op.key_length > 0) return "kv_op.key is missing";
		return nullptr;
	}
};

}  // namespace verbena::kv
