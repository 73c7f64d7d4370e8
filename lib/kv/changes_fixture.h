// For tests of changes: a Journal in memory, whose commits fail when the test wants it, and an
// Asker that keeps its answers.
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
	void set(std::string_view key, Bytes value, std::uint64_t version) override {
		EXPECT_GT(version, last_version);
		last_version = version;
		next[std::string(key)] = text_of(value);
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

}  // namespace verbena::kv::testing_tools
