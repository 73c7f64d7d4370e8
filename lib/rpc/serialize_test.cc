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

Buffer bytes_of(std::initializer_list<int> values) {
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
	const Buffer payload = bytes_of({1, 2, 3});
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

TEST(Serialize, AnythingAfterTheValueIsRefused) { EXPECT_EQ(read<int>(bytes_of({1, 2})), std::nullopt); }

TEST(Serialize, AnArrayThatClaimsFourBillionElementsTakesNoMemory) {
	EXPECT_EQ(read<std::vector<int>>(bytes_of({0xdd, 0xff, 0xff, 0xff, 0xff})), std::nullopt);
	Buffer large = bytes_of({0xdd, 0xff, 0xff, 0xff, 0xff});
	large.resize(100'000);
	EXPECT_EQ(read<std::vector<int>>(large), std::nullopt);
}

TEST(Serialize, NestedClaimsAreAddedUp) {
	Buffer large;
	for (int i = 0; i < 30; ++i) {  // each level claims half a million
		const Buffer level = bytes_of({0xdd, 0, 0x08, 0, 0});
		large.insert(large.end(), level.begin(), level.end());
	}
	large.resize(600'000);
	EXPECT_EQ(read<std::vector<int>>(large), std::nullopt);
}

TEST(Serialize, EndlessNestingIsRefused) {
	EXPECT_EQ(read<std::vector<int>>(Buffer(1'000, std::byte{0x91})), std::nullopt);
	EXPECT_EQ(read<std::vector<int>>(Buffer(1'000'000, std::byte{0x91})), std::nullopt);
}

}  // namespace
}  // namespace verbena::rpc
