// SPDX-License-Identifier: Apache-2.0
// UC and UD (IBA 9.8.2, 9.8.3): losses are silent, and every received message is complete.
#include <cstring>
#include <gtest/gtest.h>

#include "nic/sim/pair.h"

namespace verbena::sim {
namespace {

using queues::Completed;
using queues::SendOpcode;
using queues::Status;
using transport::AsyncEvent;
using transport::QpState;
using transport::QpType;
using Statuses = std::vector<Status>;

constexpr std::uint32_t grh = 40;
constexpr std::uint32_t key = 0x11111111;

std::uint32_t number_in(std::span<const std::byte> message) {
	std::uint32_t number;
	std::memcpy(&number, message.data(), sizeof number);
	return number;
}
void number(std::span<std::byte> message, std::uint32_t number) {
	for (std::size_t i = 0; i + sizeof number <= message.size(); i += sizeof number)
		std::memcpy(message.data() + i, &number, sizeof number);
}

// Sends `count` messages of `size` bytes, each filled with its number; the receiver has posted a
// buffer for each.
struct Numbered : Pair {
	Numbered(const FabricOptions& options, QpType type, std::uint32_t count, std::uint32_t size)
		: Pair(options, {.path_mtu = 1},
			  {.type = type, .send_entries = count, .receive_entries = count, .completions = 2 * count}),
		  size(size),
		  head(type == QpType::ud ? grh : 0),
		  stride(size + head),
		  from(host_a.region(count * size)),
		  to(host_b.region(count * stride)) {
		for (std::uint32_t i = 0; i < count; ++i) b.post_receive(i, to.segment(i * stride, stride));
		for (std::uint32_t i = 0; i < count; ++i) {
			number(from.bytes().subspan(i * size, size), i);
			a.post({.opcode = i % 2 ? SendOpcode::send_imm : SendOpcode::send,
				.wr_id = i,
				.segments = {from.segment(i * size, size)},
				.immediate = i,
				.to = &b,
				.q_key = key});
		}
	}
	// Expects that every received message was sent, is complete, and was sent after the one
	// received before it.
	void expect_whole_and_in_order() {
		std::int64_t last = -1;
		for (const queues::Completion& completion : b.received) {
			ASSERT_EQ(completion.status, Status::success);
			ASSERT_EQ(completion.length, stride);
			const auto message = to.bytes().subspan(completion.wr_id * stride + head, size);
			const std::uint32_t n = number_in(message);
			EXPECT_GT(static_cast<std::int64_t>(n), last);
			last = n;
			std::vector<std::byte> whole(size);
			number(whole, n);
			EXPECT_TRUE(same(message, whole));
			EXPECT_EQ(completion.flags & queues::completion_with_imm, n % 2 ? queues::completion_with_imm : 0);
			EXPECT_EQ(completion.immediate, n % 2 ? n : 0);
		}
		EXPECT_TRUE(host_b.guards_are_intact());
	}
	std::uint32_t size, head, stride;
	Region& from;
	Region& to;
};

TEST(UnreliableConnection, LosesWholeMessagesAndNeverDeliversHalfOfOne) {
	Numbered run({.seed = 5, .faults = {.drop = 0.05}}, QpType::uc, 512, 2000);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), Statuses(512, Status::success)) << "the sender is not notified of losses";
	EXPECT_GT(run.b.received.size(), 200u);
	EXPECT_LT(run.b.received.size(), 500u);
	run.expect_whole_and_in_order();
	EXPECT_EQ(run.fabric.describe(), "");
}

