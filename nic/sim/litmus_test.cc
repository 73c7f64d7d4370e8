// SPDX-License-Identifier: Apache-2.0
// Tests L1 to L18 of docs/memory-model.md: under each model a permitted outcome is seen, and a
// forbidden one never.
#include "nic/sim/litmus.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "nic/queues/work_request.h"

namespace verbena::sim::litmus {
namespace {

using adversary::Model;
using queues::send_fence;
using queues::send_inline;

// A rig runs each test this often, so that requests of many numbers meet the adversary.
constexpr int rounds_of_a_rig = 25;
constexpr int rounds_default = 500;

int rounds() {
	const char* const wanted = std::getenv("VERBENA_TEST_ROUNDS");
	return wanted != nullptr ? std::atoi(wanted) : rounds_default;
}

// Steps of a program.

Step set(Word word, std::uint64_t value) {
	return [=](Node& node) { return node.store(word, value), true; };
}
Step put(Queue queue, Word there, Word here, std::uint8_t flags = 0) {
	return [=](Node& node) { return node.put(queue, there, here, flags), true; };
}
Step get(Queue queue, Word here, Word there, std::uint8_t flags = 0) {
	return [=](Node& node) { return node.get(queue, here, there, flags), true; };
}
Step send(Queue queue, std::uint8_t flags = 0) {
	return [=](Node& node) { return node.send(queue, flags), true; };
}
Step poll(Queue queue) {
	return [=](Node& node) { return node.poll_sends(queue); };
}
Step read(Word word) {
	return [=](Node& node) { return node.r = node.load(word), true; };
}
// Waits, and reads in the same moment.
Step receive_and_read(Queue queue, Word word) {
	return [=](Node& node) { return node.poll_receive(queue) && (node.r = node.load(word), true); };
}
Step await_and_read(Word flag, Word word) {
	return [=](Node& node) { return node.load(flag) != 0 && (node.r = node.load(word), true); };
}
Step receive(Queue queue) {
	return [=](Node& node) { return node.poll_receive(queue); };
}

using Prepare = std::function<void(Node&)>;
Prepare receives(Queue queue) {
	return [=](Node& node) { node.post_receive(queue); };
}
void y_is_1(Node& node) { node.store(y, 1); }

// Outcomes.
auto second_has(Word word, std::uint64_t value) {
	return [=](const Node&, const Node& second) { return second.load(word) == value; };
}
auto first_read(std::uint64_t value) {
	return [=](const Node& first, const Node&) { return first.r == value; };
}
bool second_read_0(const Node&, const Node& second) { return second.r == 0; }

constexpr std::array<bool, 3> allowed{true, true, true}, forbidden{}, not_under_tso{false, true, true};

std::vector<LitmusTest> tests() {
	return {
		{"L1", {set(x, 1), put(q, y, x), set(x, 2)}, {}, second_has(y, 2), allowed},
		{"L2", {set(x, 1), put(q, y, x), poll(q), set(x, 2)}, {}, second_has(y, 2), forbidden},
		{"L3", {set(x, 1), put(q, y, x, send_inline), set(x, 2)}, {}, second_has(y, 2), forbidden},
		{"L4", {set(x, 1), put(q, y, x)}, {}, second_has(y, 0), forbidden},
		{"L5", {get(q, z, y), read(z)}, {}, first_read(0), allowed, y_is_1},
		{"L6", {get(q, z, y), poll(q), read(z)}, {}, first_read(0), forbidden, y_is_1},
		{"L7", {put(q, d, one), put(q, f, one)}, {await_and_read(f, d)}, second_read_0, not_under_tso},
		{"L8", {[](Node& node) {
			 std::ranges::fill(node.block(), std::byte{1});
			 return node.put_block(q), true;
		 }},
			{[](Node& node) {
				if (node.block().back() == std::byte{0}) return false;
				node.r = static_cast<std::uint64_t>(node.block().front());
				return true;
			}},
			second_read_0, allowed},
		{"L9", {put(q, d, one), send(q)}, {receive_and_read(q, d)}, second_read_0, forbidden, receives(q)},
		{"L10", {[](Node& node) { return node.put_imm(q, d, one), true; }}, {receive_and_read(q, d)}, second_read_0,
			forbidden, receives(q)},
		{"L11", {put(q, d, one), send(q2)}, {receive_and_read(q2, d)}, second_read_0, allowed, receives(q2)},
		{"L12", {put(q, d, one), poll(q), send(q2)}, {receive_and_read(q2, d)}, second_read_0, allowed, receives(q2)},
		{"L13", {put(q, d, one), get(q, z, d), poll(q), send(q2)}, {receive_and_read(q2, d)}, second_read_0, forbidden,
			receives(q2)},
		{"L14", {put(q, y, one), get(q, z, y), poll(q), read(z)}, {}, first_read(0), forbidden},
		{"L15", {get(q, z, y), put(q, y, one), poll(q), read(z)}, {}, first_read(1), allowed},
		{"L16", {get(q, z, y), put(q, y, one, send_fence), poll(q), read(z)}, {}, first_read(1), forbidden},
		{"L17", {get(q, z, y), put(q, f, z)}, {}, second_has(f, 0), allowed, y_is_1},
		{"L17-fence", {get(q, z, y), put(q, f, z, send_fence)}, {}, second_has(f, 0), forbidden, y_is_1},
		{"L18", {get(q, z, y), send(q), poll(q), read(z)}, {receive(q), set(y, 2)}, first_read(2), allowed,
			receives(q)},
		{"L18-fence", {get(q, z, y), send(q, send_fence), poll(q), read(z)}, {receive(q), set(y, 2)}, first_read(2),
			forbidden, receives(q)},
	};
}

class Litmus : public ::testing::TestWithParam<Model> {};

TEST_P(Litmus, PermittedOutcomesAreSeenAndForbiddenOnesNever) {
	const std::vector<LitmusTest> all = tests();
	std::vector<int> seen(all.size());
	for (int round = 0; round < rounds(); round += rounds_of_a_rig) {
		const std::uint64_t seed = static_cast<std::uint64_t>(round / rounds_of_a_rig) + 1;
		Rig rig(seed, GetParam());
		for (int i = 0; i < rounds_of_a_rig; ++i)
			for (std::size_t t = 0; t < all.size(); ++t) {
				if (!rig.run(all[t])) continue;
				++seen[t];
				ASSERT_TRUE(all[t].allowed[static_cast<std::size_t>(GetParam())]) << all[t].name << ", seed " << seed;
			}
	}
	for (std::size_t t = 0; t < all.size(); ++t) {
		RecordProperty(all[t].name, seen[t]);
		EXPECT_EQ(seen[t] > 0, all[t].allowed[static_cast<std::size_t>(GetParam())]) << all[t].name << " was not seen";
	}
}

INSTANTIATE_TEST_SUITE_P(Models, Litmus, ::testing::Values(Model::tso, Model::iba, Model::loose),
	[](const ::testing::TestParamInfo<Model>& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace verbena::sim::litmus
