// TestJournal: a Journal in memory for tests, whose commits fail when the test wants it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "lib/kv/journal.h"

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

}  // namespace verbena::kv::testing_tools
