// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/journal_format.h"

#include <gtest/gtest.h>

namespace verbena::kv {
namespace {

std::string record_of(std::string_view key, std::string_view value, const Stamp& stamp) {
	std::string content(record_bytes(key, bytes_of(value)), '\0');
	write_record(reinterpret_cast<std::byte*>(content.data()), name_of_key(key), key, bytes_of(value), stamp);
	return content;
}

TEST(JournalFormat, ARecordIsReadAsItWasWritten) {
	const std::string longest(key_max, 'k'), on_the_edge(510, 'e'), behind_it(511, 'e');
	for (const std::string& key : {std::string("key"), std::string("a\0b", 3), longest, on_the_edge, behind_it})
		for (const std::string& value : {std::string(), std::string("value"), std::string(100'000, 'v')}) {
			const std::string name = name_of_key(key), content = record_of(key, value, {.version = 77, .expires = 88});
			EXPECT_LE(name.size(), 511u) << "LMDB's limit";
			const auto record = read_record(name, content);
			ASSERT_TRUE(record);
			EXPECT_FALSE(record->is_note);
			EXPECT_EQ(record->key, key);
			EXPECT_EQ(text_of(record->value), value);
			EXPECT_EQ(record->stamp.version, 77u);
			EXPECT_EQ(record->stamp.expires, 88u);
		}
}

TEST(JournalFormat, EveryFlippedBitOfNameAndRecordIsFound) {
	for (const std::string& key : {std::string("key"), std::string(600, 'l')}) {
		std::string name = name_of_key(key), content = record_of(key, "a value", {.version = 5});
		const std::size_t bits = 8 * (name.size() + content.size());
		for (std::size_t bit = 0; bit < bits; ++bit) {
			char& byte = bit / 8 < name.size() ? name[bit / 8] : content[bit / 8 - name.size()];
			byte = static_cast<char>(byte ^ 1 << bit % 8);
			EXPECT_FALSE(read_record(name, content)) << bit;
			byte = static_cast<char>(byte ^ 1 << bit % 8);
		}
		EXPECT_TRUE(read_record(name, content));
	}
}

TEST(JournalFormat, ARecordThatIsCutShortIsDamaged) {
	const std::string name = name_of_key("key"), content = record_of("key", "value", {.version = 5});
	for (std::size_t bytes = 0; bytes < content.size(); ++bytes)
		EXPECT_FALSE(read_record(name, std::string_view(content).substr(0, bytes)));
	EXPECT_FALSE(read_record("", content));
}

TEST(JournalFormat, TheBytesOfARecordAreFixed) {
	const std::string content = record_of("k", "v", {.version = 0x0807060504030201});
	const unsigned char wanted[] = {
		18, 202, 170, 6, 84, 148, 89, 252, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'v'};
	ASSERT_EQ(content.size(), sizeof wanted);
	EXPECT_EQ(std::memcmp(content.data(), wanted, sizeof wanted), 0);
}

TEST(JournalFormat, ADamagedRecordIsNamedByWhatCanBeShown) {
	EXPECT_EQ(damaged_name(name_of_key("user:7")), "the key user:7");
	EXPECT_EQ(damaged_name(name_of_key("a\nb")), "the key a?b");
	EXPECT_EQ(damaged_name(name_of_key(std::string(100, 'x'))), "the key " + std::string(60, 'x') + "...");
	EXPECT_EQ(damaged_name(name_of_key(std::string(600, 'x'))), "a key of more than 510 bytes");
	EXPECT_EQ(damaged_name(name_of_note("sxxxxxxxx")), "a record of the server");
}

}  // namespace
}  // namespace verbena::kv
