// SPDX-License-Identifier: Apache-2.0
// A server that gets a change twice: it executes it once, on whatever connection, and says so.
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

constexpr std::uint64_t client_id = 77;

std::vector<std::byte> change(Operation operation, std::uint64_t order, std::uint64_t settled, std::string_view value) {
	std::vector<std::byte> request;
	append(request,
		with_id({.operation = operation,
			.key_length = 3,
			.number = static_cast<std::uint32_t>(order),
			.value_length = static_cast<std::uint32_t>(value.size())}));
	const ChangeId id{.order = order, .settled = settled};
	append(request, bytes_of(id));
	append(request, bytes_of("key"));
	append(request, bytes_of(value));
	return request;
}

class Repeated : public KvBase {
protected:
	std::unique_ptr<channel::Channel> connect_as(std::uint64_t id, Hello* theirs = nullptr) {
		auto ours = connect_without_greeting();
		loop_.complete([](channel::Channel& raw, std::uint64_t id, Hello* theirs) -> Task<void> {
			const Hello hello{.client = id};
			const Bytes greeting = bytes_of(hello);
			co_await raw.send(greeting);
			const auto answer = co_await raw.receive();
			EXPECT_TRUE(answer.has_value());
			if (theirs != nullptr && answer) *theirs = read_hello(answer->bytes(), Hello::from_server).value();
		}(*ours, id, theirs));
		return ours;
	}
	// Sends a request and returns the status of its answer; nothing if the connection ends.
	std::optional<Status> ask(
		channel::Channel& raw, const std::vector<std::byte>& request, std::uint64_t* version = nullptr) {
		std::optional<Answer> answer;
		loop_.complete([](channel::Channel& raw, Bytes request, std::optional<Answer>& answer) -> Task<void> {
			co_await raw.send(request);
			const auto message = co_await raw.receive();
			if (message) answer = Answers(message->bytes()).next().value();
		}(raw, request, answer));
		if (version != nullptr && answer) *version = answer->version;
		return answer ? std::optional(answer->header.status) : std::nullopt;
	}
	std::string value() {
		const Value found = store_->get("key");
		return found ? std::string(text_of(found.bytes())) : "missing";
	}
};

TEST_F(Repeated, ASetIsExecutedOnceAlsoOnAnotherConnection) {
	const auto first = connect_as(client_id), second = connect_as(client_id);
	EXPECT_EQ(ask(*first, change(Operation::set, 1, 1, "one")), Status::good);
	EXPECT_TRUE(store_->set("key", bytes_of("of another client")));
	EXPECT_EQ(ask(*first, change(Operation::set, 1, 1, "one")), Status::good);
	EXPECT_EQ(ask(*second, change(Operation::set, 1, 1, "one")), Status::good);
	EXPECT_EQ(value(), "of another client");
	EXPECT_EQ(changes_->repeated(), 2u);
}

TEST_F(Repeated, ADelThatRemovedItsKeyHasDoneSoStill) {
	const auto raw = connect_as(client_id);
	EXPECT_TRUE(store_->set("key", bytes_of("one")));
	EXPECT_EQ(ask(*raw, change(Operation::remove, 1, 1, "")), Status::good);
	EXPECT_TRUE(store_->set("key", bytes_of("two")));
	EXPECT_EQ(ask(*raw, change(Operation::remove, 1, 1, "")), Status::good);
	EXPECT_EQ(value(), "two");
}

// A CAS that was sent again reported the version 0.
TEST_F(Repeated, ARepeatedCompareAndSetHasTheVersionThatItHasMade) {
	const auto first = connect_as(client_id), second = connect_as(client_id);
	const auto compare_and_set = [](std::uint64_t order, std::uint64_t expected) {
		std::vector<std::byte> request;
		append(request,
			with_id(with_version({.operation = Operation::set, .key_length = 3, .number = 7, .value_length = 3})));
		const ChangeId id{.order = order, .settled = 1};
		append(request, bytes_of(id));
		append(request, std::as_bytes(std::span(&expected, 1)));
		append(request, bytes_of("key"));
		append(request, bytes_of("one"));
		return request;
	};
	std::uint64_t made = 0, again = 0;
	EXPECT_EQ(ask(*first, compare_and_set(1, 0), &made), Status::good);
	EXPECT_EQ(made, store_->get("key").version());
	EXPECT_GT(made, 0u);
	EXPECT_TRUE(store_->set("key", bytes_of("of another client")));
	EXPECT_EQ(ask(*second, compare_and_set(1, 0), &again), Status::good);
	EXPECT_EQ(again, made);
	EXPECT_EQ(value(), "of another client");
	EXPECT_EQ(ask(*second, compare_and_set(2, made), &again), Status::changed);
	EXPECT_EQ(again, store_->get("key").version());
}

TEST_F(Repeated, ALateCopyOfASettledChangeIsRefused) {
	const auto raw = connect_as(client_id);
	EXPECT_EQ(ask(*raw, change(Operation::set, 2, 2, "two")), Status::good);
	EXPECT_EQ(ask(*raw, change(Operation::set, 1, 1, "one")), Status::settled);
	EXPECT_EQ(value(), "two");
}

TEST_F(Repeated, ClientsHaveOrdersOfTheirOwn) {
	const auto first = connect_as(client_id), second = connect_as(client_id + 1);
	EXPECT_EQ(ask(*first, change(Operation::set, 1, 1, "one")), Status::good);
	EXPECT_EQ(ask(*second, change(Operation::set, 1, 1, "two")), Status::good);
	EXPECT_EQ(value(), "two");
}

TEST_F(Repeated, AnIdFromAClientWithoutOneBreaksTheProtocol) {
	const auto raw = connect_as(0);
	EXPECT_EQ(ask(*raw, change(Operation::set, 1, 1, "one")), std::nullopt);
	EXPECT_EQ(value(), "missing");
	EXPECT_EQ(counters_.malformed, 1u);
}

TEST_F(Repeated, AStoppingServerSaysThatItExecutesNothingMore) {
	const auto raw = connect_as(client_id);
	EXPECT_EQ(ask(*raw, change(Operation::set, 1, 1, "one")), Status::good);
	connections_.back()->connection->stop();
	EXPECT_EQ(ask(*raw, change(Operation::set, 2, 2, "two")), Status::leaving);
	EXPECT_EQ(value(), "one");
}

TEST_F(Repeated, AClientOfAnotherVersionGetsTheGreetingAndThenTheEnd) {
	const auto raw = connect_without_greeting();
	loop_.complete([](channel::Channel& raw) -> Task<void> {
		// The greeting of version 1 has 32 bytes.
		const Hello hello{.version = 1};
		const Bytes greeting = bytes_of(hello).first(32);
		co_await raw.send(greeting);
		const auto answer = co_await raw.receive();
		EXPECT_TRUE(answer.has_value());
		EXPECT_TRUE(answer && read_hello(answer->bytes(), Hello::from_server));
		const auto end = co_await raw.receive();
		EXPECT_FALSE(end.has_value());
		raw.close();
		co_await raw.until_closed();
	}(*raw));
	loop_.run_until([&] { return !connections_.back()->why.empty(); });
	EXPECT_NE(connections_.back()->why.find("another version"), std::string::npos) << connections_.back()->why;
}

TEST_F(Repeated, TheGreetingNamesTheContent) {
	Hello theirs;
	const auto raw = connect_as(client_id, &theirs);
	EXPECT_EQ(theirs.identity, sessions_.identity());
	EXPECT_EQ(theirs.forgot, 0u);
}

}  // namespace
}  // namespace verbena::kv
