// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/values.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbena::kvbench {
namespace {

std::string text(kv::Bytes bytes) { return std::string(kv::text_of(bytes)); }

TEST(KvValues, NoTwoKeysAndNoTwoRunsHaveTheSameValue) {
	for (const std::uint32_t size : {8u, 64u, 4096u, 5000u, 1u << 20}) {
		std::set<std::string> all;
		for (const std::uint64_t run : {1, 2, 3}) {
			const Values values(size, 48, run, nullptr);
			for (std::uint32_t key = 0; key < 48; ++key) all.insert(text(values.of(key)));
		}
		EXPECT_EQ(all.size(), 3u * 48) << size;
	}
}

TEST(KvValues, AValueIsRightForItsKeyAndItsRunAlone) {
	for (const std::uint32_t size : {64u, 4096u, 4097u, 1u << 20}) {
		const Values values(size, 16, 7, nullptr), other_run(size, 16, 8, nullptr);
		EXPECT_TRUE(values.looks_right(3, values.of(3)) && values.is_right(3, values.of(3))) << size;
		EXPECT_FALSE(values.looks_right(3, values.of(4))) << size << ": the value of another key";
		EXPECT_FALSE(values.looks_right(3, other_run.of(3))) << size << ": the value of another run";
		EXPECT_FALSE(values.looks_right(3, values.of(3).first(size - 1))) << size << ": too short";
		std::string torn = text(values.of(3));
		torn.back() = static_cast<char>(torn.back() + 1);
		EXPECT_FALSE(values.looks_right(3, kv::bytes_of(torn))) << size << ": another last byte";
	}
}

}  // namespace
}  // namespace verbena::kvbench
