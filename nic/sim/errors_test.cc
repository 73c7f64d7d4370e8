// SPDX-License-Identifier: Apache-2.0
// One scenario for each completion status that a peer's mistake, a user's mistake or a dead link
// must produce (IBA 9.9, 11.6.2), on lossy and lossless links.
#include <gtest/gtest.h>

#include "nic/sim/pair.h"

namespace verbena::sim {
namespace {

using queues::SendOpcode;
using queues::Status;
using transport::AsyncEvent;
using transport::QpState;
using Statuses = std::vector<Status>;
using Ids = std::vector<std::uint64_t>;

class Errors : public testing::TestWithParam<bool> {
protected:
	bool lossless() const { return GetParam(); }
	Pair make(const ConnectionOptions& connection = {}) { return Pair({.lossless = lossless()}, connection); }

	// Expects that both ends are in the error state, and that the request behind the failed one and
	// a posted receive were flushed.
	static void expect_failed_with(Pair& pair, Status status) {
		EXPECT_TRUE(pair.settle());
		EXPECT_EQ(statuses(pair.a.sent), (Statuses{status, Status::flushed}));
		EXPECT_EQ(pair.a.qp.state, QpState::error);
		EXPECT_EQ(pair.b.qp.state, QpState::error);
		ASSERT_FALSE(pair.b.received.empty());
		EXPECT_EQ(pair.b.received.back().status, Status::flushed);
		EXPECT_TRUE(pair.host_a.guards_are_intact() && pair.host_b.guards_are_intact());
		EXPECT_EQ(pair.fabric.describe(), "");
	}
	// Posts a request that must fail, one behind it, and a receive at the peer.
	static void post(Pair& pair, const Work& bad, Region& local) {
		pair.b.post_receive(99, std::span<const queues::Segment>{});
		const Work works[] = {bad, {.opcode = SendOpcode::rdma_write, .segments = {local.segment(0, 0)}}};
		pair.a.post(works);
	}
};
INSTANTIATE_TEST_SUITE_P(
	, Errors, testing::Bool(), [](const auto& info) { return info.param ? "OnALosslessLink" : "OnALossyLink"; });

TEST_P(Errors, AWriteWithAnUnknownRkeyIsARemoteAccessError) {
	Pair pair = make();
	Region& local = pair.host_a.region(8192);
	Region& remote = pair.host_b.region(8192);
	post(pair,
		{.opcode = SendOpcode::rdma_write,
			.segments = {local.segment(0, 5000)},
			.remote_address = remote.at(0),
			.rkey = remote.key() ^ 1},
		local);
	expect_failed_with(pair, Status::remote_access);
	EXPECT_EQ(pair.host_b.raised(AsyncEvent::qp_access_error), 1);
	EXPECT_TRUE(untouched(remote.bytes()));
}

TEST_P(Errors, AWriteThatEndsBehindItsRegionWritesNothing) {
	Pair pair = make();
	Region& local = pair.host_a.region(8192);
	Region& remote = pair.host_b.region(8192);
	fill(local, 1);
	post(pair,
		{.opcode = SendOpcode::rdma_write,
			.segments = {local.segment(0, 4096)},
			.remote_address = remote.at(4097),
			.rkey = remote.key()},
		local);
	expect_failed_with(pair, Status::remote_access);
	EXPECT_TRUE(untouched(remote.bytes()));
}

TEST_P(Errors, AReadOfARegionThatForbidsItIsARemoteAccessError) {
	Pair pair = make();
	Region& local = pair.host_a.region(8192);
	Region& remote = pair.host_b.region(8192, memory::local_write | memory::remote_write);
	post(pair,
		{.opcode = SendOpcode::rdma_read,
			.segments = {local.segment(0, 64)},
			.remote_address = remote.at(0),
			.rkey = remote.key()},
		local);
	expect_failed_with(pair, Status::remote_access);
	EXPECT_TRUE(untouched(local.bytes()));
}

TEST_P(Errors, ARegionOfAnotherProtectionDomainIsARemoteAccessError) {
	Pair pair = make();
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64, Host::everything, 2);
	post(pair,
		{.opcode = SendOpcode::rdma_write,
			.segments = {local.segment(0, 64)},
			.remote_address = remote.at(0),
			.rkey = remote.key()},
		local);
	expect_failed_with(pair, Status::remote_access);
}

TEST_P(Errors, AnAtomicOnARegionThatForbidsItIsARemoteAccessError) {
	Pair pair = make();
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64, memory::local_write | memory::remote_write);
	post(pair,
		{.opcode = SendOpcode::fetch_add,
			.segments = {local.segment(0, 8)},
			.remote_address = remote.at(0),
			.rkey = remote.key()},
		local);
	expect_failed_with(pair, Status::remote_access);
}

