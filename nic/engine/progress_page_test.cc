// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/progress_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>

namespace verbena::engine {
namespace {

TEST(ProgressPage, APeerSeesWhatTheOwnerStores) {
	auto own = create_progress_page();
	ASSERT_TRUE(own);
	auto peers = map_progress_page(own->fd.get());
	ASSERT_TRUE(peers);
	EXPECT_EQ((*peers)->pid, getpid());
	EXPECT_FALSE((*peers)->armed());
	own->object->armed_epoch.store(1);
	own->object->passes.store(77);
	EXPECT_TRUE((*peers)->armed());
	EXPECT_EQ((*peers)->passes.load(), 77u);
}

TEST(ProgressPage, OnlyItsOwnerCanWriteItAndItsSizeIsFixed) {
	auto own = create_progress_page();
	ASSERT_TRUE(own);
	EXPECT_EQ(mmap(nullptr, sizeof(ProgressPage), PROT_READ | PROT_WRITE, MAP_SHARED, own->fd.get(), 0), MAP_FAILED);
	EXPECT_NE(ftruncate(own->fd.get(), 0), 0);
	EXPECT_NE(ftruncate(own->fd.get(), 8192), 0);
	EXPECT_NE(fcntl(own->fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(ProgressPage, AnotherMagicIsRefused) {
	auto other = create_sealed<ProgressPage>("test", Writers::everyone);
	ASSERT_TRUE(other);
	EXPECT_EQ(map_progress_page(other->fd.get()).error(), EPROTO);
	EXPECT_EQ(map_progress_page(STDIN_FILENO).error(), EPROTO);
	EXPECT_EQ(map_progress_page(-1).error(), EBADF);
}

TEST(ProgressPage, ArmedEpochAndPassesLieInLinesOfTheirOwn) {
	EXPECT_EQ(offsetof(ProgressPage, armed_epoch) % 128, 0u);
	EXPECT_EQ(offsetof(ProgressPage, passes), offsetof(ProgressPage, armed_epoch) + 128);
}

}  // namespace
}  // namespace verbena::engine
