// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/serialize.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace verbena::rpc {
namespace {

struct Order {
	std::string who;
	std::vector<std::uint32_t> items;
	std::optional<double> price;
	MSGPACK_DEFINE(who, items, price)
	bool operator==(const Order&) const = default;
};

Buffer buffer_of(std::initializer_list<int> values) {
	Buffer bytes;
	for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
	return bytes;
}

template <class T> std::optional<T> read(const Buffer& body) {
	static Unpacker unpacker;
	T value{};
	if (!unpack_value(unpacker, body, value)) return std::nullopt;
	return value;
}

TEST(Serialize, AProgramsOwnTypesComeBack) {
	const Order order{.who = "ada", .items = {1, 70'000}, .price = 2.5};
	Buffer body;
	pack_value(body, order);
	EXPECT_EQ(read<Order>(body), order);
}

TEST(Serialize, AStringIsReadAsAViewIntoTheMessage) {
	Buffer body;
	pack_arguments(body, std::string_view("hello"), 7);
	Unpacker unpacker;
	std::tuple<std::string_view, int> arguments;
	ASSERT_TRUE(unpack_arguments(unpacker, body, arguments));
	EXPECT_EQ(std::get<0>(arguments), "hello");
	EXPECT_GE(static_cast<const void*>(std::get<0>(arguments).data()), static_cast<const void*>(body.data()));
	EXPECT_LT(
		static_cast<const void*>(std::get<0>(arguments).data()), static_cast<const void*>(body.data() + body.size()));
}

TEST(Serialize, BytesAreReadAsASpanIntoTheMessage) {
	const Buffer payload = buffer_of({1, 2, 3});
	Buffer body;
	pack_arguments(body, std::span<const std::byte>(payload));
	Unpacker unpacker;
	std::tuple<std::span<const std::byte>> arguments;
	ASSERT_TRUE(unpack_arguments(unpacker, body, arguments));
	EXPECT_TRUE(std::ranges::equal(std::get<0>(arguments), payload));
	EXPECT_GT(std::get<0>(arguments).data(), body.data());
}

TEST(Serialize, WrongArgumentsAreRefused) {
	Buffer body;
	pack_arguments(body, 1, 2);
	Unpacker unpacker;
	std::tuple<int> fewer;
	std::tuple<int, int, int> more;
	std::tuple<int, std::string> other;
	std::tuple<> none;
	EXPECT_FALSE(unpack_arguments(unpacker, body, fewer));
	EXPECT_FALSE(unpack_arguments(unpacker, body, more));
	EXPECT_FALSE(unpack_arguments(unpacker, body, other));
	EXPECT_FALSE(unpack_arguments(unpacker, body, none));
}

TEST(Serialize, ANumberThatDoesNotFitItsTypeIsRefused) {
	Buffer body;
	pack_value(body, 300);
	EXPECT_EQ(read<std::uint8_t>(body), std::nullopt);
	EXPECT_EQ(read<std::uint16_t>(body), 300);
}

TEST(Serialize, AnythingAfterTheValueIsRefused) { EXPECT_EQ(read<int>(buffer_of({1, 2})), std::nullopt); }

TEST(Serialize, AnArrayThatClaimsFourBillionElementsTakesNoMemory) {
	EXPECT_EQ(read<std::vector<int>>(buffer_of({0xdd, 0xff, 0xff, 0xff, 0xff})), std::nullopt);
	Buffer large = buffer_of({0xdd, 0xff, 0xff, 0xff, 0xff});
	large.resize(100'000);
	EXPECT_EQ(read<std::vector<int>>(large), std::nullopt);
}

TEST(Serialize, NestedClaimsAreAddedUp) {
	Buffer large;
	for (int i = 0; i < 30; ++i) {  // each level claims half a million
		const Buffer level = buffer_of({0xdd, 0, 0x08, 0, 0});
		large.insert(large.end(), level.begin(), level.end());
	}
	large.resize(600'000);
	EXPECT_EQ(read<std::vector<int>>(large), std::nullopt);
}

TEST(Serialize, EndlessNestingIsRefused) {
	EXPECT_EQ(read<std::vector<int>>(Buffer(1'000, std::byte{0x91})), std::nullopt);
	EXPECT_EQ(read<std::vector<int>>(Buffer(1'000'000, std::byte{0x91})), std::nullopt);
}

// One body of 16 MiB kept 408 MB for as long as its connection existed.
TEST(Serialize, ABodyOfManySmallValuesIsRefusedBeforeItTakesMemory) {
	Buffer body = buffer_of({0xdd, 0x01, 0, 0, 0});  // 16 Mi elements
	body.resize(body.size() + (16u << 20), std::byte{0xc0});
	Unpacker unpacker(4 << 20);
	EXPECT_EQ(unpacker.unpack(body), nullptr);
	EXPECT_TRUE(unpacker.exceeded());
	std::vector<std::string> strings;
	EXPECT_FALSE(unpack_value(unpacker, body, strings));
	EXPECT_TRUE(unpacker.exceeded());
	EXPECT_EQ(strings.capacity(), 0u);
}

TEST(Serialize, TheBudgetIsForAllArgumentsTogether) {
	const std::vector<std::string> many(2000);
	const std::vector<std::uint64_t> numbers(2000);
	Buffer body;
	pack_arguments(body, many, numbers);
	std::tuple<std::vector<std::string>, std::vector<std::uint64_t>> arguments;
	Unpacker wide(2000 * Unpacker::element_cost + 2000 * 8), narrow(2000 * Unpacker::element_cost + 2000 * 8 - 1);
	EXPECT_TRUE(unpack_arguments(wide, body, arguments));
	EXPECT_EQ(std::get<0>(arguments), many);
	EXPECT_EQ(std::get<1>(arguments), numbers);
	EXPECT_FALSE(unpack_arguments(narrow, body, arguments));
	EXPECT_TRUE(narrow.exceeded());
	EXPECT_FALSE(unpack_arguments(narrow, buffer_of({0x92, 1}), arguments));
	EXPECT_FALSE(narrow.exceeded()) << "other bytes are wrong for another reason";
}

TEST(Serialize, ABodyMayTakeAsMuchMemoryAsItHasBytes) {
	const std::vector<double> numbers(100'000, 0.5);
	Buffer body;
	pack_value(body, numbers);
	Unpacker unpacker(0);
	std::vector<double> read;
	EXPECT_TRUE(unpack_value(unpacker, body, read));
	EXPECT_EQ(read, numbers);
}

template <class T> void expect_as_msgpack_does(const std::vector<T>& numbers) {
	Buffer body;
	pack_value(body, numbers);
	EXPECT_EQ(read<std::vector<T>>(body), numbers);
}

TEST(Serialize, NumbersOfEachSizeComeBack) {
	expect_as_msgpack_does<std::int64_t>(
		{0, 1, -1, -32, -33, 127, 128, -128, -129, 255, 256, -32'768, -32'769, 65'535, 65'536, INT32_MIN,
			std::int64_t{INT32_MIN} - 1, UINT32_MAX, std::int64_t{UINT32_MAX} + 1, INT64_MIN, INT64_MAX});
	expect_as_msgpack_does<std::uint64_t>({0, 127, 128, UINT32_MAX, UINT64_MAX});
	expect_as_msgpack_does<std::int16_t>({0, -1, INT16_MIN, INT16_MAX});
	expect_as_msgpack_does<double>({0, 1.5, -1e300, 3});
	expect_as_msgpack_does<float>({0, 1.5F, -1e30F});
	EXPECT_EQ(
		read<std::vector<float>>(buffer_of({0x93, 1, 0xff, 0xca, 0x3f, 0xc0, 0, 0})), (std::vector<float>{1, -1, 1.5}));
}

TEST(Serialize, NumbersThatDoNotFitAreRefused) {
	EXPECT_EQ(read<std::vector<std::uint16_t>>(buffer_of({0x91, 0xff})), std::nullopt) << "-1";
	EXPECT_EQ(read<std::vector<std::uint16_t>>(buffer_of({0x91, 0xce, 0, 1, 0, 0})), std::nullopt) << "65,536";
	EXPECT_EQ(read<std::vector<std::int16_t>>(buffer_of({0x91, 0xcd, 0x80, 0})), std::nullopt) << "32,768";
	EXPECT_EQ(read<std::vector<int>>(buffer_of({0x91, 0xca, 0, 0, 0, 0})), std::nullopt) << "a real number";
	EXPECT_EQ(read<std::vector<int>>(buffer_of({0x91, 0xc0})), std::nullopt) << "nil";
	EXPECT_EQ(read<std::vector<int>>(buffer_of({0x91, 0xcd, 0x80})), std::nullopt) << "cut";
	EXPECT_EQ(read<std::vector<int>>(buffer_of({0x92, 1})), std::nullopt) << "one is missing";
	EXPECT_EQ(read<std::vector<int>>(buffer_of({0x91, 1, 1})), std::nullopt) << "one too many";
}

}  // namespace
}  // namespace verbena::rpc
