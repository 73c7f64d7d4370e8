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

TEST(KvScript, AnUnknownOrIncompleteCommandIsAnError) {
	for (const char* line : {"SET", "SET key", "GET", "DEL", "PUT key value", "GET two keys", "set key value"})
		EXPECT_FALSE(read_command(line)) << line;
	EXPECT_FALSE(read_command("").value().has_value());
	EXPECT_FALSE(read_command("  ").value().has_value());
}

}  // namespace
}  // namespace verbena::kv
