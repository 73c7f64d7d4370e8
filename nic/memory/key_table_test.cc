// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/key_table.h"

#include <gtest/gtest.h>
#include <set>

namespace verbena::memory {
namespace {

constexpr std::uint64_t address = 0x7000'0000, length = 4096;
constexpr std::uint32_t domain = 7, qpn = 0x1001;

// The queue pair that resolves a key.
struct Who {
	std::uint32_t protection_domain = domain, qpn = memory::qpn;
	Accessor accessor() const { return {protection_domain, qpn}; }
};

class Keys : public testing::Test {
protected:
	std::uint32_t make_region(
		std::uint8_t access = local_write | remote_write | remote_read | window_bind, std::uint64_t iova = address) {
		return keys.register_region(
			{.protection_domain = domain, .iova = iova, .address = address, .length = length, .access = access});
	}
	std::uint64_t resolve(
		std::uint32_t key, std::uint64_t at, std::uint32_t bytes, std::uint8_t access, const Who& who = {}) {
		return reinterpret_cast<std::uintptr_t>(keys.resolve(cache, key, at, bytes, access, who));
	}
	std::uint32_t next_tag(std::uint32_t key) { return (key & ~0xffu) | ((key + 1) & 0xff); }
	KeyTable::Binding binding(std::uint32_t window, std::uint32_t region) {
		return {.window_key = window,
			.new_key = next_tag(window),
			.region_key = region,
			.address = address + 1024,
			.length = 1024,
			.access = remote_write,
			.qpn = qpn};
	}
	KeyTable keys{0x0123456789abcdef};
	RegionCache cache;
};

TEST_F(Keys, WithDistinctKeysNeitherCanBeUsedAsTheOther) {
	keys.use_distinct_keys();
	const std::uint32_t rkey = make_region(local_write | remote_write), lkey = keys.lkey_of(rkey);
	EXPECT_NE(lkey, rkey);
	EXPECT_EQ(resolve(rkey, address, 8, remote_write), address);
	EXPECT_EQ(resolve(lkey, address, 8, local_use | local_write), address);
	// Also while the cache has the other one.
	EXPECT_EQ(resolve(lkey, address, 8, remote_write), 0u);
	EXPECT_EQ(resolve(rkey, address, 8, remote_write), address);
	EXPECT_EQ(resolve(rkey, address, 8, local_use | local_write), 0u);
	EXPECT_EQ(keys.diagnose(lkey, address, 8, local_use, Who{}.accessor()).kind, KeyTable::Fault::Kind::none);
	EXPECT_EQ(keys.diagnose(lkey, address, 8, remote_write, Who{}.accessor()).kind, KeyTable::Fault::Kind::unknown);
	EXPECT_TRUE(keys.deregister(rkey));
	EXPECT_EQ(resolve(lkey, address, 8, local_use), 0u);
}

TEST_F(Keys, ARegionResolvesWithinItsBoundsAndItsRights) {
	const std::uint32_t key = make_region(local_write | remote_read);
	EXPECT_EQ(resolve(key, address, length, remote_read), address);
	EXPECT_EQ(resolve(key, address + 4095, 1, local_use | local_write), address + 4095);
	EXPECT_EQ(resolve(key, address + length, 0, remote_read), address + length);
	EXPECT_EQ(resolve(key, address + 4095, 2, remote_read), 0u);
	EXPECT_EQ(resolve(key, address - 1, 1, remote_read), 0u);
	EXPECT_EQ(resolve(key, address + 1, 0xffffffff, remote_read), 0u);
	EXPECT_EQ(resolve(key, ~std::uint64_t{0}, 2, remote_read), 0u) << "no wrap around the address space";
	EXPECT_EQ(resolve(key, address, 8, remote_write), 0u);
	EXPECT_EQ(resolve(key, address, 8, remote_atomic), 0u);
	EXPECT_EQ(resolve(key, address, 8, remote_read, {.protection_domain = domain + 1}), address)
		<< "a cache belongs to one queue pair, so a hit checks no domain";
	cache = {};
	EXPECT_EQ(resolve(key, address, 8, remote_read, {.protection_domain = domain + 1}), 0u);
	EXPECT_EQ(resolve(key + 1, address, 8, remote_read), 0u);
	EXPECT_EQ(resolve(0, address, 8, remote_read), 0u);
}

TEST_F(Keys, AddressesAreThoseOfTheRegistration) {
	EXPECT_EQ(resolve(make_region(remote_read, 0x10), 0x20, 8, remote_read), address + 0x10);
	EXPECT_EQ(resolve(make_region(remote_read | zero_based), 0x20, 8, remote_read), address + 0x20);
}

TEST_F(Keys, ACacheForgetsADeregisteredRegion) {
	const std::uint32_t key = make_region();
	EXPECT_NE(resolve(key, address, 8, remote_read), 0u);
	EXPECT_TRUE(keys.deregister(key));
	EXPECT_EQ(resolve(key, address, 8, remote_read), 0u);
	EXPECT_FALSE(keys.deregister(key));
	EXPECT_EQ(keys.regions(), 0u);
}

TEST_F(Keys, AReusedIndexHasAnotherKey) {
	std::set<std::uint32_t> seen;
	std::uint32_t last = 0;
	for (int i = 0; i < 100; ++i) {
		const std::uint32_t key = make_region();
		EXPECT_NE(key, last);
		EXPECT_EQ(resolve(key, address, 8, remote_read), address);
		EXPECT_EQ(resolve(last, address, 8, remote_read), 0u);
		seen.insert(last = key);
		keys.deregister(key);
	}
	EXPECT_GT(seen.size(), 50u);
}

TEST_F(Keys, ReregistrationChangesTheRegionUnderItsKey) {
	const std::uint32_t key = make_region(remote_read);
	EXPECT_NE(resolve(key, address, 8, remote_read), 0u);
	EXPECT_TRUE(keys.reregister(
		key, {.protection_domain = domain, .iova = address, .address = address, .length = 16, .access = remote_write}));
	EXPECT_EQ(resolve(key, address, 8, remote_read), 0u);
	EXPECT_EQ(resolve(key, address, 16, remote_write), address);
	EXPECT_EQ(resolve(key, address, 17, remote_write), 0u);
}

TEST_F(Keys, AWindowGivesItsRightsWithinItsRangeToItsQueuePairOnly) {
	const std::uint32_t region = make_region(), window = keys.allocate_window(domain);
	const auto b = binding(window, region);
	EXPECT_EQ(resolve(window, address + 1024, 8, remote_write), 0u) << "unbound";
	ASSERT_TRUE(keys.bind(b));
	EXPECT_EQ(resolve(b.new_key, address + 1024, 1024, remote_write), address + 1024);
	EXPECT_EQ(resolve(b.new_key, address + 1024, 1025, remote_write), 0u);
	EXPECT_EQ(resolve(b.new_key, address + 1023, 1, remote_write), 0u);
	EXPECT_EQ(resolve(b.new_key, address + 1024, 8, remote_read), 0u);
	EXPECT_EQ(resolve(b.new_key, address + 1024, 8, local_use), 0u) << "an rkey is no lkey";
	EXPECT_EQ(resolve(window, address + 1024, 8, remote_write), 0u) << "the previous tag";
	cache = {};
	EXPECT_EQ(resolve(b.new_key, address + 1024, 8, remote_write, {.qpn = qpn + 1}), 0u);
}

TEST_F(Keys, AWindowOfType1ServesEveryQueuePairOfTheDomain) {
	const std::uint32_t region = make_region(), window = keys.allocate_window(domain);
	auto b = binding(window, region);
	b.qpn = 0;
	ASSERT_TRUE(keys.bind(b));
	EXPECT_NE(resolve(b.new_key, address + 1024, 8, remote_write, {.qpn = 99}), 0u);
	EXPECT_FALSE(keys.invalidate(b.new_key, {domain, qpn})) << "only type 2 is invalidated";
	auto again = binding(b.new_key, region);
	again.qpn = 0;
	EXPECT_TRUE(keys.bind(again)) << "a bound type-1 window may be bound again";
}

TEST_F(Keys, ABindIsRefusedWithoutEffect) {
	const std::uint32_t region = make_region(), window = keys.allocate_window(domain);
	const auto good = binding(window, region);
	auto bad = good;
	bad.length = length;
	EXPECT_FALSE(keys.bind(bad)) << "past the end";
	bad = good;
	bad.address = ~std::uint64_t{0} - 10;
	EXPECT_FALSE(keys.bind(bad));
	bad = good;
	bad.region_key ^= 1;
	EXPECT_FALSE(keys.bind(bad));
	bad = good;
	bad.new_key += 0x100;
	EXPECT_FALSE(keys.bind(bad)) << "only the tag is the user's to choose";
	bad = good;
	bad.region_key = make_region(local_write | remote_write);
	EXPECT_FALSE(keys.bind(bad)) << "no right to bind";
	bad = good;
	bad.region_key = make_region(remote_read | window_bind);
	EXPECT_FALSE(keys.bind(bad)) << "remote write needs local write";
	bad = good;
	bad.region_key = keys.register_region({.protection_domain = domain + 1,
		.iova = address,
		.address = address,
		.length = length,
		.access = local_write | window_bind});
	EXPECT_FALSE(keys.bind(bad)) << "another domain";
	EXPECT_TRUE(keys.bind(good));
	EXPECT_FALSE(keys.bind(binding(good.new_key, region))) << "already bound";
}

TEST_F(Keys, ABindOfNoBytesUnbindsATypeOneWindowAndIsAnErrorForTypeTwo) {
	const std::uint32_t region = make_region(), window = keys.allocate_window(domain);
	auto b = binding(window, region);
	auto nothing = binding(window, region);
	nothing.length = 0;
	EXPECT_FALSE(keys.bind(nothing)) << "an unbound window";
	ASSERT_TRUE(keys.bind(b));
	EXPECT_FALSE(keys.bind(nothing)) << "a bound window";
	EXPECT_NE(resolve(b.new_key, address + 1024, 8, remote_write), 0u) << "still bound";

	const std::uint32_t other = keys.allocate_window(domain);
	b = binding(other, region);
	b.qpn = 0;
	ASSERT_TRUE(keys.bind(b));
	nothing = binding(b.new_key, region);
	nothing.qpn = nothing.length = 0;
	EXPECT_TRUE(keys.bind(nothing));
	EXPECT_EQ(resolve(nothing.new_key, address + 1024, 8, remote_write), 0u);
}

TEST_F(Keys, ARegionWithABoundWindowCannotBeDeregisteredUntilTheWindowIsInvalidated) {
	const std::uint32_t region = make_region(), window = keys.allocate_window(domain);
	const auto b = binding(window, region);
	ASSERT_TRUE(keys.bind(b));
	EXPECT_FALSE(keys.deregister(region));
	EXPECT_FALSE(keys.reregister(
		region, {.protection_domain = domain, .iova = address, .address = address, .length = length, .access = 0}));
	EXPECT_FALSE(keys.invalidate(b.new_key, {domain, qpn + 1}));
	EXPECT_FALSE(keys.invalidate(b.new_key, {domain + 1, qpn}));
	EXPECT_FALSE(keys.invalidate(region, {domain, qpn}));
	EXPECT_TRUE(keys.invalidate(b.new_key, {domain, qpn}));
	EXPECT_FALSE(keys.invalidate(b.new_key, {domain, qpn}));
	EXPECT_EQ(resolve(b.new_key, address + 1024, 8, remote_write), 0u);
	EXPECT_TRUE(keys.deregister(region));
	EXPECT_TRUE(keys.deallocate_window(b.new_key));
}

TEST_F(Keys, DeallocatingABoundWindowFreesItsRegion) {
	const std::uint32_t region = make_region(), window = keys.allocate_window(domain);
	const auto b = binding(window, region);
	ASSERT_TRUE(keys.bind(b));
	EXPECT_TRUE(keys.deallocate_window(b.new_key));
	EXPECT_FALSE(keys.deallocate_window(b.new_key));
	EXPECT_TRUE(keys.deregister(region));
}

TEST_F(Keys, TheFirstFaultOfAKeyIsNamedAndADeregisteredRegionIsRemembered) {
	using Kind = KeyTable::Fault::Kind;
	constexpr Accessor owner{domain, qpn};
	const std::uint32_t key = make_region(local_write | remote_read);
	EXPECT_EQ(keys.diagnose(key, address, length, remote_read, owner).kind, Kind::none);
	EXPECT_EQ(keys.diagnose(key, address, length, remote_write, owner).kind, Kind::rights);
	EXPECT_EQ(keys.diagnose(key, address + 1, length, remote_read, owner).kind, Kind::bounds);
	EXPECT_EQ(keys.diagnose(key, address, ~std::uint64_t{0}, remote_read, owner).kind, Kind::bounds);
	EXPECT_EQ(keys.diagnose(key, address, length, remote_read, {domain + 1, qpn}).kind, Kind::domain);
	EXPECT_EQ(keys.diagnose(key ^ 1, address, length, remote_read, owner).kind, Kind::unknown);
	EXPECT_EQ(keys.diagnose(key ^ 0xffff00, address, length, remote_read, owner).kind, Kind::unknown);
	ASSERT_TRUE(keys.deregister(key, 1234));
	const KeyTable::Fault fault = keys.diagnose(key, address, length, remote_read, owner);
	EXPECT_EQ(fault.kind, Kind::retired);
	EXPECT_EQ(fault.retired_at, 1234u);
	EXPECT_EQ(fault.begin, address);
	EXPECT_EQ(fault.end, address + length);
}

}  // namespace
}  // namespace verbena::memory
