// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/script.h"

#include <gtest/gtest.h>

namespace verbena::kv {
namespace {

Command command_of(std::string_view line) { return read_command(line).value().value(); }

TEST(KvScript, AValueIsTheRestOfItsLine) {
	EXPECT_EQ(command_of("SET key a value with  spaces ").value, "a value with  spaces ");
	EXPECT_EQ(command_of("SET key value\r").value, "value");
	EXPECT_EQ(command_of("SET key ").value, "");
	EXPECT_EQ(command_of("SET key ").key, "key");
}

TEST(KvScript, GetAndDelTakeAKey) {
	EXPECT_EQ(command_of("GET key").kind, Command::Kind::get);
	EXPECT_EQ(command_of("DEL key").kind, Command::Kind::remove);
	EXPECT_EQ(command_of("GET ").key, "");
}

TEST(KvScript, VersionsAreNumbersBehindTheKey) {
	const Command cas = command_of("CAS key 18 a value with  spaces");
	EXPECT_EQ(cas.kind, Command::Kind::set);
	EXPECT_EQ(cas.key, "key");
	EXPECT_EQ(cas.value, "a value with  spaces");
	EXPECT_EQ(cas.expected, 18u);
	EXPECT_EQ(command_of("CAS key 0 ").value, "");
	EXPECT_EQ(command_of("DEL key 18446744073709551614").expected, 18446744073709551614u);
	// It was "any version", as in a message.
	EXPECT_FALSE(read_command("DEL key 18446744073709551615"));
	EXPECT_FALSE(read_command("CAS key 18446744073709551615 value"));
	EXPECT_FALSE(command_of("DEL key").expected);
	EXPECT_EQ(command_of("GETV key").kind, Command::Kind::get_version);
}

TEST(KvScript, SetexHasATimeBetweenKeyAndValue) {
	const Command command = command_of("SETEX key 10s a value with  spaces");
	EXPECT_EQ(command.kind, Command::Kind::set);
	EXPECT_EQ(command.key, "key");
	EXPECT_EQ(command.value, "a value with  spaces");
	EXPECT_EQ(command.ttl_ms, 10'000u);
	EXPECT_EQ(command_of("SETEX key 1ms ").ttl_ms, 1u);
	EXPECT_EQ(command_of("SETEX key 4294967295ms v").ttl_ms, 4294967295u);
	EXPECT_EQ(command_of("SETEX key 2m v").ttl_ms, 120'000u);
	EXPECT_EQ(command_of("SETEX key 3h v").ttl_ms, 10'800'000u);
	EXPECT_EQ(command_of("SETEX key 49d v").ttl_ms, 4'233'600'000u);
	EXPECT_EQ(command_of("SET key value").ttl_ms, 0u);
	for (const char* line : {"SETEX", "SETEX key", "SETEX key 10s", "SETEX key 10 value", "SETEX key s value",
			 "SETEX key 0s value", "SETEX key -1s value", "SETEX key 50d value", "SETEX key 4294967296ms value",
			 "SETEX key 99999999999999999999s value", "SETEX key 1.5s value", "SETEX key 10S value"})
		EXPECT_FALSE(read_command(line)) << line;
}

TEST(KvScript, ScanTakesAPrefixOrNone) {
	EXPECT_EQ(command_of("SCAN").kind, Command::Kind::scan);
	EXPECT_EQ(command_of("SCAN").key, "");
	EXPECT_EQ(command_of("SCAN user:").key, "user:");
	EXPECT_FALSE(read_command("SCAN two words"));
}

TEST(KvScript, InfoStandsAlone) {
	EXPECT_EQ(command_of("INFO").kind, Command::Kind::info);
	EXPECT_EQ(command_of("INFO\r").kind, Command::Kind::info);
	EXPECT_FALSE(read_command("INFO key"));
}

TEST(KvScript, AnUnknownOrIncompleteCommandIsAnError) {
	for (const char* line :
		{"SET", "SET key", "GET", "DEL", "PUT key value", "GET two keys", "set key value", "CAS", "CAS key",
			"CAS key 1", "CAS key one value", "CAS key -1 value", "DEL key one", "DEL key 1 2", "GETV two keys"})
		EXPECT_FALSE(read_command(line)) << line;
	EXPECT_FALSE(read_command("").value().has_value());
	EXPECT_FALSE(read_command("  ").value().has_value());
}

}  // namespace
}  // namespace verbena::kv
