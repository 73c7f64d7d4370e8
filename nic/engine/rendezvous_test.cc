// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/rendezvous_fixture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

namespace verbena::engine {
namespace {

using namespace std::chrono_literals;
using greeting::Kind;
using greeting::Message;
using Step = PendingPeer::Step;

std::size_t open_descriptors() {
	std::size_t count = 0;
	for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
	return count;
}

// The acceptor: takes one connection and drives its greeting to the end.
struct Accepted {
	Step step = Step::again;
	int error = 0;
	Peer peer;
};
Accepted accept_one(int listener, const Identity& self, uid_t allowed, const PendingPeer::Linked& linked) {
	if (!becomes_readable(listener)) return {};
	auto pending = PendingPeer::accept(listener, self, Directory(allowed, std::nullopt));
	if (!pending) return {.step = Step::failed, .error = pending.error(), .peer = {}};
	Step step = Step::again;
	while (step == Step::again && becomes_readable(pending->fd())) step = pending->on_readable(linked);
	EXPECT_TRUE(step != Step::failed || pending->fd() == -1) << "a refusal closes the connection at once";
	return {.step = step, .error = pending->error(), .peer = pending->take()};
}

class Rendezvous : public testing::Test {
protected:
	Process alice{0xa11ce}, bob{0xb0b};
	BlockName bobs = *claim_block(ours);

