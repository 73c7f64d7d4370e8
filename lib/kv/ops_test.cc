// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/ops.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace verbena::kv {
namespace {

// Programs were built with these. A member at the end of a structure must not lie in bytes that an
// earlier version had as padding, because a program need not set those.
TEST(Abi, StructuresHaveTheSizesAndPlacesOfPublishedHeaders) {
	static_assert(sizeof(void*) == 8);
	EXPECT_EQ(offsetof(kv_options, no_retry), 88u);
	EXPECT_EQ(offsetof(kv_options, lanes), 96u);
	EXPECT_EQ(offsetof(kv_options, etcd_ca), 104u);
	EXPECT_EQ(offsetof(kv_options, etcd_password_file), 136u);
	EXPECT_EQ(sizeof(kv_options), 144u);
	EXPECT_EQ(offsetof(kv_counters, retries), 88u);
	EXPECT_EQ(sizeof(kv_counters), 96u);
	EXPECT_EQ(offsetof(kv_op, version), 48u);
	EXPECT_EQ(offsetof(kv_op, user), 64u);
	EXPECT_EQ(offsetof(kv_op, cursor), 72u);
	EXPECT_EQ(sizeof(kv_op), 80u);
	EXPECT_EQ(op_size_min, 72u);
}

TEST(Ops, AnArrayIsRefusedIfItIsMissingOrItsSizeIsUnknown) {
	kv_op op{.size = sizeof op};
	EXPECT_EQ((Ops{&op, 1}.fault()), nullptr);
	EXPECT_EQ((Ops{nullptr, 0}.fault()), nullptr);
	EXPECT_NE((Ops{nullptr, 1}.fault()), nullptr);
	EXPECT_NE((Ops{&op, -1}.fault()), nullptr);
	for (const std::size_t size : {std::size_t{0}, op_size_min - 8, sizeof op + 1, sizeof op + 8, ~std::size_t{0}}) {
		op.size = size;
		EXPECT_NE((Ops{&op, 1}.fault()), nullptr) << size;
	}
}

TEST(Ops, EachMistakeInAnOpIsNamed) {
	const kv_op good{.size = sizeof good, .kind = KV_OP_GET, .key = "key", .key_length = 3};
	std::array<kv_op, 2> ops{good, good};
	const Ops all{ops.data(), 2};
	EXPECT_EQ(&all[1], &ops[1]);
	const auto fault = [&](auto change) {
		ops[1] = good;
		change(ops[1]);
		const char* const sentence = all.fault_of(1);
		return std::string(sentence == nullptr ? "" : sentence);
	};
	EXPECT_EQ(fault([](kv_op&) {}), "");
	EXPECT_EQ(fault([](kv_op& op) { op.flags = KV_OP_VERSION; }), "");
	EXPECT_EQ(fault([](kv_op& op) { op.kind = KV_OP_SET; }), "");  // an empty value
	EXPECT_NE(fault([](kv_op& op) { op.size -= 8; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.kind = 0; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.kind = KV_OP_SCAN + 1; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.flags = 2; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.ttl_ms = 1; }), "");
	EXPECT_NE(fault([](kv_op& op) {
		op.kind = KV_OP_DEL;
		op.flags = KV_OP_VERSION;
		op.version = UINT64_MAX;  // was "any version", as in a message
	}),
		"");
	EXPECT_EQ(fault([](kv_op& op) { op.kind = KV_OP_SET, op.ttl_ms = 1; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.key = nullptr; }), "");
	EXPECT_NE(fault([](kv_op& op) {
		op.kind = KV_OP_SET;
		op.value_length = 1;
	}),
		"");
}

TEST(Ops, AScanNeedsACursorThatIsNotDone) {
	kv_cursor at{};
	const kv_op good{.size = sizeof good, .kind = KV_OP_SCAN, .cursor = &at};
	const auto fault = [&](auto change) {
		kv_op op = good;
		change(op);
		const char* const sentence = Ops{&op, 1}.fault_of(0);
		return std::string(sentence == nullptr ? "" : sentence);
	};
	EXPECT_EQ(fault([](kv_op&) {}), "");
	EXPECT_NE(fault([](kv_op& op) { op.cursor = nullptr; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.size = op_size_min; }), "") << "a program of an earlier header has no cursor";
	EXPECT_NE(fault([](kv_op& op) { op.flags = KV_OP_VERSION; }), "");
	EXPECT_NE(fault([](kv_op& op) { op.key_length = 1; }), "");
	at.done = 1;
	EXPECT_NE(fault([](kv_op&) {}), "");
}

}  // namespace
}  // namespace verbena::kv
