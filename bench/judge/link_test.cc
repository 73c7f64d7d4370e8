// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/link.h"

#include <gtest/gtest.h>

namespace verbena::bench {
namespace {

Environment environment(const char* kind, const char* link) { return {{"kind", kind}, {"link", link}}; }

TEST(Link, HasARateIfItIsThatOfHardware) {
	EXPECT_EQ(link_gigabits(environment("hardware", "Ethernet, 100 Gb/s, to host2")), 100);
	EXPECT_EQ(link_gigabits(environment("Hardware", "100 Gb/s")), 100);
	EXPECT_EQ(link_gigabits(environment("hardware", "2.5 Gb/s")), 2.5);
	EXPECT_EQ(link_gigabits(environment("hardware", "Ethernet, 0.001 Gbit/s")), 0.001);
	EXPECT_EQ(link_gigabits({{"kind", "hardware"}, {"Link", "Ethernet, 10 GB/S"}}), 10) << "in any case";
	EXPECT_EQ(link_gigabits(environment("software", "Ethernet, 100 Gb/s, to host2")), 0);
	EXPECT_EQ(link_gigabits(environment("hardware", "Ethernet, to host2")), 0);
	EXPECT_EQ(link_gigabits(environment("hardware", "fast Gb/s")), 0);
	EXPECT_EQ(link_gigabits({}), 0);
}

TEST(Link, CarriesNoMorePayloadThanItsRate) {
	const auto found = [](double payload) {
		Findings findings;
		examine_link(environment("hardware", "Ethernet, 100 Gb/s"), payload, findings);
		return findings.verdict();
	};
	EXPECT_EQ(found(100).validity, Validity::valid);
	EXPECT_EQ(found(101).reason, "101 Gb/s of payload is more than the link's 100 Gb/s");
}

}  // namespace
}  // namespace verbena::bench
