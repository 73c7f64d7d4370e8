// SPDX-License-Identifier: Apache-2.0
// For tests of changes: a Journal in memory, whose commits fail when the test wants it, an Asker
// that keeps its answers, and a fixture with both.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lib/kv/changes.h"

namespace verbena::kv::testing_tools {

class TestJournal final : public Journal {
public:
	void set(std::string_view key, Bytes value, const Stamp& stamp) override {
		EXPECT_GT(stamp.version, last_version);
		last_version = stamp.version;
		next[std::string(key)] = text_of(value);
		expires[std::string(key)] = stamp.expires;
	}
	void remove(std::string_view key, std::uint64_t version) override {
		EXPECT_GT(version, last_version);
		last_version = version;
		next.erase(std::string(key));
	}
	bool commit() override {
		++commits;
		if (before_commit) before_commit();
		(fails ? next : content) = fails ? content : next;
		return !fails;
	}

	// The durable content, and the same with the changes since then.
	std::map<std::string, std::string> content, next;
	std::map<std::string, std::uint64_t> expires;  // Stamp::expires of the last SET of each key
	std::function<void()> before_commit;
	bool fails = false;
	std::uint64_t last_version = 0;
	int commits = 0;
};

class KeptAnswers : public Asker {
public:
	void decided(std::uint32_t number, Status status, std::uint64_t version) override {
		EXPECT_FALSE(by_number.contains(number)) << "an answer is given once";
		by_number[number] = status;
		versions[number] = version;
	}
	// The answer to this request; nothing if it waits.
	std::optional<Status> to(std::uint32_t number) const {
		const auto found = by_number.find(number);
		return found == by_number.end() ? std::nullopt : std::optional(found->second);
	}
	std::map<std::uint32_t, Status> by_number;
	std::map<std::uint32_t, std::uint64_t> versions;
};

// Changes with a journal, and what a client would do.
class ChangesTest : public ::testing::Test {
protected:
	void open(std::size_t memory_max, std::size_t window = 64) {
		changes_.reset();
		store_.emplace(StoreOptions{.memory_max = memory_max, .window = window}, nullptr);
		changes_.emplace(loop_, *store_, sessions_, &journal_);
	}
	void SetUp() override { open(std::size_t{1} << 30); }

	Changes::Request request(std::uint32_t number, std::uint64_t order = 0) {
		return {.asker = answers_, .number = number, .session = &session_, .terms = {.order = order}};
	}
	void set(std::uint32_t number, std::string_view key, std::string_view value, std::uint64_t order = 0) {
		changes_->set(request(number, order), key, bytes_of(value));
	}
	void remove(std::uint32_t number, std::string_view key, std::uint64_t order = 0) {
		changes_->remove(request(number, order), key);
	}
	void set_for(std::uint32_t number, std::string_view key, std::string_view value, std::uint32_t ttl_ms,
		std::uint64_t expected = any_version) {
		changes_->set(
			{.asker = answers_, .number = number, .terms = {.expected = expected, .versioned = true, .ttl_ms = ttl_ms}},
			key, bytes_of(value));
	}
	void set_if(std::uint32_t number, std::string_view key, std::string_view value, std::uint64_t expected) {
		changes_->set({.asker = answers_, .number = number, .terms = {.expected = expected, .versioned = true}}, key,
			bytes_of(value));
	}
	void remove_if(std::uint32_t number, std::string_view key, std::uint64_t expected) {
		changes_->remove(
			{.asker = answers_, .number = number, .terms = {.expected = expected, .versioned = true}}, key);
	}
	std::string get(std::string_view key) {
		const Value value = store_->get(key, loop_.now());
		return value ? std::string(text_of(value.bytes())) : "(missing)";
	}

	// Lets time pass, and looks for ends, until `done`.
	template <class Done> void end_lives_until(Done done) {
		while (!done()) {
			let_pass(10'000'000);
			while (changes_->expire()) {}
			changes_->commit();
		}
	}
	// Returns once the loop's time is this much later.
	void let_pass(Nanoseconds time) {
		loop_.complete([](async::Loop& loop, Nanoseconds until) -> async::Task<void> {
			while (loop.now() < until) co_await async::NextTurn(loop);
		}(loop_, monotonic_now() + time));
	}

	async::Loop loop_;
	Sessions sessions_{1};
	ChangeSession& session_ = sessions_.enter(7);
	TestJournal journal_;
	KeptAnswers answers_;
	std::optional<Store> store_;
	std::optional<Changes> changes_;
};

}  // namespace verbena::kv::testing_tools
