// SPDX-License-Identifier: Apache-2.0
#include "bench/table/table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/table/histogram.h"
#include "bench/table/limits.h"

namespace verbena::bench {
namespace {

constexpr Column columns[] = {
	{"mode", Kind::word, Role::cell, true},
	{"msg", Kind::count, Role::cell, true},
	{"mops", Kind::number, Role::result, true},
	{"lost", Kind::count, Role::result},
	{"reason", Kind::word, Role::verdict},
	{"repetitions", Kind::list, Role::evidence},
};

// As a field of CSV has it within quotes.
std::string doubled(std::string_view text) {
	std::string field;
	for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
	return field;
}

Table one_row() {
	Histogram latency;
	latency.record(90);
	return {.environment = {{"device", "vb_lo"}, {"command", "verbena bench rcud --sizes 32,64"}},
		.rows = {{{"mode", "RC"}, {"msg", 32}, {"mops", 0.4412345678901234}, {"lost", nullptr}, {"reason", ""},
			{"repetitions", {{{"mops", 0.44}, {"latency_ns", to_json(latency)}}}}}}};
}

TEST(Csv, HasAHeaderTheRowsAndThenTheEnvironment) {
	EXPECT_EQ(to_csv(one_row(), columns),
		"mode,msg,mops,lost,reason,repetitions\n"
		"RC,32,0.4412345678901234,,,\"[{\"\"mops\"\":0.44}]\"\n"
		"# device: vb_lo\n# command: verbena bench rcud --sizes 32,64\n");
}

TEST(Csv, ReadsBackWhatItWroteToTheLastDigit) {
	Table table = one_row();
	table.rows[0]["reason"] = "a \"quoted\", comma\nand a line";
	const auto read = read_table(to_csv(table, columns));
	ASSERT_TRUE(read) << read.error();
	EXPECT_EQ(to_csv(*read, columns), to_csv(table, columns));
	EXPECT_EQ(number_of(read->rows[0], "mops")->value, 0.4412345678901234);
	EXPECT_EQ(word_of(read->rows[0], "reason"), word_of(table.rows[0], "reason"));
	EXPECT_FALSE(number_of(read->rows[0], "lost"));
	EXPECT_TRUE(read->rows[0]["repetitions"].is_array());
	EXPECT_EQ(read->environment, table.environment);
}

TEST(Csv, AFileThatIsNoTableIsRefusedWithTheLine) {
	EXPECT_EQ(read_table("").error(), "it is empty");
	EXPECT_EQ(read_table("mode,msg\n").error(), "no rows");
	EXPECT_NE(read_table("mode,msg,mops\nRC,32\n").error().find("line 2: 2 fields"), std::string::npos);
	EXPECT_NE(read_table("a,b\n\"1\n2\",3\n4\n").error().find("line 4: 1 fields"), std::string::npos);
	EXPECT_NE(read_table("mode\n\"RC\n").error().find("does not end"), std::string::npos);
	EXPECT_EQ(read_table("mode,mode\n").error(), "column 'mode' appears twice");
}

// `experiment, op` had no column of that name for the judge, but one for the page.
TEST(Csv, BlanksBesideTheNameOfAColumnDoNotCount) {
	const auto read = read_table("mode, msg ,\tmops\nRC, 32,1\n");
	ASSERT_TRUE(read) << read.error();
	EXPECT_EQ(value_in(read->rows[0], "mops"), 1);
	EXPECT_TRUE(read->rows[0].contains("msg"));
	EXPECT_EQ(read_table("mode, mode\n").error(), "column 'mode' appears twice");
}

TEST(Csv, OnlyALineFeedEndsALine) {
	for (const std::string other : {"\v", "\f", "\r", "\xc2\x85", "\xe2\x80\xa8"}) {
		const auto read = read_table("# a: b" + other + "forged\nmode\nRC\n");
		ASSERT_TRUE(read) << read.error();
		EXPECT_EQ(value_of(read->environment, "a"), "b" + other + "forged");
		EXPECT_EQ(word_of(read->rows[0], "mode"), "RC");
	}
}

TEST(Csv, AnEnvironmentKeyThatAppearsTwiceIsRefusedInAnyCase) {
	EXPECT_EQ(
		read_table("mode\nRC\n# kind: software\n# Kind: hardware\n").error(), "environment key 'Kind' appears twice");
	EXPECT_TRUE(read_table("mode\nRC\n# kind: software\n# a comment\n# a comment\n"));
}

TEST(Tables, ABinaryFileIsRefused) {
	EXPECT_TRUE(read_table("mode\nR\xff\n").error().starts_with("not UTF-8 text"));
	EXPECT_TRUE(read_table(std::string_view("mode\nR\0C\n", 9)).error().starts_with("a byte 0 in the text"));
}

// The reader waited for ever for the end of such a line.
TEST(Csv, ALastCommentWithoutALineBreakEndsTheFile) {
	const auto read = read_table("mode\nRC\n# device: vb_lo");
	ASSERT_TRUE(read) << read.error();
	EXPECT_EQ(value_of(read->environment, "device"), "vb_lo");
	EXPECT_EQ(read_table("#").error(), "no header line");
}

TEST(Json, HasTheEnvironmentAndTheHistogramsAndReadsBack) {
	const Table table = one_row();
	const auto read = read_table(to_json(table, columns));
	ASSERT_TRUE(read) << read.error();
	EXPECT_EQ(read->rows[0], table.rows[0]);
	EXPECT_EQ(read->environment, table.environment);
	EXPECT_TRUE(read->rows[0]["repetitions"][0].contains("latency_ns"));
}

TEST(Json, AFileThatIsNoTableIsRefused) {
	EXPECT_EQ(read_table("{\"rows\":[").error(),
		"not valid JSON: it does not end with '}', so it is truncated; measure again");
	EXPECT_EQ(read_table("{\"rows\":}").error(), "not valid JSON");
	EXPECT_EQ(read_table("{}").error(), "the JSON has no list 'rows'");
	EXPECT_EQ(read_table("{\"rows\":[1]}").error(), "row 1 is not an object");
	EXPECT_EQ(read_table("{\"rows\":[]}").error(), "no rows");
	EXPECT_EQ(
		read_table("{\"environment\":[1],\"rows\":[{\"a\":1}]}").error(), "the JSON's 'environment' is not an object");
}

TEST(Json, ANameThatAppearsTwiceInTheEnvironmentOrInARowIsRefused) {
	const auto error_of = [](const std::string& environment, const std::string& rows) {
		const auto read = read_table("{\"environment\":{" + environment + "},\"rows\":[" + rows + "]}");
		return read ? "" : read.error();
	};
	EXPECT_EQ(error_of("\"a\":1,\"b\":2", "{\"a\":1},{\"a\":{\"b\":1,\"b\":2}}"), "");
	EXPECT_EQ(error_of("\"kind\":\"software\",\"kind\":\"hardware\"", "{\"a\":1}"), "name 'kind' appears twice");
	EXPECT_EQ(error_of("\"kind\":1,\"KIND\":2", "{\"a\":1}"), "environment key 'KIND' appears twice");
	EXPECT_EQ(error_of("", "{\"a\":1},{\"a\":1,\"a\":2}"), "name 'a' appears twice");
}

TEST(Markdown, IsAlignedHasThreeDigitsAndNoColumnWithoutAValue) {
	Table table = one_row();
	table.rows.push_back(table.rows[0]);
	table.rows[1]["msg"] = 8192;
	table.rows[1]["mops"] = nullptr;
	EXPECT_EQ(to_markdown(table, columns),
		"| mode | msg  | mops  |\n"
		"| ---- | ---: | ----: |\n"
		"| RC   |   32 | 0.441 |\n"
		"| RC   | 8192 |   n/a |\n\n"
		"- device: vb_lo\n- command: verbena bench rcud --sizes 32,64\n");
}

TEST(Number, KnowsHowItWasRounded) {
	const Json row{{"a", "0.44"}, {"b", "12"}, {"c", 0.5}, {"d", "-1"}, {"e", "nan"}, {"f", "12x"}, {"g", "1.5e3"}};
	EXPECT_DOUBLE_EQ(number_of(row, "a")->rounding, 0.005);
	EXPECT_DOUBLE_EQ(number_of(row, "b")->rounding, 0.5);
	EXPECT_DOUBLE_EQ(number_of(row, "c")->rounding, 0.05);
	EXPECT_DOUBLE_EQ(number_of(row, "g")->rounding, 50);
	for (const char* column : {"d", "e", "f", "absent"}) EXPECT_FALSE(number_of(row, column)) << column;
}

TEST(ThreeDigits, AreSignificantOnesAndNotDecimals) {
	EXPECT_EQ(three_digits(0.01311), "0.0131");
	EXPECT_EQ(three_digits(12.345), "12.3");
	EXPECT_EQ(three_digits(1234.4), "1234");
	EXPECT_EQ(three_digits(0), "0");
}

TEST(Table, IsRefusedIfItIsTooLarge) {
	std::string rows = "a\n";
	for (std::size_t i = 0; i < rows_max; ++i) rows += "1\n";
	EXPECT_TRUE(read_table(rows));
	EXPECT_EQ(read_table(rows + "1\n").error(), "more than 5000 rows");
	EXPECT_EQ(read_table("a\n" + std::string(bytes_max, '1')).error(), "more than 32 MiB, which no table has");
	Json many{{"rows", Json::array()}}, row{{"repetitions", Json::array()}};
	for (std::size_t i = 0; i <= rows_max; ++i) many["rows"].push_back(Json::object());
	for (std::size_t i = 0; i <= repetitions_max; ++i) row["repetitions"].push_back(1);
	EXPECT_EQ(read_table(many.dump()).error(), "more than 5000 rows");
	EXPECT_EQ(read_table(Json{{"rows", {row}}}.dump()).error(), "row 1 has more than 2000 repetitions");
}

// Names are looked up one after the other: 100,000 columns of CSV took a minute and a half.
TEST(Table, OfManyNamesIsRefused) {
	std::string columns = "a", comments, object;
	for (std::size_t i = 0; i <= names_max; ++i) {
		columns += fmt::format(",c{}", i);
		comments += fmt::format("# k{}: 1\n", i);
		object += fmt::format("{}\"n{}\":1", i == 0 ? "" : ",", i);
	}
	EXPECT_EQ(read_table(columns + "\n1\n").error(), "line 1: more than 256 fields");
	EXPECT_EQ(read_table("a\n1\n" + comments).error(), "more than 256 lines '# key: value'");
	for (const std::string& text : {R"({"environment":{)" + object + R"(},"rows":[{"a":1}]})",
			 R"({"rows":[{)" + object + "}]}", R"({"rows":[{"repetitions":[{)" + object + "}]}]}"})
		EXPECT_EQ(read_table(text).error(), "more than 256 names in an object");
	const auto csv = read_table("repetitions\n\"[{" + doubled(object) + "}]\"\n");
	ASSERT_TRUE(csv);
	EXPECT_TRUE(csv->rows[0]["repetitions"].is_string()) << "it is no list, so the row is invalid";
}

TEST(Table, OfLongTextsIsRefused) {
	const std::string text(text_bytes_max, 'x');
	EXPECT_TRUE(read_table("a\n" + text + "\n# b: " + text));
	EXPECT_EQ(read_table("a\n" + text + "x\n").error(), "row 1 has more than 64 KiB in 'a'");
	EXPECT_EQ(read_table("a\n1\n# b: x" + text).error(), "the environment has more than 64 KiB in 'b'");
	EXPECT_EQ(read_table(R"({"environment":{"b":"x)" + text + R"("},"rows":[{"a":1}]})").error(),
		"the environment has more than 64 KiB in 'b'");
	EXPECT_EQ(read_table("a\n1\n# " + text + ": 1\n# " + text + ": 2").error(),
		"environment key '" + std::string(80, 'x') + "...' appears twice");
}

TEST(Shortened, EndsWithAWholeCharacter) {
	EXPECT_EQ(shortened("abcd", 4), "abcd");
	EXPECT_EQ(shortened("abcde", 4), "abcd...");
	EXPECT_EQ(shortened("abc\xc3\xa4", 4), "abc...");
}

// Each of these ended the program: it had no stack left.
TEST(Table, OfListsWithinListsIsRefused) {
	const std::size_t many = 300'000;
	const std::string deep = std::string(many, '[') + std::string(many, ']');
	for (const std::string& text :
		{R"({"environment":{"a":)" + deep + R"(},"rows":[{"a":1}]})", R"({"rows":[{"a":)" + deep + "}]}",
			R"({"rows":[{"repetitions":[)" + deep + "]}]}", R"({"rows":)" + std::string(many, '[')})
		EXPECT_EQ(read_table(text).error(), "more than 64 lists within each other");
	EXPECT_EQ(read_table("a,repetitions\n1,[" + deep + "]\n").error(), "row 1 has more than 64 KiB in 'repetitions'");
	const std::string shallow = deep.substr(many - 1000, 2000);
	const auto csv = read_table("a,repetitions\n" + shallow + ",[" + shallow + "]\n");
	ASSERT_TRUE(csv);
	EXPECT_TRUE(csv->rows[0]["a"].is_string());
	EXPECT_TRUE(csv->rows[0]["repetitions"].is_string());
	EXPECT_TRUE(
		read_table(R"({"rows":[{"a":"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}]})"));
}

