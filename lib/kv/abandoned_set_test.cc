// SPDX-License-Identifier: Apache-2.0
// A caller whose coroutine is destroyed while its SET is under way: a deadline has passed, or a
// program has closed its handle. The caller's memory is free from then on.
#include <algorithm>
#include <optional>

#include "lib/kv/fixture.h"
#include "lib/kv/running.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

class Caller {
public:
	explicit Caller(Client& client) : client_(client) {}
	void set(std::string_view key, Bytes value) { start(key, value); }

private:
	friend class verbena::kv::Running;
	Running start(std::string_view key, Bytes value) { co_await client_.set(key, value); }

	Client& client_;
	Coroutines coroutines_;
};

class KvAbandoned : public KvBase, public ::testing::WithParamInterface<Protocol> {
protected:
	// Begins to set `value`, lets the loop have this many turns, destroys the caller and overwrites
	// its memory.
	void set_and_abandon(Client& client, const std::string& value, int turns) {
		std::string memory = value;
		std::optional<Caller> caller(client);
		caller->set("key", bytes_of(memory));
		loop_.complete([](async::Loop& loop, int turns) -> Task<void> {
			for (int i = 0; i < turns; ++i) co_await async::NextTurn(loop);
		}(loop_, turns));
		caller.reset();
		std::ranges::fill(memory, 'x');
	}
};
INSTANTIATE_TEST_SUITE_P(Ways, KvAbandoned, ::testing::Values(Protocol::eager, Protocol::rendezvous),
	[](const auto& info) { return info.param == Protocol::eager ? "Eager" : "Rendezvous"; });

// Gets the key until it has `value`: a GET may overtake a SET by rendezvous. Until then it has
// `before`, or is missing.
Task<void> expect_change(Client& client, const std::string& before, const std::string& value) {
	const Nanoseconds deadline = monotonic_now() + 20'000'000'000;
	while (monotonic_now() < deadline) {
		const auto found = co_await client.get("key");
		if (!found) {
			EXPECT_EQ(found.error(), Error::missing);
			EXPECT_TRUE(before.empty());
			continue;
		}
		const std::string_view text = text_of(found->bytes());
		if (text == value) co_return;
		EXPECT_TRUE(text == before) << text.size() << " bytes that no SET was given";
		if (text != before) co_return;
	}
	ADD_FAILURE() << "the SET did not take place";
}

TEST_P(KvAbandoned, ASetWhoseCallerIsDestroyedStoresTheBytesThatItWasGiven) {
	Client& client = connect({.protocol = GetParam()});
	unsigned seed = 0;
	std::string before;
	// A small value shares a message, a long one has its own, and the last one leaves in parts.
	for (const std::size_t size : {std::size_t{40}, std::size_t{100'000}, std::size_t{3'000'000}})
		for (const int turns : {0, 1, 2, 3, 5, 8, 13}) {
			const std::string value = pattern(size, ++seed);
			set_and_abandon(client, value, turns);
			loop_.complete(expect_change(client, before, value));
			before = value;
		}
}

TEST_P(KvAbandoned, OperationsBehindAbandonedSetsGoOn) {
	Client& client = connect({.protocol = GetParam()});
	const std::string value = pattern(500'000, 7);
	for (unsigned i = 0; i < 20; ++i) set_and_abandon(client, pattern(500'000, 100 + i), static_cast<int>(i % 2));
	loop_.complete([](Client& client, const std::string& value) -> Task<void> {
		co_await set_value(client, "other", value);
		co_await expect_value(client, "other", value);
	}(client, value));
}

}  // namespace
}  // namespace verbena::kv
