// SPDX-License-Identifier: Apache-2.0
// Hostile clients: records that our client never sends. The server answers them, ignores them or
// closes that client's connection. No lease or memory stays behind, and other clients are not
// affected.
#include <random>

#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;
using channel::Channel;
using channel::Place;

class Hostile : public KvBase {
protected:
	static constexpr ServerOptions limits{.value_max = 100'000, .requests_max = 8, .rendezvous_max = 2};

	void SetUp() override { open({}, limits); }

	void say(Channel& raw, const std::vector<std::byte>& message) {
		loop_.complete([](Channel& raw, const std::vector<std::byte>& message) -> Task<void> {
			co_await raw.send(message);
		}(raw, message));
	}
	// Waits for the next answer and returns its header.
	AnswerHeader hear(Channel& raw) {
		AnswerHeader header;
		loop_.complete([](Channel& raw, AnswerHeader& header) -> Task<void> {
			auto message = co_await raw.receive();
			EXPECT_TRUE(message.has_value());
			if (!message) co_return;
			const auto answer = Answers(message->bytes()).next();
			EXPECT_TRUE(answer.has_value());
			if (answer) header = answer->header;
		}(raw, header));
		return header;
	}
	// Expects that the server ends the latest connection with this reason.
	void expect_end(std::string_view what) {
		const std::string& why = connections_.back()->why;
		loop_.run_until([&] { return !why.empty(); });
		EXPECT_NE(why.find(what), std::string::npos) << why;
	}
};

TEST_F(Hostile, WrittenWithoutALeaseBreaksTheProtocol) {
	Client& other = connect();
	const auto raw = connect_raw();
	say(*raw, request_for({.operation = Operation::written, .number = 5}, ""));
	expect_end("a request out of place");
	loop_.complete(set_value(other, "key", "value"));
}

TEST_F(Hostile, ReleasingAnUnknownLeaseHasNoEffect) {
	const auto raw = connect_raw();
	for (const std::uint32_t lease : {1u, 4097u, ~0u})
		say(*raw, request_for({.operation = Operation::release, .release = lease}, ""));
	say(*raw, request_for({.operation = Operation::get}, "key"));
	EXPECT_EQ(hear(*raw).status, Status::missing);
	EXPECT_EQ(counters_.malformed, 0u);
}

TEST_F(Hostile, AClientCannotReleaseTheLeaseOfAnotherClient) {
	Client& other = connect();
	loop_.complete(set_value(other, "key", pattern(50'000, 1)));
	const auto holder = connect_raw(), thief = connect_raw();
	say(*holder, request_for({.operation = Operation::get, .protocol = Protocol::rendezvous}, "key"));
	const AnswerHeader leased = hear(*holder);
	EXPECT_EQ(leased.status, Status::remote);
	say(*thief, request_for({.operation = Operation::get, .release = leased.lease}, "none"));
	EXPECT_EQ(hear(*thief).status, Status::missing);
	EXPECT_EQ(transports_[1].windows_in_use(), 1u);
}

TEST_F(Hostile, MoreRequestsUnderWayThanAllowedBreakTheProtocol) {
	Client& other = connect();
	loop_.complete(set_value(other, "key", pattern(50'000, 1)));
	const auto raw = connect_raw();
	const auto request = request_for({.operation = Operation::get, .protocol = Protocol::rendezvous}, "key");
	std::vector<std::byte> allowed;
	for (std::uint32_t i = 0; i < limits.rendezvous_max + limits.requests_max; ++i) append(allowed, request);
	say(*raw, allowed);
	EXPECT_EQ(hear(*raw).status, Status::remote);
	EXPECT_EQ(counters_.malformed, 0u);
	say(*raw, request);
	expect_end("a request out of place");
	loop_.complete(expect_value(other, "key", pattern(50'000, 1)));
}

TEST_F(Hostile, AValueLongerThanTheServersLimitIsRefusedInEveryFormOfSet) {
	const auto raw = connect_raw();
	const std::uint32_t length = limits.value_max + 1;
	const std::string value = pattern(length, 1);
	const RemoteMemory nowhere{.length = length};
	auto set = request_for({.operation = Operation::set, .value_length = length}, "key");
	append(set, bytes_of(value));
	auto set_read = request_for({.operation = Operation::set_read, .value_length = length}, "key");
	append(set_read, bytes_of(nowhere));
	auto set_write = request_for({.operation = Operation::set_write, .value_length = length}, "key");
	for (const auto* request : {&set, &set_read, &set_write}) {
		say(*raw, *request);
		EXPECT_EQ(hear(*raw).status, Status::too_large);
	}
	EXPECT_EQ(store_->size(), 0u);
	EXPECT_EQ(store_->used(), 0u);
}

// 200,000 records of 16 bytes, none of which has an answer, in one message.
TEST_F(Hostile, AMessageOfManyRecordsHoldsUpNoOtherClient) {
	const auto raw = connect_raw();
	constexpr std::uint64_t records = 200'000;
	std::vector<std::byte> message;
	for (std::uint64_t i = 0; i < records; ++i)
		append(message, request_for({.operation = Operation::release, .release = 1}, ""));
	loop_.spawn([](Channel& raw, std::vector<std::byte> message) -> Task<void> { co_await raw.send(message); }(
																	 *raw, std::move(message)));
	EXPECT_LE(most_in_a_turn(records), 2 * 4096u);
	EXPECT_EQ(counters_.malformed, 0u);
}

// A client that sends random records, most of which are well-formed and in place. It uses and
// releases the leases that it gets at random, too.
class Rogue {
public:
	Rogue(Channel& raw, unsigned seed) : raw_(raw), random_(seed) {}

	Task<void> listen() {
		while (auto message = co_await raw_.receive())
			for (Answers answers(message->bytes()); !answers.done();) {
				const auto answer = answers.next();
				EXPECT_TRUE(answer.has_value()) << "the server must keep to the protocol";
				if (!answer) break;
				if (answer->header.status == Status::remote) leases_.push_back(answer->header.lease);
				if (answer->header.status == Status::place) places_.push_back({answer->header.number, answer->remote});
			}
		ended_ = true;
	}
	Task<void> talk() {
		for (int i = 0; i < 60 && !ended_; ++i) {
			if (one_of(4)) co_await share();
			if (!places_.empty() && one_of(2)) co_await write();
			std::vector<std::byte> message;
			for (auto records = below(5); records < 5; ++records) add_record(message);
			const auto sent = co_await raw_.send(message);
			if (!sent) break;
			for (auto turns = below(50); turns > 0; --turns) co_await async::NextTurn(raw_.loop());
		}
		raw_.close();
		while (!ended_ || !raw_.closed()) co_await async::NextTurn(raw_.loop());
	}

private:
	std::uint32_t below(std::uint32_t limit) {
		return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random_);
	}
	bool one_of(std::uint32_t many) { return below(many) == 0; }
	template <class T> T any(std::initializer_list<T> all) {
		return all.begin()[below(static_cast<std::uint32_t>(all.size()))];
	}

	Task<void> share() {
		Place place(raw_.memory()->take(5000));
		auto lease = co_await raw_.share(std::move(place), channel::Right::read);
		if (lease) lent_.push_back(std::move(*lease));
	}
	Task<void> write() {
		const auto [number, to] = places_.back();
		Place place(raw_.memory()->take(to.length));
		(void)co_await raw_.write(to, std::move(place));
	}
	// A breach of the protocol is rare, because it ends the connection.
	Operation operation() {
		if (one_of(300)) return static_cast<Operation>(below(256));
		const std::uint32_t pick = 1 + below(10);
		const Operation chosen = pick == 9 ? Operation::scan
			: pick == 10                   ? Operation::info
										   : static_cast<Operation>(pick);
		const bool out_of_place = (chosen == Operation::written && places_.empty()) ||
			(chosen == Operation::set_read && lent_.empty()) || chosen == Operation::index;
		return out_of_place && !one_of(30) ? Operation::get : chosen;
	}
	void add_record(std::vector<std::byte>& message) {
		RequestHeader header{.operation = operation(),
			.protocol = static_cast<Protocol>(one_of(300) ? 3 : below(3)),
			.number = below(8)};
		if (!leases_.empty() && !one_of(4)) {
			header.release = leases_.back();
			if (!one_of(8)) leases_.pop_back();
		}
		if (one_of(50)) header.release = static_cast<std::uint32_t>(random_());
		const bool scans = header.operation == Operation::scan;
		const bool takes_key = header.operation < Operation::written || header.operation == Operation::remove || scans;
		std::string_view key = takes_key ? any<std::string_view>({"a", "b", "c", "d"}) : "";
		if (one_of(300)) key = takes_key ? "" : "a";
		if (header.operation == Operation::set || header.operation == Operation::set_write)
			header.value_length = any({0u, 10u, 5000u, 100'000u, 100'001u});
		if (header.operation == Operation::set_read) header.value_length = 5000;
		if (scans) header.value_length = one_of(30) ? 23 : sizeof(ScanRequest);
		if (header.operation == Operation::written && !places_.empty()) {
			header.number = places_.back().number;
			if (!one_of(8)) places_.pop_back();
		}
		append(message, request_for(header, key));
		if (scans) append(message, bytes_of(pattern(header.value_length, header.number)));
		if (header.operation == Operation::set) append(message, bytes_of(pattern(header.value_length, header.number)));
		if (header.operation != Operation::set_read) return;
		RemoteMemory remote{.address = random_(), .length = 5000, .rkey = static_cast<std::uint32_t>(random_())};
		if (!lent_.empty() && !one_of(30)) remote = lent_[below(static_cast<std::uint32_t>(lent_.size()))].remote();
		append(message, bytes_of(remote));
	}

	struct Lent {
		std::uint32_t number;
		RemoteMemory to;
	};
	Channel& raw_;
	std::mt19937 random_;
	std::vector<std::uint32_t> leases_;
	std::vector<Lent> places_;
	std::vector<channel::Lease> lent_;  // that this side granted
	bool ended_ = false;
};

TEST_F(Hostile, RandomRecordsLeaveNoLeaseAndNoMemoryHeld) {
	Client& other = connect();
	loop_.complete(set_value(other, "honest", pattern(50'000, 9)));
	for (unsigned seed = 1; seed <= 30; ++seed) {
		const auto raw = connect_raw();
		Rogue rogue(*raw, seed);
		loop_.spawn(rogue.listen());
		loop_.complete(rogue.talk());
	}
	EXPECT_GT(counters_.requests, 500u);
	EXPECT_GT(counters_.leased_gets, 10u);
	EXPECT_GT(counters_.read_sets, 10u);
	EXPECT_GT(counters_.written_sets, 3u);
	EXPECT_GT(counters_.malformed, 3u);
	loop_.complete([](Client& other) -> Task<void> {
		co_await expect_value(other, "honest", pattern(50'000, 9));
		for (const std::string_view key : {"a", "b", "c", "d", "honest"}) (void)co_await other.remove(key);
	}(other));
	// Destroys the rogues' connections, and the leases with them. The READs in flight hold values
	// until their queue pairs are destroyed.
	while (connections_.size() > 1) connections_.pop_back();
	loop_.run_until([&] { return transports_[1].draining() == 0; });
	EXPECT_EQ(store_->size(), 0u);
	EXPECT_EQ(store_->used(), 0u);
}

}  // namespace
}  // namespace verbena::kv