TEST(Table, IsTextOfUtf8) {
	EXPECT_EQ(read_table(" \n").error(), "it is empty");
	EXPECT_EQ(read_table(std::string_view("a,b\n1,\0002\n", 9)).error(),
		"a byte 0 in the text: name a CSV or JSON file of `verbena bench`");
	EXPECT_EQ(read_table(std::string_view("\xff\xfe"
										  "a\0\n\0",
							 6))
				  .error(),
		"it is UTF-16, so save it as UTF-8");
}

TEST(Histograms, ReadBackWithTheSameQuantiles) {
	Histogram latency;
	for (std::uint64_t value = 1; value < 100'000; value += 37) latency.record(value);
	const auto read = histogram_of(to_json(latency));
	ASSERT_TRUE(read) << read.error();
	for (const double fraction : {0.0, 0.5, 0.99, 0.9999, 1.0})
		EXPECT_EQ(read->quantile(fraction), latency.quantile(fraction));
	EXPECT_EQ(read->count(), latency.count());
	EXPECT_EQ(read->min(), latency.min());
	EXPECT_TRUE(histogram_of(to_json(Histogram())));
}

TEST(Histograms, WithNumbersThatDoNotFitAreRefused) {
	Histogram latency;
	latency.record(90);
	latency.record(5000, 3);
	const Json good = to_json(latency);
	ASSERT_TRUE(histogram_of(good));
	const auto refused = [&](const char* key, const Json& value) {
		Json changed = good;
		changed[key] = value;
		return !histogram_of(changed);
	};
	EXPECT_TRUE(refused("count", 5));
	EXPECT_TRUE(refused("min", 80));
	EXPECT_TRUE(refused("max", 9000));
	EXPECT_TRUE(refused("buckets", {{5000, 3}, {90, 1}}));
	EXPECT_TRUE(refused("buckets", {{90, -1}, {5000, 3}}));
	EXPECT_TRUE(refused("buckets", {1, 2}));
	// The sum of these two and 4 is 4 again.
	EXPECT_TRUE(refused("buckets", {{90, UINT64_MAX}, {91, 1}, {5000, 4}}));
	EXPECT_TRUE(refused("buckets", nullptr));
	EXPECT_FALSE(histogram_of(Json::array()));
}

}  // namespace
}  // namespace verbena::bench
