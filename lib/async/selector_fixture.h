// SPDX-License-Identifier: Apache-2.0
// A fixture for tests that run once with each kind of selector; skips the kinds that the kernel
// refuses.
#pragma once

#include <gtest/gtest.h>

#include "lib/async/loop.h"

namespace verbena::async {

class WithEachSelector : public ::testing::TestWithParam<SelectorKind> {
protected:
	void SetUp() override {
		if (const auto chosen = make_selector(GetParam()); !chosen.refusal.empty()) GTEST_SKIP() << chosen.refusal;
	}
	static LoopOptions options(Nanoseconds spin = LoopOptions{}.spin) { return {.spin = spin, .selector = GetParam()}; }
};

// Use in a test's file: INSTANTIATE_TEST_SUITE_P(By, Name, each_selector, selector_name);
inline const auto each_selector = ::testing::Values(SelectorKind::epoll, SelectorKind::uring);
inline std::string selector_name(const ::testing::TestParamInfo<SelectorKind>& of) {
	return std::string(name_of(of.param));
}

}  // namespace verbena::async
