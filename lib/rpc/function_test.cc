// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/function.h"

#include <gtest/gtest.h>

namespace shop {
int price(int, int) noexcept;
template <class T> T twice(T);
struct Counter {
	std::string_view order(std::string_view, const std::vector<int>&) const;
	verbena::async::Task<long> wait(int);
};
}  // namespace shop

std::string_view plain_echo(std::string_view);
void later(verbena::rpc::context<std::string>, int);

namespace verbena::rpc {
namespace {

TEST(Function, TheNameIsTheQualifiedNameInTheSource) {
	EXPECT_EQ(Function<plain_echo>::name, "plain_echo");
	EXPECT_EQ(Function<&plain_echo>::name, "plain_echo");
	EXPECT_EQ(Function<shop::price>::name, "shop::price");
#ifndef __clang__
	EXPECT_EQ(Function<shop::twice<int>>::name, "shop::twice<int>");
#endif
	EXPECT_EQ(Function<&shop::Counter::order>::name, "shop::Counter::order");
}

TEST(Function, TheIdIsFnv1aOfTheName) {
	EXPECT_EQ(function_id(""), 0x811c9dc5u);
	EXPECT_EQ(function_id("foobar"), 0xbf9cf968u);  // from the hash's own test vectors
	EXPECT_EQ(Function<plain_echo>::id, function_id("plain_echo"));
}

TEST(Function, PlainFunctionsCoroutinesAndCallbacksAreDistinguished) {
	using Plain = Function<plain_echo>;
	static_assert(!Plain::is_coroutine && !Plain::is_callback && !Plain::is_member);
	using Coroutine = Function<&shop::Counter::wait>;
	static_assert(Coroutine::is_coroutine && Coroutine::is_member && std::is_same_v<Coroutine::Result, long>);
	using Callback = Function<later>;
	static_assert(Callback::is_callback && Callback::parameters == 1 && std::is_same_v<Callback::Result, std::string>);
}

TEST(Function, ArgumentsAreReadIntoValuesAndViews) {
	static_assert(
		std::is_same_v<Function<&shop::Counter::order>::Arguments, std::tuple<std::string_view, std::vector<int>>>);
}

}  // namespace
}  // namespace verbena::rpc
