// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "bench/rcud/fixture.h"
#include "bench/rcud/verification.h"
#include "bench/table/table.h"

namespace verbena::rcud {
namespace {

using bench::Json;
using bench::Table;
using bench::Validity;
using testing_tools::cell;
using testing_tools::good;
using testing_tools::good_with_every_byte;
using testing_tools::judged;
using testing_tools::measured;
using testing_tools::row_with;

// A published row: the figures alone.
Json published(const char* mode, const char* msg, const char* window, const char* mops, const char* gib) {
	return {{"experiment", "msg_sweep"}, {"mode", mode}, {"msg", msg}, {"window", window}, {"iters", "200000"},
		{"mops", mops}, {"gib", gib}};
}

TEST(Row, HasTheMedianAndTheSums) {
	const Json row = good();
	EXPECT_EQ(row["experiment"], "msg_sweep");
	EXPECT_EQ(row["mode"], "UD");
	EXPECT_EQ(row["window_mode"], "credit");
	EXPECT_EQ(row["iters"], 1000u);
	const auto value = [&](const char* column) { return row.at(column).get<double>(); };
	EXPECT_NEAR(value("mops"), 2.0, 0.001);
	EXPECT_NEAR(value("gib"), 2.0 * 1e6 * 1024 / (1 << 30), 0.001);
	EXPECT_NEAR(value("mops_low"), 1.0, 0.001);
	EXPECT_NEAR(value("mops_high"), 3.0, 0.001);
	EXPECT_NEAR(value("spread"), 1.0, 0.001);
	EXPECT_EQ(row["posted"], 3000u);
	EXPECT_EQ(row["delivered"], 3000u);
	EXPECT_EQ(row["lost"], 0u);
	EXPECT_NEAR(value("p50_us"), 1.0, 1.0 / 64);
	EXPECT_NEAR(value("p9999_us"), 1.0, 1.0 / 64);
	EXPECT_EQ(row["rtt_class"], "near");
	EXPECT_EQ(judged(row).validity, Validity::valid);
	EXPECT_EQ(judged(row).reason, "");
}

TEST(Row, ReadsBackFromCsvAndJsonAsItWas) {
	const Table table{.rows = {good()}};
	for (const std::string& text :
		{bench::to_csv(table, experiment().columns), bench::to_json(table, experiment().columns)}) {
		const auto read = bench::read_table(text);
		ASSERT_TRUE(read) << read.error();
		EXPECT_EQ(bench::judge(experiment(), *read)->front().reason, "");
	}
}

TEST(Row, HasTheClassMixedWhenTheRoundTripChanged) {
	auto moved = measured(1.0);
	moved.rtt_after_ns = 340;
	EXPECT_EQ(row_with(cell, {measured(1.0), moved})["rtt_class"], "mixed");
}

TEST(Row, ARepetitionThatBrokeMakesItInvalidAndSaysWhy) {
	auto broken = measured(1.0);
	broken.failure = "the other process ended";
	broken.delivery = {.delivered = 400};
	const Json row = row_with(cell, {broken});
	EXPECT_EQ(judged(row).validity, Validity::invalid);
	EXPECT_EQ(judged(row).reason, "repetition 1: the other process ended (1000 posted, 400 known to be delivered)");
	EXPECT_EQ(row["lost"], 600u);
	EXPECT_EQ(row["mops"], 0.0);
}

TEST(Row, NothingDeliveredIsInvalid) {
	auto silent = measured(1.0);
	silent.delivery = {};
	auto silent_too = silent;
	++silent_too.sender_ns;
	Cell large = cell;
	large.msg = 8192;
	const Json row = row_with(large, {silent, silent_too});
	EXPECT_EQ(row["mops"], 0.0);
	EXPECT_EQ(judged(row).validity, Validity::invalid);
	EXPECT_NE(judged(row).reason.find("nothing delivered; UD message of 8192 B is larger than the MTU of 4096 B"),
		std::string::npos);
}

TEST(Row, ARunThatEndedEarlyIsSuspect) {
	auto early = measured(1.0);
	early.iters = 5000;
	EXPECT_EQ(judged(row_with(cell, {early})).validity, Validity::suspect);
	EXPECT_NE(judged(row_with(cell, {early})).reason.find("ended after 1000 of 5000"), std::string::npos);
}

TEST(Row, DamageIsInvalid) {
	auto damaged = measured(1.0);
	damaged.delivery.corrupt = 1;
	EXPECT_EQ(judged(row_with(cell, {damaged})).reason, "repetition 1: 1 messages arrived damaged");
}

TEST(Row, UdMayLoseMessagesAndReportsThemButRcMayNot) {
	auto lossy = measured(1.0);
	lossy.delivery.delivered = 990;
	lossy.delivery.counted = 980;
	EXPECT_EQ(judged(row_with(cell, {lossy})).validity, Validity::valid);
	EXPECT_EQ(judged(row_with(cell, {lossy})).reason, "10 of 1000 lost");
	Cell rc = cell;
	rc.mode = Mode::rc;
	EXPECT_EQ(judged(row_with(rc, {lossy})).reason, "RC lost 10 messages; 10 of 1000 lost");
	lossy.delivery.delivered = 989;
	EXPECT_EQ(judged(row_with(cell, {lossy})).validity, Validity::suspect);
	EXPECT_NE(judged(row_with(cell, {lossy})).reason.find("11 of 1000 lost (1.10 %)"), std::string::npos);
}

TEST(Row, RcNeitherRepeatsNorReorders) {
	Cell rc = cell;
	rc.mode = Mode::rc;
	auto strange = measured(1.0);
	strange.delivery.reordered = 5;
	EXPECT_EQ(judged(row_with(rc, {strange})).reason, "RC reordered 5 messages");
	strange.delivery = measured(1.0).delivery;
	strange.delivery.duplicated = 5;
	EXPECT_EQ(judged(row_with(rc, {strange})).reason, "RC duplicated 5 messages");
}

// Each change alone must be noticed, in the file with histograms and in the one without.
TEST(Row, EveryFigureOfARowIsBoundToItsRepetitions) {
	for (const bool from_csv : {false, true}) {
		Table table{.rows = {good()}};
		if (from_csv) table = *bench::read_table(bench::to_csv(table, experiment().columns));
		for (const bench::Column& column : experiment().columns) {
			if (column.role == bench::Role::verdict || column.name == "device") continue;
			Json forged = table.rows[0];
			const auto number = bench::number_of(forged, column.name);
			if (column.kind == bench::Kind::list) forged["repetitions"].erase(0);
			else if (column.kind == bench::Kind::word) forged[std::string(column.name)] = "RC";
			else if (column.kind == bench::Kind::count) forged[std::string(column.name)] = number->value + 1;
			else forged[std::string(column.name)] = number->value * 1.001;
			EXPECT_EQ(judged(forged).validity, Validity::invalid) << column.name << (from_csv ? " in CSV" : " in JSON");
		}
	}
}

TEST(Row, EveryNumberOfARepetitionIsBoundToTheOthers) {
	const Json untouched = good_with_every_byte();
	ASSERT_EQ(judged(untouched).validity, Validity::valid) << judged(untouched).reason;
	for (const auto& [key, value] : untouched["repetitions"][0].items()) {
		// A message may be stale or late, and the round trip may be any: they bind only the row.
		if (key == "stale" || key == "failure" || key == "sender_ns") continue;
		Json forged = untouched;
		Json& changed = forged["repetitions"][0][key];
		if (key == "checked") changed = "stamps";
		else if (key == "cell") changed = "RC send 1024 B window 4 credit";
		else if (value.is_object()) changed["buckets"][0][1] = 1000;
		else if (value.is_number_unsigned()) changed = value.get<std::uint64_t>() + 1;
		else changed = value.get<double>() * 2;
		EXPECT_EQ(judged(forged).validity, Validity::invalid) << key;
		Json absent = untouched;
		absent["repetitions"][0].erase(key);
		EXPECT_EQ(judged(absent).validity, Validity::invalid) << key;
	}
}

TEST(Row, SaysWhetherEveryByteWasChecked) {
	EXPECT_EQ(good()["checked"], "stamps");
	EXPECT_TRUE(good()["mops_unverified"].is_null());
	EXPECT_EQ(good_with_every_byte()["checked"], "bytes");
	EXPECT_EQ(good_with_every_byte()["mops_unverified"], 5.0);
	EXPECT_EQ(verification_cost(std::vector{good()}), "");
	EXPECT_EQ(verification_cost(std::vector{good(), good_with_every_byte()}),
		"every byte of every message; the rate is 40.0 % of that without, at 1024 B 0.293 ns a byte more");
}

TEST(Row, OfAnEarlierVersionDoesNotSayWhatWasChecked) {
	Json row = good();
	row.erase("checked");
	for (Json& each : row["repetitions"]) each.erase("checked");
	EXPECT_EQ(judged(row).validity, Validity::valid);
	row["checked"] = "bytes";
	EXPECT_EQ(judged(row).validity, Validity::invalid);
	Json some = good();
	some["repetitions"][1].erase("checked");
	EXPECT_NE(judged(some).reason.find("checked is stamps, but the repetitions give mixed"), std::string::npos);
}

TEST(Row, ClaimsNoCheckThatItsRepetitionsDoNotHave) {
	Json claims = good();
	claims["checked"] = "bytes";
	EXPECT_NE(judged(claims).reason.find("checked is bytes, but the repetitions give stamps"), std::string::npos);
	auto verified = measured(3.0);
	verified.verified = true;
	verified.mops_unverified = 4;
	EXPECT_EQ(judged(row_with(cell, {measured(1.0), verified})).reason, "checked 'mixed' is unknown");
	verified.mops_unverified = 0;
	EXPECT_EQ(judged(row_with(cell, {verified})).reason,
		"repetition 1: every byte was checked, but there is no rate without that");
}

TEST(Row, RcBringsNoMessagesOfAnotherRun) {
	Cell rc = cell;
	rc.mode = Mode::rc;
	auto strange = measured(1.0);
	strange.delivery.stale = 2;
	EXPECT_EQ(judged(row_with(rc, {strange})).reason, "repetition 1: 2 messages of another run arrived over RC");
	EXPECT_EQ(judged(row_with(cell, {strange})).validity, Validity::valid);
}

// Rows of RC were sold as rows of UD, and those of a window of 4 as those of 64.
TEST(Row, ItsRepetitionsAreOfItsCell) {
	const Json row = good();
	for (const auto& [column, value] : {std::pair("mode", Json("RC")), std::pair("window_mode", Json("local")),
			 std::pair("window", Json(64)), std::pair("op", Json("read"))}) {
		Json forged = row;
		forged[column] = value;
		EXPECT_EQ(judged(forged).validity, Validity::invalid) << column;
		EXPECT_NE(
			judged(forged).reason.find("it is one of the cell 'UD send 1024 B window 4 credit'"), std::string::npos)
			<< judged(forged).reason;
	}
	Json earlier = row;
	for (Json& each : earlier["repetitions"])
		for (const char* key : {"cell", "latencies"}) each.erase(key);
	EXPECT_EQ(judged(earlier).validity, Validity::valid);
	EXPECT_NE(judged(earlier).reason, "") << "a table without their names says so";
	EXPECT_NE(experiment().remark({.rows = {earlier}}), "");
	for (const char* column : {"op", "window_mode"}) {
		Json nameless = earlier;
		nameless[column] = nullptr;
		EXPECT_NE(judged(nameless).reason.find(fmt::format("there is no {}", column)), std::string::npos);
	}
	earlier["window"] = 5000;
	EXPECT_NE(judged(earlier).reason.find("the window is 5000, but at most 4096"), std::string::npos);
}

TEST(Row, ThePublishedFormHasDigitsThatSaySomething) {
	EXPECT_EQ(judged(published("RC", "8192", "4", "1", "11")).validity, Validity::suspect);
	EXPECT_EQ(judged(published("RC", "8192", "4", "1.0", "7.6")).validity, Validity::valid);
}

TEST(Row, TheMtuIsOneOfInfiniBandsAndThatOfTheEnvironment) {
	Json row = good();
	row["mtu"] = 16384;
	EXPECT_EQ(judged(row).reason, "InfiniBand has no MTU of 16384 B");
	for (const int mtu : {256, 512, 1024, 2048, 4096}) {
		row["mtu"] = mtu;
		EXPECT_EQ(judged(row).reason.find("InfiniBand"), std::string::npos) << mtu;
	}
	row["mtu"] = 512;
	EXPECT_NE(judged(row).reason.find("larger than the MTU of 512 B"), std::string::npos);
	EXPECT_NE(judged(good(), {{"mtu", "1024"}}).reason.find("the environment says 1024"), std::string::npos);
	EXPECT_NE(judged(good(), {{"device", "mlx5_0"}}).reason.find("the environment says mlx5_0"), std::string::npos);
}

TEST(Row, HardwareMovesNoMoreThanItsLinkCarries) {
	const bench::Environment slow{{"kind", "hardware"}, {"link", "Ethernet, 10 Gb/s, to host2"}},
		fast{{"kind", "hardware"}, {"link", "Ethernet, 100 Gb/s, to host2"}};
	Json row = good();
	row["device"] = "mlx5_0";
	EXPECT_EQ(judged(row, slow).reason, "16.4 Gb/s of payload is more than the link's 10 Gb/s");
	EXPECT_EQ(judged(row, fast).reason, "");
}

// In the published table UD 8192 is impossible and UD 4096 at window 64 is above RC's plateau; the
// other rows are valid.
TEST(Published, TheTableHasExactlyItsKnownFaults) {
	std::ifstream file("bench/published/rc_vs_ud.csv");
	std::stringstream text;
	text << file.rdbuf();
	const auto table = bench::read_table(text.str());
	ASSERT_TRUE(table) << table.error();
	ASSERT_EQ(table->rows.size(), 36u);
	const auto verdicts = bench::judge(experiment(), *table);
	for (std::size_t i = 0; i < table->rows.size(); ++i) {
		const Json& row = table->rows[i];
		Validity expected = Validity::valid;
		if (row["mode"] == "UD" && row["msg"] == "8192") expected = Validity::invalid;
		if (row["mode"] == "UD" && row["msg"] == "4096" && row["window"] == "64") expected = Validity::suspect;
		EXPECT_EQ((*verdicts)[i].validity, expected) << row << (*verdicts)[i].reason;
		EXPECT_EQ((*verdicts)[i].reason.empty(), expected == Validity::valid);
	}
}

TEST(Published, ARateThatIsNotTheProductIsInvalidBeyondRounding) {
	EXPECT_EQ(judged(published("RC", "1024", "4", "3.0", "2.86")).validity, Validity::valid);
	EXPECT_EQ(judged(published("RC", "1024", "4", "3.000", "2.90")).validity, Validity::invalid);
	EXPECT_EQ(judged(published("RC", "1024", "4", "3.000", "3")).validity, Validity::valid);
}

TEST(Published, AModeThatIsUnknownIsInvalid) {
	EXPECT_EQ(judged(published("XX", "32", "4", "1", "0.0298")).reason, "mode 'XX' is unknown");
	EXPECT_EQ(judged(published("ud", "8192", "4", "1.21", "9.23")).reason, "mode 'ud' is unknown");
	EXPECT_EQ(judged(published("RC", "0", "4", "1", "0")).validity, Validity::invalid);
	EXPECT_EQ(judged(published("RC", "2147483649", "4", "1", "2")).validity, Validity::invalid);
	EXPECT_EQ(judged(published("RC", "2147483648", "4", "1e-3", "2000")).validity, Validity::valid);
	// Their product is infinite, and so was every difference from it.
	EXPECT_EQ(judged(published("RC", "2147483648", "4", "1e308", "1")).validity, Validity::invalid);
}

TEST(Published, WithoutAnRcPlateauUdMayBeFaster) {
	const Json fast = published("UD", "4096", "4", "3.146", "12.0");
	Table table{
		.rows = {published("RC", "4096", "4", "2.6214", "10.0"), published("RC", "8192", "4", "1.3763", "10.5"), fast}};
	EXPECT_EQ((*bench::judge(experiment(), table))[2].validity, Validity::suspect);
	// The rate still doubles, so the window limits it and not a link.
	table.rows[0] = published("RC", "4096", "4", "1.3107", "5.0");
	EXPECT_EQ((*bench::judge(experiment(), table))[2].validity, Validity::valid);
}

}  // namespace
}  // namespace verbena::rcud
