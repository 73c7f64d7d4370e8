// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/spec/spec.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace verbena::faults {
namespace {

constexpr std::array<std::uint8_t, 16> ipv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};

TEST(Spec, AllWordsOfTheManual) {
	const auto spec = parse(
		"loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=2ms±1ms,rate=1G,partition=10s..12s,qp-error=1e-6,rnr=5%,"
		"seed=42");
	ASSERT_TRUE(spec);
	EXPECT_EQ(spec->seed, 42u);
	ASSERT_EQ(spec->clauses.size(), 1u);
	const Faults& f = spec->clauses[0].faults;
	EXPECT_DOUBLE_EQ(f.loss, 0.01);
	EXPECT_DOUBLE_EQ(f.duplicate, 0.005);
	EXPECT_DOUBLE_EQ(f.reorder, 0.02);
	EXPECT_DOUBLE_EQ(f.corrupt, 0.001);
	EXPECT_DOUBLE_EQ(f.qp_error, 1e-6);
	EXPECT_DOUBLE_EQ(f.not_ready, 0.05);
	EXPECT_EQ(f.delay, 2'000'000u);
	EXPECT_EQ(f.jitter, 1'000'000u);
	EXPECT_EQ(f.bits_per_second, 1'000'000'000u);
	EXPECT_EQ(f.partition.begin, 10'000'000'000u);
	EXPECT_EQ(f.partition.end, 12'000'000'000u);
}

TEST(Spec, AsciiStandsForTheSign) {
	EXPECT_EQ(parse("delay=50us+-10us")->clauses[0].faults.jitter, 10'000u);
	EXPECT_EQ(parse("delay=1.5ms")->clauses[0].faults.delay, 1'500'000u);
}

TEST(Spec, APartitionMayHaveNoEnd) {
	const Window window = parse("partition=500ms..")->clauses[0].faults.partition;
	EXPECT_TRUE(window.contains(500'000'000));
	EXPECT_FALSE(window.contains(499'999'999));
	EXPECT_TRUE(window.contains(1'000'000'000'000));
}

TEST(Spec, TheLastClauseThatAdmitsAPacketHasItsFaults) {
	const auto spec = parse("loss=1%;peer=10.0.0.2,loss=50%;qp=3,dup=1;seed=7");
	ASSERT_TRUE(spec);
	EXPECT_EQ(spec->clauses.size(), 3u);
	EXPECT_EQ(spec->seed, 7u);
	EXPECT_DOUBLE_EQ(spec->find({}, 1)->loss, 0.01);
	EXPECT_DOUBLE_EQ(spec->find(ipv4, 1)->loss, 0.5);
	EXPECT_DOUBLE_EQ(spec->find(ipv4, 3)->loss, 0);
	EXPECT_DOUBLE_EQ(spec->find(ipv4, 3)->duplicate, 1);
	EXPECT_EQ(parse("peer=10.0.0.2,loss=1")->find({}, 1), nullptr);
}

TEST(Spec, ASeedAmongOtherWordsIsNoClauseOfItsOwn) {
	EXPECT_EQ(parse("seed=1,loss=1%")->clauses.size(), 1u);
	EXPECT_DOUBLE_EQ(parse("seed=1,loss=1%")->clauses[0].faults.loss, 0.01);
	EXPECT_TRUE(parse("seed=1")->clauses.empty());
}

TEST(Spec, AWrongWordIsNamed) {
	const auto named = [](const char* text, const char* word, bool unknown) {
		const auto spec = parse(text);
		ASSERT_FALSE(spec) << text;
		EXPECT_EQ(spec.error().word, word) << text;
		EXPECT_EQ(spec.error().unknown, unknown) << text;
		EXPECT_FALSE(spec.error().reason.empty()) << text;
	};
	named("los=1%", "los", true);
	named("loss=1%,", "", true);
	named("", "", true);
	named("loss", "loss", false);
	named("loss=", "loss=", false);
	for (const char* wrong : {"loss=101%", "loss=-1", "loss=nan", "loss=inf", "loss=1 %", "loss=1e", "dup=2", "delay=5",
			 "delay=1ms±2ms", "delay=-1ms", "delay=1e30s", "rate=0", "rate=1T", "rate=1e99G", "partition=2s..1s",
			 "partition=1s", "partition=..", "qp=0", "qp=x", "qp=5000000000", "seed=-1", "seed=99999999999999999999",
			 "peer=10.0.0", "peer=host", "rnr=1x", "qp-error=%"})
		named((std::string("loss=1%,") + wrong).c_str(), wrong, false);
}

// No text makes the parser crash, and each mistake quotes a part of the text.
TEST(Spec, RandomTextsAreReadOrNamed) {
	static constexpr std::string_view pieces[] = {"loss", "dup", "delay", "rate", "partition", "seed", "peer", "qp",
		"=", ",", ";", "%", "±", "+-", "..", "1", "0.5", "1e-6", "e", "-", "ms", "us", "s", "G", "::1", "10.0.0.2",
		"\xc2", " ", "nan", "inf", "0x1p3"};
	Random random(1);
	int good = 0;
	for (int i = 0; i < 100'000; ++i) {
		std::string text;
		for (std::uint64_t left = random.below(12); left; --left) text += pieces[random.below(std::size(pieces))];
		const auto spec = parse(text);
		good += spec.has_value();
		if (!spec) {
			ASSERT_NE(text.find(spec.error().word), text.npos) << text;
			continue;
		}
		for (const Clause& clause : spec->clauses) {
			ASSERT_LE(clause.faults.loss, 1) << text;
			ASSERT_LE(clause.faults.jitter, clause.faults.delay) << text;
		}
	}
	EXPECT_GT(good, 0);
}

}  // namespace
}  // namespace verbena::faults
