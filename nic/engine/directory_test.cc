// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/directory.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "base/random.h"
#include "nic/engine/interfaces.h"
#include "nic/engine/listener_user.h"

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;

NameSecret random_secret() {
	NameSecret secret;
	secure_random(secret);
	return secret;
}

auto in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// These tests run as one user. A stranger at a name is therefore simulated by a directory of a user
// that this process is not: everything at its names is a stranger's.
class DirectoryTest : public testing::Test {
protected:
	const uid_t me = geteuid(), victim = me + 1;
	const NameSecret secret = random_secret();
	const Directory ours{me, secret}, victims{victim, secret};
	// Places that no other process or run has.
	const Place service = Place::service(secure_random<std::uint64_t>());
	const Place block = Place::block(0x10000 + static_cast<std::uint32_t>(getpid()));

	std::uint64_t cookie() const {
		const Descriptor any(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
		return namespace_cookie(any.get());
	}
	// Binds a name as a stranger would. `queue` < 0: does not listen.
	static Descriptor squat(const SocketName& name, int queue = 100) {
		Descriptor squatter(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
		EXPECT_EQ(bind(squatter.get(), name.get(), name.length), 0);
		EXPECT_TRUE(queue < 0 || listen(squatter.get(), queue) == 0);
		return squatter;
	}
	static void fill_queue(const SocketName& name, std::vector<Descriptor>& held) {
		for (;;) {
			held.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
			if (connect(held.back().get(), name.get(), name.length) != 0) return;
		}
	}
};

TEST_F(DirectoryTest, AnOwnerIsFoundAndAPlaceHasOneOwner) {
	for (const Place place : {service, block}) {
		EXPECT_EQ(ours.connect(place, in(10s)).error(), ECONNREFUSED);
		{
			const auto claim = ours.claim(place);
			ASSERT_TRUE(claim);
			const auto found = ours.connect(place, in(10s));
			ASSERT_TRUE(found);
			EXPECT_EQ(found->peer.user, me);
			EXPECT_EQ(found->peer.pid, getpid());
			EXPECT_EQ(ours.claim(place).error(), EADDRINUSE);
		}
		EXPECT_EQ(ours.connect(place, in(10s)).error(), ECONNREFUSED);
		EXPECT_TRUE(ours.claim(place));
	}
}

TEST_F(DirectoryTest, ProcessesWithDifferentSecretsOrNoneFindEachOther) {
	const Directory other{me, random_secret()}, without{me, std::nullopt};
	for (const Directory* owner : {&ours, &without}) {
		const auto claim = owner->claim(service);
		ASSERT_TRUE(claim);
		for (const Directory* seeker : {&ours, &other, &without}) {
			EXPECT_TRUE(seeker->connect(service, in(10s)));
			EXPECT_EQ(seeker->claim(service).error(), EADDRINUSE);
		}
	}
}

TEST_F(DirectoryTest, AStrangerAtThePlainNameChangesNothing) {
	const Descriptor squatter = squat(plain_name(victim, service));
	const auto claim = victims.claim(service);
	ASSERT_TRUE(claim);
	EXPECT_EQ(claim->size(), 1u) << "the keyed name alone";
}

TEST_F(DirectoryTest, AStrangerThatHoldsNamesSeenBeforeKeepsNoServiceFromItsOwner) {
	std::vector<Descriptor> squatters;
	squatters.push_back(squat(plain_name(victim, service)));
	for (unsigned seen = 0; seen < 3; ++seen) {
		squatters.push_back(squat(keyed_name(secret, cookie(), service, seen), seen == 1 ? -1 : 100));
		const auto claim = victims.claim(service);
		ASSERT_TRUE(claim) << seen;
		EXPECT_EQ(claim->size(), 1u);
	}
	EXPECT_EQ(victims.connect(service, in(10s)).error(), ECONNREFUSED) << "strangers are passed over";
}

TEST_F(DirectoryTest, AnOwnerIsFoundBehindStrangersAlsoAfterTheyLeft) {
	auto first = squat(keyed_name(secret, cookie(), service, 0), -1);
	const Descriptor second = squat(keyed_name(secret, cookie(), service, 1), -1);
	const auto claim = ours.claim(service);
	ASSERT_TRUE(claim);
	EXPECT_TRUE(ours.connect(service, in(10s)));
	first = Descriptor();
	EXPECT_TRUE(ours.connect(service, in(10s)));
	EXPECT_EQ(ours.claim(service).error(), EADDRINUSE) << "the first name is free, and the place is not";
}

TEST_F(DirectoryTest, AStrangerThatNeverAcceptsDelaysNothing) {
	const SocketName name = keyed_name(secret, cookie(), service, 0);
	const Descriptor squatter = squat(name, 0);
	std::vector<Descriptor> held;
	fill_queue(name, held);
	EXPECT_TRUE(victims.claim(service));
	if (!listener_user(name)) GTEST_SKIP() << "this kernel does not name the users of sockets";
	EXPECT_EQ(victims.connect(service, in(10s)).error(), ECONNREFUSED);
}

TEST_F(DirectoryTest, TheUserThatListensIsKnownWithoutAConnection) {
	const SocketName name = plain_name(me, service);
	EXPECT_FALSE(listener_user(name));
	const Descriptor listener = squat(name);
	const auto user = listener_user(name);
	if (!user) GTEST_SKIP() << "this kernel does not name the users of sockets";
	EXPECT_EQ(*user, me);
	EXPECT_FALSE(listener_user(plain_name(victim, service)));
}

TEST_F(DirectoryTest, WithoutASecretAStrangersNameIsReported) {
	const Directory without{victim, std::nullopt};
	const Descriptor squatter = squat(plain_name(victim, service));
	EXPECT_EQ(without.connect(service, in(10s)).error(), EPERM);
	EXPECT_EQ(without.claim(service).error(), EADDRINUSE);
}

TEST_F(DirectoryTest, AFullQueueTimesOut) {
	const SocketName name = keyed_name(secret, cookie(), block, 0);
	const Descriptor listener = squat(name, 0);
	std::vector<Descriptor> held;
	fill_queue(name, held);
	EXPECT_EQ(ours.connect(block, in(20ms)).error(), ETIMEDOUT);
}

TEST_F(DirectoryTest, ThisProcessKeepsOneSecretForItsUser) {
	const auto claim = Directory::of_this_user().claim(service);
	ASSERT_TRUE(claim);
	EXPECT_TRUE(Directory::of_this_user().connect(service, in(10s)));
	EXPECT_EQ(Directory::of_this_user().user(), me);
}

}  // namespace
}  // namespace verbena::engine
