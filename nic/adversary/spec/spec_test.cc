// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/spec/spec.h"

#include <gtest/gtest.h>

namespace verbena::adversary {
namespace {

TEST(AdversarySpec, EverythingHasADefault) {
	for (const char* text : {"", "tso", ":tso"}) {
		const auto spec = parse(text);
		ASSERT_TRUE(spec) << text;
		EXPECT_FALSE(spec->seed) << text;
		EXPECT_EQ(spec->model, Model::tso) << text;
		for (unsigned i = 0; i < kind_count; ++i) EXPECT_TRUE(spec->has(static_cast<Kind>(i))) << text;
	}
}

TEST(AdversarySpec, SeedModelAndKindsAreRead) {
	EXPECT_EQ(parse("7")->seed, 7u);
	EXPECT_EQ(parse("0xffffffffffffffff:iba")->seed, ~std::uint64_t{0});
	EXPECT_EQ(parse("7:loose")->model, Model::loose);
	EXPECT_EQ(parse("iba")->model, Model::iba);
	const auto spec = parse("7:tso:only=gather+reads");
	ASSERT_TRUE(spec);
	EXPECT_TRUE(spec->has(Kind::gather) && spec->has(Kind::reads));
	EXPECT_FALSE(spec->has(Kind::placement) || spec->has(Kind::events));
}

TEST(AdversarySpec, TheTextOfASpecIsReadAsTheSameSpec) {
	for (const char* text :
		{"0x2a:tso", "0x7:iba", "0x0:loose:only=placement", "0x1:tso:only=gather+events", "0x1:loose:only=receives"})
		EXPECT_EQ(text_of(*parse(text)), text);
}

TEST(AdversarySpec, AWrongWordIsNamed) {
	const std::pair<const char*, const char*> wrongs[] = {{"x", "x"}, {"7:", ""}, {"7:tsa", "tsa"}, {"-1", "-1"},
		{"99999999999999999999", "99999999999999999999"}, {"7:only=", "only="}, {"7:tso:only=reads+", "only=reads+"},
		{"0x", "0x"}, {"7:only=lies", "only=lies"}, {"7:iba:only=receives", "only=receives"}};
	for (const auto& [text, word] : wrongs) {
		const auto spec = parse(text);
		ASSERT_FALSE(spec) << text;
		EXPECT_EQ(spec.error().word, word) << text;
		EXPECT_FALSE(spec.error().reason.empty());
	}
}

}  // namespace
}  // namespace verbena::adversary