TEST(UnreliableConnection, LosesNothingOnALosslessLink) {
	Numbered run({.lossless = true}, QpType::uc, 512, 20'000);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(run.b.received.size(), 512u);
	run.expect_whole_and_in_order();
}

TEST(UnreliableConnection, AMessageWithoutAReceiveIsDropped) {
	for (const bool lossless : {false, true}) {
		Pair pair({.lossless = lossless}, {}, {.type = QpType::uc});
		Region& from = pair.host_a.region(5000);
		Region& to = pair.host_b.region(5000);
		pair.a.post({.wr_id = 1, .segments = {from.segment(0, 5000)}});
		EXPECT_TRUE(pair.settle());
		pair.b.post_receive(9, to.segment(0, 5000));
		pair.a.post({.wr_id = 2, .segments = {from.segment(0, 100)}});
		EXPECT_TRUE(pair.settle());
		EXPECT_EQ(statuses(pair.a.sent), Statuses(2, Status::success));
		ASSERT_EQ(pair.b.received.size(), 1u);
		EXPECT_EQ(pair.b.received[0].length, 100u);
	}
}

TEST(UnreliableConnection, AMessageLongerThanItsReceiveIsDroppedAndTheReceiveServesTheNext) {
	for (const bool lossless : {false, true}) {
		Pair pair({.lossless = lossless}, {.path_mtu = 1}, {.type = QpType::uc});
		Region& from = pair.host_a.region(5000);
		Region& to = pair.host_b.region(5000);
		fill(from, 1);
		pair.b.post_receive(9, to.segment(0, 1000));
		for (const std::uint32_t length : {1001u, 5000u, 1000u}) pair.a.post({.segments = {from.segment(0, length)}});
		EXPECT_TRUE(pair.settle());
		ASSERT_EQ(pair.b.received.size(), 1u);
		EXPECT_EQ(pair.b.received[0].wr_id, 9u);
		EXPECT_EQ(pair.b.received[0].length, 1000u);
		EXPECT_TRUE(same(to.bytes().first(1000), from.bytes().first(1000)));
		EXPECT_TRUE(untouched(to.bytes().subspan(1000)));
		EXPECT_EQ(pair.b.qp.state, QpState::rts);
	}
}

TEST(UnreliableConnection, AWriteWithImmediateCompletesOnlyWhenAllOfItIsThere) {
	Pair pair({.seed = 9, .faults = {.drop = 0.05}}, {.path_mtu = 1},
		{.type = QpType::uc, .send_entries = 256, .receive_entries = 256});
	constexpr std::uint32_t size = 2048, count = 200;
	Region& from = pair.host_a.region(count * size);
	Region& to = pair.host_b.region(count * size);
	for (std::uint32_t i = 0; i < count; ++i) {
		number(from.bytes().subspan(i * size, size), i);
		pair.b.post_receive(i, std::span<const queues::Segment>{});
		pair.a.post({.opcode = SendOpcode::rdma_write_imm,
			.segments = {from.segment(i * size, size)},
			.immediate = i,
			.remote_address = to.at(i * size),
			.rkey = to.key()});
	}
	EXPECT_TRUE(pair.settle());
	EXPECT_GT(pair.b.received.size(), count / 3);
	EXPECT_LT(pair.b.received.size(), count);
	for (std::size_t i = 0; i < pair.b.received.size(); ++i) {
		const queues::Completion& completion = pair.b.received[i];
		EXPECT_EQ(completion.wr_id, i);
		EXPECT_EQ(completion.opcode, Completed::receive_rdma_with_imm);
		EXPECT_TRUE(same(to.bytes().subspan(completion.immediate * size, size),
			from.bytes().subspan(completion.immediate * size, size)));
	}
}

TEST(UnreliableConnection, AWriteThatIsNotAllowedIsDroppedInSilence) {
	Pair pair({}, {}, {.type = QpType::uc});
	Region& from = pair.host_a.region(64);
	Region& to = pair.host_b.region(64);
	pair.a.post({.opcode = SendOpcode::rdma_write,
		.segments = {from.segment(0, 64)},
		.remote_address = to.at(1),
		.rkey = to.key()});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), Statuses{Status::success});
	EXPECT_TRUE(untouched(to.bytes()));
	EXPECT_EQ(pair.b.qp.state, QpState::rts);
}

TEST(Datagram, LossIsSilentAndWhatArrivesIsWhole) {
	Numbered run({.seed = 5, .faults = {.drop = 0.05}}, QpType::ud, 1024, 1000);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), Statuses(1024, Status::success));
	EXPECT_EQ(run.b.received.size() + run.fabric.statistics.dropped, 1024u);
	EXPECT_GT(run.fabric.statistics.dropped, 20u);
	run.expect_whole_and_in_order();
}

TEST(Datagram, LosesNothingOnALosslessLinkAndWaitsWhileTheRingIsFull) {
	Numbered run({.lossless = true}, QpType::ud, 1024, 4096);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(run.b.received.size(), 1024u);
	EXPECT_GT(run.fabric.statistics.ring_full, 0u);
	run.expect_whole_and_in_order();
}

TEST(Datagram, CarriesAGrhWithBothAddressesAndTheSendersQpn) {
	for (const bool lossless : {false, true}) {
		Pair pair({.lossless = lossless}, {}, {.type = QpType::ud});
		Region& from = pair.host_a.region(64);
		Region& to = pair.host_b.region(128);
		fill(from, 1);
		pair.b.post_receive(1, to.segment(0, 128));
		pair.a.post({.segments = {from.segment(0, 50)}, .to = &pair.b, .q_key = key});
		EXPECT_TRUE(pair.settle());
		ASSERT_EQ(pair.b.received.size(), 1u);
		const queues::Completion& completion = pair.b.received[0];
		EXPECT_EQ(completion.length, grh + 50);
		EXPECT_EQ(completion.source_qp, pair.a.qp.qpn);
		EXPECT_EQ(completion.flags, queues::completion_grh);
		EXPECT_TRUE(same(to.bytes().subspan(8, 16), std::as_bytes(std::span(pair.host_a.gid))));
		EXPECT_TRUE(same(to.bytes().subspan(24, 16), std::as_bytes(std::span(pair.host_b.gid))));
		EXPECT_TRUE(same(to.bytes().subspan(grh, 50), from.bytes().first(50)));
		EXPECT_TRUE(untouched(to.bytes().subspan(grh + 50)));
	}
}

