// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/stamps.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace verbena::rcud {
namespace {

Account after(std::initializer_list<std::uint64_t> sequences) {
	Account account(7);
	for (const std::uint64_t sequence : sequences) {
		std::byte message[32];
		write_stamps(message, sizeof message, make_stamp(7, sequence));
		account.accept(message, sizeof message);
	}
	return account;
}

TEST(Account, InOrderIsDelivered) {
	const Account account = after({0, 1, 2, 3});
	EXPECT_EQ(account.delivered, 4u);
	EXPECT_EQ(account.next(), 4u);
	EXPECT_EQ(account.duplicated + account.reordered + account.corrupt + account.stale, 0u);
}

TEST(Account, AGapIsLeftOpenAndALateMessageClosesIt) {
	const Account account = after({0, 3, 1});
	EXPECT_EQ(account.delivered, 3u);
	EXPECT_EQ(account.next(), 4u);
	EXPECT_EQ(account.reordered, 1u);
	EXPECT_EQ(account.duplicated, 0u);
}

TEST(Account, TheSecondArrivalIsADuplicateInOrderOrLate) {
	const Account account = after({0, 1, 1, 0, 5, 3, 3});
	EXPECT_EQ(account.delivered, 4u);
	EXPECT_EQ(account.duplicated, 3u);
	EXPECT_EQ(account.reordered, 1u);
}

TEST(Account, AGapWiderThanTheHorizonForgetsWhatWasBefore) {
	const Account account = after({0, Account::horizon * 3, 1, Account::horizon * 3 - 1, Account::horizon * 3 - 1});
	EXPECT_EQ(account.delivered, 3u);
	EXPECT_EQ(account.stale, 1u);
	EXPECT_EQ(account.reordered, 1u);
	EXPECT_EQ(account.duplicated, 1u);
}

TEST(Account, WrapsItsMemoryWithoutInventingDuplicates) {
	Account account(7);
	for (std::uint64_t sequence = 0; sequence < 3 * Account::horizon; sequence += 2) account.accept_sequence(sequence);
	EXPECT_EQ(account.delivered, 3 * Account::horizon / 2);
	account.accept_sequence(3 * Account::horizon - 3);
	EXPECT_EQ(account.reordered, 1u);
	EXPECT_EQ(account.duplicated, 0u);
}

TEST(Account, AnotherRunsMessagesAreStale) {
	std::byte message[16];
	write_stamps(message, sizeof message, make_stamp(6, 0));
	Account account(7);
	account.accept(message, sizeof message);
	EXPECT_EQ(account.stale, 1u);
	EXPECT_EQ(account.delivered, 0u);
}

TEST(Account, AMessageWhoseEndDiffersIsCorrupt) {
	std::byte message[16];
	write_stamps(message, sizeof message, make_stamp(7, 0));
	message[15] ^= std::byte{1};
	Account account(7);
	account.accept(message, sizeof message);
	EXPECT_EQ(account.corrupt, 1u);
	EXPECT_EQ(account.delivered, 0u);
}

TEST(Account, TinyMessagesAreOnlyCounted) {
	std::byte message[4]{};
	Account account(7);
	for (int i = 0; i < 3; ++i) account.accept(message, sizeof message);
	EXPECT_EQ(account.delivered, 3u);
}

TEST(Stamps, OpenAndCloseTheMessageFromSixteenBytes) {
	std::byte message[20]{};
	write_stamps(message, 20, make_stamp(1, 2));
	EXPECT_EQ(load_stamp(message), load_stamp(message + 12));
	std::byte small[15]{};
	write_stamps(small, 8, make_stamp(1, 2));
	EXPECT_EQ(sequence_of(load_stamp(small)), 2u);
	EXPECT_EQ(run_of(load_stamp(small)), 1u);
	EXPECT_TRUE(stamps_agree(small, 8));
}

}  // namespace
}  // namespace verbena::rcud