TEST_P(Errors, AMisalignedAtomicIsAnInvalidRequest) {
	Pair pair = make();
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64);
	post(pair,
		{.opcode = SendOpcode::fetch_add,
			.segments = {local.segment(0, 8)},
			.remote_address = remote.at(4),
			.rkey = remote.key(),
			.compare_or_add = 1},
		local);
	expect_failed_with(pair, Status::remote_invalid_request);
	EXPECT_EQ(pair.host_b.raised(AsyncEvent::qp_request_error), 1);
	EXPECT_TRUE(untouched(remote.bytes()));
}

TEST_P(Errors, AWriteThatTheQueuePairDoesNotAllowIsAnInvalidRequest) {
	Pair pair = make({.access = memory::remote_read});
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64);
	post(pair,
		{.opcode = SendOpcode::rdma_write,
			.segments = {local.segment(0, 64)},
			.remote_address = remote.at(0),
			.rkey = remote.key()},
		local);
	expect_failed_with(pair, Status::remote_invalid_request);
}

TEST_P(Errors, ASendLongerThanItsReceiveFailsBothEnds) {
	for (const std::uint32_t length : {17u, 5000u, 20000u}) {
		Pair pair = make();
		Region& local = pair.host_a.region(32768);
		Region& remote = pair.host_b.region(32768);
		const std::uint32_t room = length - 1;
		pair.b.post_receive(1, remote.segment(0, room));
		post(pair, {.segments = {local.segment(0, length)}}, local);
		expect_failed_with(pair, Status::remote_invalid_request);
		EXPECT_EQ(wr_ids(pair.b.received), (Ids{1, 99}));
		EXPECT_EQ(pair.b.received.front().status, Status::local_length);
		EXPECT_TRUE(untouched(remote.bytes().subspan(room)));
	}
}

TEST_P(Errors, AReceiveIntoMemoryThatIsNotTheReceiversIsARemoteOperationError) {
	Pair pair = make();
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64, memory::remote_read);  // no local write
	pair.b.post_receive(1, remote.segment(0, 64));
	post(pair, {.segments = {local.segment(0, 64)}}, local);
	expect_failed_with(pair, Status::remote_operation);
	EXPECT_EQ(pair.b.received.front().status, Status::local_protection);
}