TEST(Datagram, AboveThePortMtuNothingIsSentAndNoErrorReported) {
	Pair pair({}, {}, {.type = QpType::ud});
	Region& from = pair.host_a.region(8192);
	Region& to = pair.host_b.region(16384);
	for (int i = 0; i < 2; ++i) pair.b.post_receive(i, to.segment(i * 8192, 8192));
	pair.a.post({.wr_id = 1, .segments = {from.segment(0, 4097)}, .to = &pair.b, .q_key = key});
	pair.a.post({.wr_id = 2, .segments = {from.segment(0, 4096)}, .to = &pair.b, .q_key = key});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), Statuses(2, Status::success));
	EXPECT_EQ(pair.fabric.statistics.packets, 1u);
	ASSERT_EQ(pair.b.received.size(), 1u);
	EXPECT_EQ(pair.b.received[0].length, grh + 4096);
}

TEST(Datagram, WithoutAReceiveOrWithTheWrongQKeyOrTooLongForItsReceiveItIsDropped) {
	Pair pair({}, {}, {.type = QpType::ud});
	Region& from = pair.host_a.region(256);
	Region& to = pair.host_b.region(256);
	const Work send{.segments = {from.segment(0, 100)}, .to = &pair.b, .q_key = key};
	pair.a.post(send);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.host_b.counters().datagrams_dropped_no_receive, 1u);

	pair.b.post_receive(1, to.segment(0, grh + 99));
	Work wrong_key = send;
	wrong_key.q_key = key + 1;
	pair.a.post(wrong_key);
	pair.a.post(send);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.host_b.counters().datagrams_dropped_q_key, 1u);
	EXPECT_TRUE(pair.b.received.empty());

	Work fits = send;
	fits.segments[0].length = 99;
	pair.a.post(fits);
	EXPECT_TRUE(pair.settle());
	ASSERT_EQ(pair.b.received.size(), 1u);
	EXPECT_EQ(pair.b.received[0].wr_id, 1u);
	EXPECT_EQ(pair.a.sent.size(), 4u);
}

TEST(Datagram, ALocalErrorStopsSendingButNotReceivingUntilRtsIsAskedFor) {
	Pair pair({}, {}, {.type = QpType::ud});
	Region& a = pair.host_a.region(256);
	Region& b = pair.host_b.region(256);
	const Work works[] = {
		{.wr_id = 1, .segments = {{a.at(0), 64, a.key() ^ 1}}, .to = &pair.b, .q_key = key},
		{.wr_id = 2, .segments = {a.segment(0, 64)}, .to = &pair.b, .q_key = key},
	};
	pair.a.post(works);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(statuses(pair.a.sent), (Statuses{Status::local_protection, Status::flushed}));
	EXPECT_EQ(pair.a.qp.state, QpState::sqe);

	pair.a.post_receive(7, a.segment(0, 256));
	pair.b.post({.segments = {b.segment(0, 64)}, .to = &pair.a, .q_key = key});
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.a.received.size(), 1u) << "the receive queue still works";

	ASSERT_TRUE(pair.a.to_state(QpState::rts));
	pair.b.post_receive(8, b.segment(0, 256));
	pair.a.post(works[1]);
	EXPECT_TRUE(pair.settle());
	EXPECT_EQ(pair.b.received.size(), 1u);
}

TEST(Datagram, OneQueuePairServesManyPeers) {
	Fabric fabric({});
	Host& center = fabric.add_host();
	Endpoint server(center, {.type = QpType::ud});
	activate(server, key);
	Region& buffers = center.region(16 * 64);
	for (std::uint32_t i = 0; i < 16; ++i) server.post_receive(i, buffers.segment(i * 64, 64));
	std::vector<std::unique_ptr<Endpoint>> clients;
	for (int i = 0; i < 16; ++i) {
		Host& host = fabric.add_host();
		activate(*clients.emplace_back(std::make_unique<Endpoint>(host, EndpointOptions{.type = QpType::ud})), key);
		Region& region = host.region(64);
		clients.back()->post_receive(0, region.segment(0, 64));
		clients.back()->post({.segments = {region.segment(0, 8)}, .to = &server, .q_key = key});
	}
	EXPECT_TRUE(fabric.settle());
	server.poll();
	ASSERT_EQ(server.received.size(), 16u);
	for (auto& client : clients) server.post({.segments = {buffers.segment(0, 8)}, .to = client.get(), .q_key = key});
	EXPECT_TRUE(fabric.settle());
	for (auto& client : clients) {
		client->poll();
		EXPECT_EQ(client->received.size(), 1u);
		EXPECT_EQ(client->received.at(0).source_qp, server.qp.qpn);
	}
}

}  // namespace
}  // namespace verbena::sim
