// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/rows.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "bench/judge/judge.h"
#include "bench/kv/fixture.h"
#include "bench/kv/texts.h"
#include "bench/table/table.h"

namespace verbena::kvbench {
namespace {

using testing_tools::good_run;
using testing_tools::judged;
using testing_tools::row_with;

bench::Table published() {
	std::stringstream text;
	text << std::ifstream("bench/published/kv_set_get.csv").rdbuf();
	return *bench::read_table(text.str());
}

TEST(KvPublishedTable, HasThreeOutliersAndAMislabelledRow) {
	const bench::Table table = published();
	const auto verdicts = bench::judge(experiment(), table);
	ASSERT_TRUE(verdicts) << verdicts.error();
	std::set<std::string> found;
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		if (const auto validity = (*verdicts)[i].validity; validity != bench::Validity::valid)
			found.insert(std::string(bench::name_of(validity)) + ' ' + experiment().title(table.rows[i]));
	EXPECT_EQ(found,
		(std::set<std::string>{"suspect SET rendezvous 256 KiB", "suspect GET eager 4 B", "suspect GET eager 2 KiB",
			"mislabelled GET rendezvous 4 KiB"}));
	EXPECT_NE(experiment().remark(table).find("no size has both protocols"), std::string::npos);
}

TEST(KvPublishedTable, MayHaveBothProtocolsAtASize) {
	const bench::Table table =
		*bench::read_table("op,protocol,value_bytes,gigabytes_per_second\nSET,eager,64,0.01\nSET,rendezvous,64,0.02\n");
	const auto verdicts = bench::judge(experiment(), table);
	for (const bench::Verdict& verdict : *verdicts) EXPECT_EQ(verdict.reason, "");
	EXPECT_EQ(experiment().remark(table), "");
}

TEST(KvPublishedTable, WithoutARateOrWithAnotherOperationIsInvalid) {
	for (const char* line : {"SET,eager,64,0", "SET,eager,0,0.01", "PUT,eager,64,0.01", "SET,slow,64,0.01",
			 "SET,eager,64,fast", "SET,eager,64,nan", "SET,eager,64,-1", "SET,,64,1"}) {
		const auto table =
			bench::read_table(std::string("op,protocol,value_bytes,gigabytes_per_second\n") + line + '\n');
		ASSERT_TRUE(table) << table.error();
		EXPECT_EQ(bench::judge(experiment(), *table)->front().validity, bench::Validity::invalid) << line;
	}
	EXPECT_FALSE(bench::judge(experiment(), *bench::read_table("op,protocol,value_bytes\nSET,eager,1\n")));
}

TEST(KvRow, HasBothUnitsAndItsOperations) {
	const Cell cell{.op = Op::set, .proto = Proto::eager, .size = 1024, .iters = 1000};
	const bench::Json row = row_with(cell, {good_run(cell)});
	EXPECT_DOUBLE_EQ(row["operations_per_second"].get<double>(), 1e6);
	EXPECT_DOUBLE_EQ(row["gigabytes_per_second"].get<double>(), 1.024);
	EXPECT_NEAR(row["gibibytes_per_second"].get<double>(), 1024 * 1e6 / (1 << 30), 1e-6);
	EXPECT_EQ(row["messages_per_operation"], 2.0);
	EXPECT_EQ(row["operations"], 1000u);
	EXPECT_EQ(row["protocol"], "eager");
	EXPECT_EQ(judged(row).reason, "");
	EXPECT_EQ(judged(row).validity, bench::Validity::valid);
}

TEST(KvRow, HasTheCopiesOfOneProcessorIfTheyWereMeasured) {
	const Cell cell;
	Repetition run = good_run(cell);
	EXPECT_FALSE(json_of(cell, "", run).contains("bytes_copied_per_second"));
	run.bytes_copied_per_second = 1;
	EXPECT_EQ(json_of(cell, "", run).at("bytes_copied_per_second"), 1.0);
}

TEST(KvRow, NamesTheFormOnlyWhereAValueCanGoByRendezvous) {
	const auto form = [](const Cell& cell) { return row_of(cell, bench::Json::array())["form"].get<std::string>(); };
	for (const Proto proto : {Proto::rndv, Proto::automatic}) {
		EXPECT_EQ(form({.op = Op::set, .proto = proto, .form = Form::write}), "write");
		EXPECT_EQ(form({.op = Op::set, .proto = proto, .form = Form::read}), "read");
		EXPECT_EQ(form({.op = Op::get, .proto = proto, .form = Form::write}), "read");
		EXPECT_EQ(form({.system = System::redis, .op = Op::set, .proto = proto}), "");
	}
	EXPECT_EQ(form({.op = Op::set, .proto = Proto::eager}), "");
	EXPECT_EQ(form({.op = Op::get, .proto = Proto::one_sided}), "");
}

TEST(KvRow, ReadsBackFromCsvAndJsonAsItWas) {
	Cell rival{.system = System::redis, .transport = Transport::unix_socket, .iters = 1000};
	const Cell cell{.proto = Proto::rndv, .iters = 1000};
	const bench::Table table{.rows = {row_with(cell, {good_run(cell)}), row_with(rival, {good_run(rival)})}};
	for (const std::string& text :
		{bench::to_csv(table, experiment().columns), bench::to_json(table, experiment().columns)}) {
		const auto read = bench::read_table(text);
		ASSERT_TRUE(read) << read.error();
		const auto verdicts = bench::judge(experiment(), *read);
		for (const bench::Verdict& verdict : *verdicts) EXPECT_EQ(verdict.reason, "");
	}
}

TEST(KvRow, NamesTheProtocolThatItsOperationsUsed) {
	const Cell cell{.iters = 1000};
	Repetition eager = good_run(cell), rendezvous = eager;
	rendezvous.leased = 1000;
	rendezvous.eager = 0;
	EXPECT_EQ(row_with(cell, {eager, eager})["protocol"], "eager");
	EXPECT_EQ(row_with(cell, {rendezvous, rendezvous})["protocol"], "rendezvous");
	EXPECT_EQ(row_with(cell, {eager, rendezvous})["protocol"], "mixed");
	EXPECT_EQ(row_with({.system = System::memcached}, {good_run({.system = System::memcached})})["protocol"], "text");
	EXPECT_FALSE(row_of(cell, bench::Json::array()).contains("protocol")) << "it is not known before";
}

// Each change alone must be noticed, in the file with histograms and in the one without.
TEST(KvRow, EveryFigureIsBoundToItsRepetitions) {
	const Cell cell{.proto = Proto::eager, .iters = 1000};
	for (const bool from_csv : {false, true}) {
		bench::Table table{.rows = {row_with(cell, {good_run(cell), good_run(cell)})}};
		if (from_csv) table = *bench::read_table(bench::to_csv(table, experiment().columns));
		for (const bench::Column& column : experiment().columns) {
			if (column.kind != bench::Kind::count && column.kind != bench::Kind::number) continue;
			if (column.role == bench::Role::setting) continue;
			bench::Table forged = table;
			const double value = bench::number_of(forged.rows[0], column.name).value_or(bench::Number{}).value;
			forged.rows[0][std::string(column.name)] =
				from_csv ? bench::Json(std::to_string(value + 1)) : bench::Json(value + 1);
			EXPECT_EQ(bench::judge(experiment(), forged)->front().validity, bench::Validity::invalid)
				<< column.name << (from_csv ? " in CSV" : " in JSON");
		}
	}
}

TEST(KvRow, TheSameCellTwiceIsInvalidUnlessTheProtocolsDiffer) {
	const Cell cell{.iters = 1000};
	const auto verdicts =
		bench::judge(experiment(), {.rows = {row_with(cell, {good_run(cell)}), row_with(cell, {good_run(cell)})}});
	EXPECT_EQ((*verdicts)[1].reason, "the same cell as row 1");
}

TEST(KvCurves, ARowThatIsSlowerThanItsNeighboursIsSuspectAndNoneOfOursIsMislabelled) {
	bench::Table table;
	for (const auto& [size, slower] : {std::pair(64u, 1u), std::pair(128u, 4u), std::pair(256u, 1u)}) {
		const Cell cell{.proto = Proto::eager, .size = size, .iters = 1000};
		Repetition run = good_run(cell);
		run.elapsed_ns *= slower;
		table.rows.push_back(row_with(cell, {run}));
	}
	const auto verdicts = bench::judge(experiment(), table);
	EXPECT_EQ((*verdicts)[0].reason, "");
	EXPECT_EQ((*verdicts)[1].validity, bench::Validity::suspect);
	EXPECT_NE(
		(*verdicts)[1].reason.find("4.0 times slower than the curve through the sizes 64 and 256"), std::string::npos);
}

bench::Json shown(const Cell& cell, Repetition run) { return row_with(cell, {run}); }

TEST(KvTexts, ThePublishedFormHasHeadingsAndLinesOfSixDecimals) {
	const Cell eager{.proto = Proto::eager, .size = 2000, .iters = 1000},
		rendezvous{.proto = Proto::rndv, .size = 4000, .iters = 1000};
	const bench::Table table{.rows = {shown(eager, good_run(eager)), shown(rendezvous, good_run(rendezvous))}};
	EXPECT_EQ(to_published(table, {}),
		"SET THROUGHPUT MEASURE\nEager Protocol\n2000\t2.000000\tGigabytes/Second\nRendezvous "
		"Protocol\n4000\t4.000000\tGigabytes/Second\n");
	const bench::Table one{
		.rows = {{{"op", "GET"}, {"protocol", "eager"}, {"value_bytes", 4096}, {"gigabytes_per_second", 0.0678171}}}};
	EXPECT_EQ(to_published(one, {}), "GET THROUGHPUT MEASURE\nEager Protocol\n4096\t0.067817\tGigabytes/Second\n");
}

TEST(KvTexts, TheCrossoverLeavesOutInvalidRowsAndOtherSystems) {
	const auto of = [](Proto proto, std::uint32_t size, std::uint64_t wrong) {
		const Cell cell{.proto = proto, .size = size, .iters = 1000};
		Repetition run = good_run(cell);
		run.wrong = wrong;
		return row_with(cell, {run});
	};
	bench::Table table{
		.rows = {of(Proto::eager, 64, 0), of(Proto::rndv, 64, 0), of(Proto::eager, 4096, 0), of(Proto::rndv, 4096, 1)}};
	const Cell rival{.system = System::redis, .transport = Transport::tcp, .size = 8192, .iters = 1000};
	table.rows.push_back(row_with(rival, {good_run(rival)}));
	bench::judge_measured(experiment(), table);
	const std::string text = to_crossover(table, {});
	EXPECT_NE(text.find("64 B"), text.npos) << text;
	EXPECT_EQ(text.find("4 KiB"), text.npos) << text;
	EXPECT_EQ(text.find("8 KiB"), text.npos) << text;
}

}  // namespace
}  // namespace verbena::kvbench