TEST_P(Errors, MoreReadsThanTheResponderAllowsAreAnInvalidRequest) {
	// The limit is exceeded by many READs in one pass on the lossy link, and by READs whose
	// responses find no room on the lossless link.
	const std::uint32_t size = lossless() ? 1 << 19 : 4096;
	Pair pair({.lossless = lossless(), .batch = 50'000});
	pair.a.qp.reads_max = 16;  // the responder allows 4
	Region& local = pair.host_a.region(size);
	Region& remote = pair.host_b.region(size);
	const Work read{.opcode = SendOpcode::rdma_read,
		.segments = {local.segment(0, size)},
		.remote_address = remote.at(0),
		.rkey = remote.key()};
	pair.a.post(std::vector<Work>(16, read));
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.a.qp.state, QpState::error);
	EXPECT_EQ(std::ranges::count(statuses(pair.a.sent), Status::remote_invalid_request), 1);
}

TEST_P(Errors, AnErrorOfOneRequestLeavesThoseBeforeItSuccessful) {
	Pair pair = make();
	Region& local = pair.host_a.region(64);
	Region& remote = pair.host_b.region(64);
	const Work good{.opcode = SendOpcode::rdma_write,
		.wr_id = 1,
		.segments = {local.segment(0, 64)},
		.remote_address = remote.at(0),
		.rkey = remote.key()};
	Work read = good, bad = good, behind = good;
	read.opcode = SendOpcode::rdma_read;
	read.wr_id = 2;
	bad.rkey = 0;
	bad.wr_id = 3;
	bad.flags = 0;  // an error completes in any case
	behind.wr_id = 4;
	const Work works[] = {good, read, bad, behind};
	pair.a.post(works);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(wr_ids(pair.a.sent), (Ids{1, 2, 3, 4}));
	EXPECT_EQ(
		statuses(pair.a.sent), (Statuses{Status::success, Status::success, Status::remote_access, Status::flushed}));
}

TEST_P(Errors, ASendFromMemoryThatIsNotTheSendersIsALocalProtectionErrorAndThePeerIsNotNotified) {
	Pair pair = make();
	Region& local = pair.host_a.region(8192);
	Region& remote = pair.host_b.region(8192);
	for (int i = 0; i < 3; ++i) pair.b.post_receive(i, remote.segment(0, 8192));
	const Work works[] = {
		{.wr_id = 1, .segments = {local.segment(0, 64)}},
		{.wr_id = 2, .segments = {local.segment(0, 64), {local.at(8000), 200, local.key()}}},
		{.wr_id = 3, .segments = {local.segment(0, 64)}},
	};
	pair.a.post(works);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(wr_ids(pair.a.sent), (Ids{1, 2, 3}));
	EXPECT_EQ(statuses(pair.a.sent), (Statuses{Status::success, Status::local_protection, Status::flushed}));
	EXPECT_EQ(pair.a.qp.state, QpState::error);
	EXPECT_EQ(pair.b.received.size(), 1u);
	EXPECT_EQ(pair.b.qp.state, QpState::rts);
}

TEST_P(Errors, AReadIntoMemoryThatIsNotWritableIsALocalProtectionError) {
	Pair pair = make();
	Region& local = pair.host_a.region(64, memory::remote_read);
	Region& remote = pair.host_b.region(64);
	pair.a.post({.opcode = SendOpcode::rdma_read,
		.segments = {local.segment(0, 64)},
		.remote_address = remote.at(0),
		.rkey = remote.key()});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), Statuses{Status::local_protection});
	EXPECT_TRUE(untouched(local.bytes()));
}

TEST_P(Errors, AReceiverThatIsNeverReadyExhaustsTheRnrRetries) {
	Pair pair = make({.rnr_retry = 2});
	Region& local = pair.host_a.region(64);
	const Work send{.segments = {local.segment(0, 64)}};
	const Work works[] = {send, send};
	pair.a.post(works);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), (Statuses{Status::rnr_retry_exceeded, Status::flushed}));
	if (lossless()) EXPECT_EQ(pair.host_a.counters().rnr_naks_received, 3u) << "the first try and two retries";
	// An RNR NAK from another host may be forged, so the requester tries some more (doubt.h).
	else EXPECT_LE(pair.host_a.counters().rnr_naks_received, 3u + 9);
	EXPECT_EQ(pair.b.qp.state, QpState::rts);
}