	struct Outcome {
		std::expected<Peer, int> at_alice = std::unexpected(-1);
		Accepted at_bob;
	};
	Outcome link(const Process& connecting, const PendingPeer::Linked& linked = never_linked) {
		Outcome outcome;
		std::thread bobs_engine(
			[&] { outcome.at_bob = accept_one(bobs.listeners[0].get(), bob.identity(), geteuid(), linked); });
		outcome.at_alice = connect_to(connecting.identity(), ours, Place::block(bobs.block), 10s);
		bobs_engine.join();
		return outcome;
	}
};

TEST_F(Rendezvous, BothEndsShareBothDirectionsAndEachOthersBells) {
	auto outcome = link(alice);
	ASSERT_TRUE(outcome.at_alice) << std::strerror(outcome.at_alice.error());
	ASSERT_EQ(outcome.at_bob.step, Step::done);
	Peer to_bob = std::move(*outcome.at_alice), to_alice = std::move(outcome.at_bob.peer);

	EXPECT_EQ(to_bob.token, bob.token);
	EXPECT_EQ(to_alice.token, alice.token);
	EXPECT_EQ(to_bob.pid, getpid());
	EXPECT_FALSE(to_bob.is_self || to_bob.already_linked || to_alice.is_self || to_alice.already_linked);

	for (auto [from, to] : {std::pair(&to_bob, &to_alice), std::pair(&to_alice, &to_bob)}) {
		wire::SlotWriter writer;
		wire::SlotReader reader;
		writer.attach(from->outgoing.get());
		reader.attach(to->incoming.get());
		EXPECT_FALSE(reader.ready());
		writer.publish(writer.reserve(5, 0).slot, 5);
		EXPECT_TRUE(reader.ready());
	}
	eventfd_write(to_bob.doorbell.get(), 1);
	EXPECT_TRUE(becomes_readable(bob.doorbell.get()));
	bob.page.object->passes.store(99);
	EXPECT_EQ(to_bob.progress->passes.load(), 99u);

	for (const Peer* peer : {&to_bob, &to_alice})
		for (const int fd : {peer->socket.get(), peer->doorbell.get(), peer->pidfd.get()}) {
			EXPECT_TRUE(fd < 0 || fcntl(fd, F_GETFD) & FD_CLOEXEC);
			EXPECT_TRUE(fd != peer->socket.get() || fcntl(fd, F_GETFL) & O_NONBLOCK);
		}
}

TEST_F(Rendezvous, ALinkThatEndsGivesEverythingBack) {
	const std::size_t before = open_descriptors();
	for (int i = 0; i < 3; ++i) ASSERT_TRUE(link(alice).at_alice);
	EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Rendezvous, AProcessAlreadyLinkedIsToldSoAndSharesNothing) {
	const std::size_t before = open_descriptors();
	const auto outcome = link(alice, [&](uid_t, std::uint64_t token) { return token == alice.token; });
	ASSERT_TRUE(outcome.at_alice);
	EXPECT_TRUE(outcome.at_alice->already_linked);
	EXPECT_EQ(outcome.at_alice->token, bob.token);
	EXPECT_FALSE(outcome.at_alice->outgoing || outcome.at_alice->incoming);
	EXPECT_EQ(outcome.at_bob.step, Step::done);
	EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Rendezvous, TwoThatConnectAtTheSameMomentGetTwoLinksAndBothWork) {
	const BlockName alices = *claim_block(ours);
	Accepted at_alice, at_bob;
	std::expected<Peer, int> bobs_view = std::unexpected(-1);
	std::thread alices_engine(
		[&] { at_alice = accept_one(alices.listeners[0].get(), alice.identity(), geteuid(), never_linked); });
	std::thread bobs_engine(
		[&] { at_bob = accept_one(bobs.listeners[0].get(), bob.identity(), geteuid(), never_linked); });
	std::thread bobs_program([&] { bobs_view = connect_to(bob.identity(), ours, Place::block(alices.block), 10s); });
	const auto alices_view = connect_to(alice.identity(), ours, Place::block(bobs.block), 10s);
	bobs_program.join();
	bobs_engine.join();
	alices_engine.join();
	ASSERT_TRUE(alices_view && bobs_view);
	for (auto [from, to] :
		{std::pair(&*alices_view, &at_bob.peer), std::pair<const Peer*, Peer*>(&*bobs_view, &at_alice.peer)}) {
		from->outgoing->slots_consumed.store(17);
		EXPECT_EQ(to->incoming->slots_consumed.load(), 17u);
	}
}

TEST_F(Rendezvous, AConnectionToOneselfIsRecognised) {
	auto outcome = link(bob);
	ASSERT_TRUE(outcome.at_alice);
	EXPECT_TRUE(outcome.at_alice->is_self);
	EXPECT_FALSE(outcome.at_alice->already_linked);
	ASSERT_EQ(outcome.at_bob.step, Step::done);
	EXPECT_TRUE(outcome.at_bob.peer.is_self);
}

TEST_F(Rendezvous, AnUnownedBlockIsRefusedWithoutWaiting) {
	const std::uint32_t free_block = bobs.block;
	bobs.listeners.clear();
	EXPECT_EQ(connect_to(alice.identity(), ours, Place::block(free_block), 10s).error(), ECONNREFUSED);
}

TEST_F(Rendezvous, AnOwnerWhoNeverAnswersTimesOut) {
	const std::size_t before = open_descriptors();
	EXPECT_EQ(connect_to(alice.identity(), ours, Place::block(bobs.block), 20ms).error(), ETIMEDOUT);
	EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Rendezvous, AFullBacklogTimesOut) {
	const Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	ASSERT_TRUE(listener);
	sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
	const int length =
		std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "verbena/%u/qp/%u", geteuid(), private_block());
	const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
	ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
	ASSERT_EQ(listen(listener.get(), 0), 0);
	const Descriptor first(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	ASSERT_EQ(connect(first.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
	EXPECT_EQ(connect_to(alice.identity(), ours, Place::block(private_block()), 20ms).error(), ETIMEDOUT);
}

// --- Other users ---

TEST_F(Rendezvous, AnotherUsersConnectionIsRefused) {
	const std::size_t before = open_descriptors();
	Accepted at_bob;
	std::thread bobs_engine(
		[&] { at_bob = accept_one(bobs.listeners[0].get(), bob.identity(), geteuid() + 1, never_linked); });
	EXPECT_EQ(connect_to(alice.identity(), ours, Place::block(bobs.block), 10s).error(), ECONNRESET);
	bobs_engine.join();
	EXPECT_EQ(at_bob.error, EPERM);
	EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Rendezvous, ANameSquattedByAnotherUserIsRefusedBeforeAnythingIsSent) {
	const uid_t victim = geteuid() + 1;
	const Directory victims(victim, std::nullopt);
	const auto squatter = victims.claim(Place::block(private_block()));
	ASSERT_TRUE(squatter);
	EXPECT_EQ(connect_to(alice.identity(), victims, Place::block(private_block()), 10s).error(), EPERM);
	const Descriptor connection(accept(squatter->front().get(), nullptr, nullptr));
	ASSERT_TRUE(connection);
	char byte;
	EXPECT_EQ(recv(connection.get(), &byte, 1, 0), 0);
}

// --- Invalid input: a HELLO with one field or descriptor wrong is refused and leaks nothing. ---

struct Raw {
	Message message{.kind = Kind::hello, .token = 0xbad};
	std::size_t length = sizeof(Message);
	std::vector<int> fds;
};

int send_raw(int socket, const Raw& raw) {
	char bytes[sizeof(Message) + 64] = {};
	std::memcpy(bytes, &raw.message, sizeof raw.message);
	iovec io{bytes, raw.length};
	alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
	msghdr header{};
	header.msg_iov = &io;
	header.msg_iovlen = 1;
	if (!raw.fds.empty()) {
		const std::size_t size = raw.fds.size() * sizeof(int);
		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(size);
		cmsghdr* part = CMSG_FIRSTHDR(&header);
		*part = {.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
		std::memcpy(CMSG_DATA(part), raw.fds.data(), size);
	}
	return static_cast<int>(sendmsg(socket, &header, MSG_NOSIGNAL));
}

class HostileHello : public Rendezvous {
protected:
	SealedMemory<wire::Direction> direction = *create_sealed<wire::Direction>("test", Writers::everyone);
	Raw good{.fds = {direction.fd.get(), alice.doorbell.get(), alice.page.fd.get(), alice.rights.fd.get()}};

	// Returns 0 if the HELLO was accepted, otherwise the error on bob's side, after which no
	// descriptor may stay open.
	int bobs_error(const Raw& raw) {
		const std::size_t before = open_descriptors();
		const int error = [&] {
			const Descriptor socket(connect_raw());
			if (!socket) return -1;
			EXPECT_GE(send_raw(socket.get(), raw), 0);
			Accepted at_bob = accept_one(bobs.listeners[0].get(), bob.identity(), geteuid(), never_linked);
			if (at_bob.step == Step::done) return 0;
			EXPECT_EQ(at_bob.step, Step::failed);
			char byte;
			EXPECT_LE(recv(socket.get(), &byte, 1, 0), 0) << "the other side is to learn of the refusal";
			return at_bob.error;
		}();
		EXPECT_EQ(open_descriptors(), before);
		return error;
	}

	int connect_raw() {
		const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (fd < 0) return -1;
		sockaddr_un name{};
		socklen_t length = sizeof name;
		getsockname(bobs.listeners[0].get(), reinterpret_cast<sockaddr*>(&name), &length);
		EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&name), length), 0);
		return fd;
	}
};

TEST_F(HostileHello, TheTemplateItselfIsAccepted) { EXPECT_EQ(bobs_error(good), 0); }

TEST_F(HostileHello, WrongMagic) {
	good.message.magic ^= 1;
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, AWelcomeInsteadOfAHello) {
	good.message.kind = Kind::welcome;
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, AnotherVersionOrAnotherLayout) {
	Raw raw = good;
	raw.message.version += 1;
	EXPECT_EQ(bobs_error(raw), EPROTONOSUPPORT);
	raw = good;
	raw.message.direction_bytes += 4096;
	EXPECT_EQ(bobs_error(raw), EPROTONOSUPPORT);
	raw = good;
	raw.message.progress_bytes -= 1;
	EXPECT_EQ(bobs_error(raw), EPROTONOSUPPORT);
}

TEST_F(HostileHello, AShortALongAndAnEmptyMessage) {
	for (const std::size_t length :
		{std::size_t{0}, std::size_t{1}, sizeof(Message) - 1, sizeof(Message) + 1, sizeof(Message) + 64}) {
		good.length = length;
		EXPECT_EQ(bobs_error(good), EPROTO) << length;
	}
}

TEST_F(HostileHello, NoTooFewAndTooManyDescriptors) {
	const auto all = good.fds;
	good.fds = {};
	EXPECT_EQ(bobs_error(good), EPROTO);
	good.fds = {all[0], all[1]};
	EXPECT_EQ(bobs_error(good), EPROTO);
	good.fds = {all[0], all[1], all[2], all[3], all[0]};
	EXPECT_EQ(bobs_error(good), EPROTO);
	good.fds = std::vector(40, all[0]);
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, DescriptorsInAnotherOrder) {
	std::swap(good.fds[0], good.fds[2]);
	EXPECT_EQ(bobs_error(good), EPROTO);
	std::swap(good.fds[1], good.fds[2]);
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, MemoryOfAnotherSizeUnsealedOrNoMemoryAtAll) {
	const Descriptor unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	ASSERT_EQ(ftruncate(unsealed.get(), sizeof(wire::Direction)), 0);
	good.fds[0] = unsealed.get();
	EXPECT_EQ(bobs_error(good), EPROTO) << "the peer could shrink it under us";
	ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
	EXPECT_EQ(bobs_error(good), EPROTO) << "and still";

	struct Page {
		char bytes[4096];
	};
	const auto smaller = create_sealed<Page>("test", Writers::everyone);
	ASSERT_TRUE(smaller);
	good.fds[0] = smaller->fd.get();
	EXPECT_EQ(bobs_error(good), EPROTO);

	const Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
	good.fds[0] = null.get();
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, MemoryThatWeMayNotWrite) {
	const Descriptor read_only(
		open(("/proc/self/fd/" + std::to_string(direction.fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
	ASSERT_TRUE(read_only);
	good.fds[0] = read_only.get();
	EXPECT_EQ(bobs_error(good), EACCES);
}

TEST_F(HostileHello, ADoorbellThatCouldBlockTheEngine) {
	int ends[2];
	ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	const Descriptor reading(ends[0]), writing(ends[1]);
	good.fds[1] = writing.get();
	EXPECT_EQ(bobs_error(good), EPROTO);
	const Descriptor blocking(eventfd(0, EFD_CLOEXEC));
	good.fds[1] = blocking.get();
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, AProgressPageWithoutItsMagic) {
	const auto blank = create_sealed<ProgressPage>("test", Writers::everyone);
	ASSERT_TRUE(blank);
	good.fds[2] = blank->fd.get();
	EXPECT_EQ(bobs_error(good), EPROTO);
}

TEST_F(HostileHello, ATableOfRightsWithoutItsMagic) {
	const auto blank = create_sealed<memory::RightsTable>("test", Writers::this_mapping);
	good.fds[3] = blank->fd.get();
	EXPECT_EQ(bobs_error(good), EPROTO);
	good.fds[3] = alice.page.fd.get();
	EXPECT_EQ(bobs_error(good), EPROTO);
	good.fds.pop_back();  // where memfd_create() is refused there is none
	EXPECT_EQ(bobs_error(good), 0);
}

TEST_F(HostileHello, SilenceIsNoErrorAndHangingUpIsOne) {
	Descriptor socket(connect_raw());
	auto pending = PendingPeer::accept(bobs.listeners[0].get(), bob.identity(), ours);
	ASSERT_TRUE(pending);
	EXPECT_EQ(pending->on_readable(never_linked), Step::again);
	socket = Descriptor();
	EXPECT_EQ(pending->on_readable(never_linked), Step::failed);
	EXPECT_EQ(pending->error(), ECONNRESET);
	EXPECT_EQ(PendingPeer::accept(bobs.listeners[0].get(), bob.identity(), ours).error(), EAGAIN);
}

TEST_F(HostileHello, ANonsenseWelcomeIsRefusedAndLeaksNothing) {
	for (const bool with_memory : {false, true}) {
		const std::size_t before = open_descriptors();
		std::thread hostile([&] {
			ASSERT_TRUE(becomes_readable(bobs.listeners[0].get()));
			const Descriptor socket(accept(bobs.listeners[0].get(), nullptr, nullptr));
			Raw raw = good;
			raw.message.kind = Kind::welcome;
			if (with_memory) raw.fds.resize(2);
			else raw.fds.clear();
			send_raw(socket.get(), raw);
			becomes_readable(socket.get(), POLLRDHUP);
		});
		EXPECT_EQ(connect_to(alice.identity(), ours, Place::block(bobs.block), 10s).error(), EPROTO);
		hostile.join();
		EXPECT_EQ(open_descriptors(), before);
	}
}

// --- Blocks and death ---

TEST(Block, IsClaimedByOneProcessAndNeverHoldsTheReservedNumbers) {
	std::vector<BlockName> claimed;
	for (int i = 0; i < 64; ++i) {
		auto block = claim_block(ours);
		ASSERT_TRUE(block);
		EXPECT_GE(block->block, block_first);
		EXPECT_LE(block->block, block_last);
		EXPECT_EQ(ours.claim(Place::block(block->block)).error(), EADDRINUSE);
		EXPECT_TRUE(fcntl(block->listeners[0].get(), F_GETFD) & FD_CLOEXEC);
		claimed.push_back(std::move(*block));
	}
	EXPECT_EQ(block_of({0x123456}), 0x123u);
	EXPECT_LT(block_of({1}), block_first);
	EXPECT_GT(block_of({0xffffff}), block_last);
}

TEST(Block, OfAKilledProcessIsFreeAgainAndItsPeersLearnOfTheDeath) {
	Process alice{0xa11ce};
	std::uint32_t block = 0;
	int pipe_ends[2];
	ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
	const pid_t child = fork();
	if (child == 0) {
		alarm(30);
		const Process bob{0xb0b};
		const auto name = claim_block(ours);
		if (!name || write(pipe_ends[1], &name->block, sizeof name->block) != sizeof name->block) _exit(1);
		const Accepted linked = accept_one(name->listeners[0].get(), bob.identity(), geteuid(), never_linked);
		while (linked.step == Step::done) pause();
		_exit(1);
	}
	ASSERT_EQ(read(pipe_ends[0], &block, sizeof block), static_cast<ssize_t>(sizeof block));
	auto peer = connect_to(alice.identity(), ours, Place::block(block), 10s);
	ASSERT_TRUE(peer);
	EXPECT_EQ(peer->pid, child);
	pollfd alive{peer->socket.get(), POLLIN, 0};
	EXPECT_EQ(poll(&alive, 1, 0), 0);

	kill(child, SIGKILL);
	EXPECT_TRUE(becomes_readable(peer->socket.get()));
	char byte;
	EXPECT_EQ(recv(peer->socket.get(), &byte, 1, MSG_DONTWAIT), 0);
	EXPECT_TRUE(!peer->pidfd || becomes_readable(peer->pidfd.get()));
	waitpid(child, nullptr, 0);
	EXPECT_TRUE(ours.claim(Place::block(block)));
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

}  // namespace
}  // namespace verbena::engine