TEST_P(Errors, AQueuePairThatCannotReceiveExhaustsTheRetries) {
	FabricOptions options{.lossless = lossless()};
	Fabric fabric(options);
	Host& one = fabric.add_host();
	Host& other = fabric.add_host();
	Endpoint a(one), b(other);
	const ConnectionOptions connection{.timeout = 10, .retry_count = 3};
	make_ready_to_receive(a, b, connection, 1);
	make_ready_to_send(a, connection, 1);  // b stays in RESET
	Region& local = one.region(64);
	const Nanoseconds began = fabric.now();
	a.post({.segments = {local.segment(0, 64)}});
	EXPECT_TRUE(fabric.settle());
	a.poll();
	EXPECT_EQ(statuses(a.sent), Statuses{Status::retry_exceeded});
	const Nanoseconds timeout = Nanoseconds{4096} << 10;
	EXPECT_GE(fabric.now() - began, 3 * timeout);
	EXPECT_LE(fabric.now() - began, 9 * timeout);
	EXPECT_EQ(fabric.describe(), "");
}

TEST_P(Errors, APeerThatBecomesReadyLateGetsEverything) {
	Fabric fabric({.lossless = lossless()});
	Host& one = fabric.add_host();
	Host& other = fabric.add_host();
	Endpoint a(one), b(other);
	const ConnectionOptions connection{.timeout = 10, .retry_count = 7};
	make_ready_to_receive(a, b, connection, 1);
	make_ready_to_send(a, connection, 5);
	Region& local = one.region(8192);
	Region& remote = other.region(8192);
	fill(local, 3);
	a.post({.wr_id = 1, .segments = {local.segment(0, 8192)}});
	fabric.run_for(Nanoseconds{4096} << 10);
	make_ready_to_receive(b, a, connection, 5);
	b.post_receive(1, remote.segment(0, 8192));
	b.post_receive(2, remote.segment(0, 0));
	a.post({.wr_id = 2, .segments = {local.segment(0, 0)}});
	EXPECT_TRUE(fabric.settle());
	a.poll();
	EXPECT_EQ(statuses(a.sent), (Statuses{Status::success, Status::success}));
	EXPECT_TRUE(same(local.bytes(), remote.bytes()));
	EXPECT_EQ(other.raised(AsyncEvent::communication_established), 1);
}

TEST(DeadLink, RetriesEndAfterRetryCountTimeouts) {
	for (const std::uint8_t retries : {0, 1, 7}) {
		Pair pair({.faults = {.drop = 1}}, {.timeout = 8, .retry_count = retries});
		Region& local = pair.host_a.region(64);
		pair.a.post({.segments = {local.segment(0, 64)}});
		EXPECT_TRUE(pair.settle());
		EXPECT_EQ(statuses(pair.a.sent), Statuses{Status::retry_exceeded});
		EXPECT_EQ(pair.host_a.counters().timeouts, retries + 1u);
		EXPECT_EQ(pair.host_a.counters().retransmissions, retries);
	}
}

TEST(DeadLink, ATimeoutOfZeroWaitsForEver) {
	Pair pair({.faults = {.drop = 1}}, {.timeout = 0});
	Region& local = pair.host_a.region(64);
	pair.a.post({.segments = {local.segment(0, 64)}});
	EXPECT_TRUE(pair.settle());
	EXPECT_TRUE(pair.a.sent.empty());
	EXPECT_EQ(pair.a.qp.state, QpState::rts);
}

TEST(DeadLink, ProgressResetsTheRetryCount) {
	Pair pair({}, {.path_mtu = 1, .timeout = 8, .retry_count = 1});
	Region& local = pair.host_a.region(8192);
	Region& remote = pair.host_b.region(8192);
	// Every NAK is lost, and the k-th group of four packets until the k-th timeout. So each timeout
	// lets four packets arrive, and no two timeouts pass without progress.
	pair.fabric.loses = [&](const Fabric::Departure& packet) {
		if (packet.opcode == wire::Opcode::rc_acknowledge) return packet.syndrome != wire::syndrome::ack;
		return pair.host_a.counters().timeouts < (packet.psn.value - 0x123456) / 4;
	};
	pair.b.post_receive(1, remote.segment(0, 8192));
	pair.a.post({.segments = {local.segment(0, 8192)}});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), Statuses{Status::success});
	EXPECT_EQ(pair.host_a.counters().timeouts, 7u);
}

}  // namespace
}  // namespace verbena::sim
