// SPDX-License-Identifier: Apache-2.0
// NAKs that another process of the peer's host forges (transport/doubt.h), and true ones, which
// must still end the connection quickly and with their status.
#include <gtest/gtest.h>

#include "nic/sim/conversation.h"
#include "nic/sim/forger.h"
#include "nic/sim/pair.h"
#include "nic/transport/doubt.h"

namespace verbena::sim {
namespace {

using queues::SendOpcode;
using queues::Status;
using transport::QpState;
using Statuses = std::vector<Status>;
namespace syndrome = wire::syndrome;

constexpr Nanoseconds millisecond = 1'000'000;

// A pair with the ACK timeout of most programs, 67 ms.
struct Forged : Pair {
	explicit Forged(const ConnectionOptions& connection = {.timeout = 14}, const FabricOptions& options = {})
		: Pair(options, connection) {
		fill(from, 1);
	}
	Work write(std::uint32_t length) {
		return {.opcode = SendOpcode::rdma_write,
			.segments = {from.segment(0, length)},
			.remote_address = to.at(0),
			.rkey = to.key()};
	}
	void forge(std::uint8_t code, transport::Psn psn) { forge_answer(a, b, code, psn); }
	// Lets the traffic end, and expects that nothing but success came of it.
	void expect_success() {
		EXPECT_TRUE(settle());
		EXPECT_EQ(statuses(a.sent), Statuses(a.sent.size(), Status::success));
		EXPECT_FALSE(a.sent.empty());
		EXPECT_EQ(a.qp.state, QpState::rts);
		EXPECT_EQ(fabric.describe(), "");
	}
	const transport::Counters& requester() { return host_a.counters(); }

	Region& from = host_a.region(65536);
	Region& to = host_b.region(65536);
};

class FatalNak : public testing::TestWithParam<std::uint8_t> {};
INSTANTIATE_TEST_SUITE_P(, FatalNak,
	testing::Values(
		syndrome::nak_invalid_request, syndrome::nak_remote_access, syndrome::nak_remote_operation, 0x64, 0x7f));

TEST_P(FatalNak, ThatIsForgedForAnyPacketInFlightIsRefutedByTheAcknowledgement) {
	for (const transport::Psn behind : {0, 1, 17, 63}) {
		Forged run;
		run.a.post(run.write(65536));
		run.forge(GetParam(), run.a.qp.una + behind);
		EXPECT_TRUE(run.a.sent.empty());
		run.expect_success();
		EXPECT_TRUE(same(run.from.bytes(), run.to.bytes()));
		EXPECT_EQ(run.requester().fatal_naks_received, 1u);
		EXPECT_EQ(run.requester().naks_refuted, 1u);
		EXPECT_EQ(run.requester().probes, 0u) << "the acknowledgement was on its way";
	}
}

TEST_P(FatalNak, ThatIsForgedForAnIdleConnectionHasNoEffect) {
	Forged run;
	for (const int distance : {-2, -1, 0, 1, 1 << 20}) run.forge(GetParam(), run.a.qp.una + distance);
	EXPECT_EQ(run.requester().fatal_naks_received, 0u);
	EXPECT_EQ(run.requester().stray_answers, 5u);
	run.a.post(run.write(64));
	run.expect_success();
}

TEST_P(FatalNak, ThatIsForgedIsNotBelievedIfThePacketThatItNamesWasLost) {
	Forged run;
	int tries = 0;
	run.fabric.loses = [&](const Fabric::Departure& packet) {
		return packet.opcode == wire::Opcode::rc_write_only && ++tries <= 3;
	};
	run.a.post(run.write(64));
	run.forge(GetParam(), run.a.qp.una);
	run.expect_success();
	EXPECT_EQ(run.requester().naks_refuted, 1u);
	EXPECT_EQ(run.requester().timeouts, 0u);
}

TEST(ForgedNak, AManyAsTheForgerLikesCauseOneQuestion) {
	Forged run;
	run.a.post(run.write(64));
	for (int i = 0; i < 10'000; ++i) run.forge(syndrome::nak_remote_access, run.a.qp.una);
	run.expect_success();
	EXPECT_EQ(run.requester().fatal_naks_received, 10'000u);
	EXPECT_EQ(run.requester().naks_refuted, 1u);
	EXPECT_EQ(run.fabric.statistics.packets, 2u);
}

TEST(ForgedNak, ASilentPeerIsGivenMoreTimeOnceForgeriesWereSeen) {
	Forged run({.timeout = 17});  // 0.5 s
	bool descheduled = true;
	run.fabric.loses = [&](const Fabric::Departure& packet) { return descheduled && &packet.from == &run.host_b; };
	run.forge(syndrome::nak_remote_access, run.a.qp.una + 12'345);
	run.a.post(run.write(64));
	run.forge(syndrome::nak_remote_access, run.a.qp.una);
	run.fabric.run_for(transport::believe_after_forgery / 2);
	descheduled = false;
	run.expect_success();
}

TEST(ForgedNak, AReadIsNotFailedByAResponseOfTheWrongLength) {
	Forged run;
	fill(run.to, 9);
	Work read = run.write(4096);
	read.opcode = SendOpcode::rdma_read;
	run.a.post(read);
	wire::Slot slot{};
	slot.set_bth(wire::Opcode::rc_read_response_only, {run.a.qp.qpn},
		{static_cast<std::uint32_t>(run.a.qp.una) & 0xffffff}, run.a.qp.mtu_code << wire::slot_mtu_shift);
	slot.length = 8;
	const std::byte payload[8]{};
	run.fabric.pass(run.host_a,
		[&] { run.host_a.adapter.handle_slot(run.fabric.outlet(run.host_a, run.host_b), slot, payload, {}); });
	run.expect_success();
	EXPECT_TRUE(same(run.from.bytes().first(4096), run.to.bytes().first(4096)));
	EXPECT_EQ(run.requester().naks_refuted, 1u);
}

TEST(ForgedNak, AnRnrNakThatIsForgedPausesOnlyUntilTheAcknowledgement) {
	for (const std::uint8_t retries : {0, 1, 7}) {
		Forged run({.timeout = 14, .rnr_retry = retries});
		const Nanoseconds began = run.fabric.now();
		for (int i = 0; i < 20; ++i) {
			run.a.post(run.write(64));
			run.forge(syndrome::rnr_nak, run.a.qp.una);  // a pause of 655 ms
			EXPECT_EQ(run.fabric.run_until([&] { return run.a.quiet(); }), Ended::reached);
		}
		EXPECT_LT(run.fabric.now() - began, 20 * millisecond);
		run.expect_success();
	}
}

TEST(ForgedNak, SequenceNaksUseNoRetries) {
	Forged run({.timeout = 14, .retry_count = 0});
	run.a.post(run.write(65536));
	for (int i = 0; i < 1'000; ++i) {
		if (!run.a.quiet()) run.forge(syndrome::nak_sequence_error, run.a.qp.una);
		run.fabric.run_for(100);
	}
	run.expect_success();
	EXPECT_TRUE(same(run.from.bytes(), run.to.bytes()));
}

class TrueNak : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(
	, TrueNak, testing::Bool(), [](const auto& info) { return info.param ? "OnALosslessLink" : "OnALossyLink"; });

TEST_P(TrueNak, EndsTheConnectionInMillisecondsWithItsStatus) {
	Forged run({.timeout = 14}, {.lossless = GetParam()});
	Work bad = run.write(64);
	bad.rkey = 0;
	const Nanoseconds began = run.fabric.now();
	run.a.post(std::vector<Work>{run.write(64), bad, run.write(64)});
	EXPECT_EQ(run.fabric.run_until([&] { return run.a.qp.state == QpState::error; }), Ended::reached);
	EXPECT_LT(run.fabric.now() - began, GetParam() ? millisecond : 6 * millisecond);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), (Statuses{Status::success, Status::remote_access, Status::flushed}));
	EXPECT_EQ(run.requester().naks_refuted, 0u);
	EXPECT_EQ(run.requester().fatal_naks_received, GetParam() ? 0u : 1u);
}

TEST(TrueNaks, KeepTheStatusOfTheFirstOne) {
	Forged run;
	Work bad = run.write(64);
	bad.rkey = 0;
	run.a.post(bad);
	EXPECT_EQ(run.fabric.run_until([&] { return run.requester().fatal_naks_received != 0; }), Ended::reached);
	for (int i = 0; i < 100; ++i) run.forge(syndrome::nak_remote_operation, run.a.qp.una);
	EXPECT_TRUE(run.settle());
	EXPECT_EQ(statuses(run.a.sent), Statuses{Status::remote_access});
}

// Forged RNR NAKs could hold it longer: a peer that sends one is alive.
TEST(TrueNaks, EndTheConnectionInTimeAlsoBetweenForgedOnes) {
	for (std::uint64_t seed = 1; seed <= 50; ++seed) {
		Forged run({.timeout = 14}, {.seed = seed, .faults = {.drop = 0.01, .duplicate = 0.02, .jitter = 10'000}});
		Forger forger(run.a, run.b, 20'000, seed, ForgedNaks::fatal);
		for (int i = 0; i < 20; ++i) {
			run.a.post(run.write(8192));
			EXPECT_EQ(run.fabric.run_until([&] { return run.a.quiet(); }), Ended::reached);
		}
		Work bad = run.write(64);
		bad.rkey = 0;
		run.a.post(bad);
		const Nanoseconds began = run.fabric.now();
		EXPECT_EQ(run.fabric.run_until([&] { return run.a.qp.state != QpState::rts; }), Ended::reached);
		forger.stop();
		EXPECT_TRUE(run.settle());
		EXPECT_EQ(run.a.qp.state, QpState::error) << "seed " << seed;
		EXPECT_LT(run.fabric.now() - began, 2 * transport::believe_after_forgery) << "seed " << seed;
		EXPECT_EQ(run.a.sent.size(), 21u);
		const Statuses of_naks{
			Status::remote_access, Status::remote_invalid_request, Status::remote_operation, Status::bad_response};
		EXPECT_EQ(std::ranges::count(of_naks, run.a.sent.back().status), 1) << "seed " << seed;
	}
}

TEST(ForgedNaks, TrafficGoesOnAndEveryByteIsRight) {
	std::uint64_t forged = 0, refuted = 0;
	for (std::uint64_t seed = 1; seed <= 300; ++seed) {
		const Outcome outcome =
			converse(drawn(seed, {.drop = 0.05, .duplicate = 0.02, .reorder = 0.05, .corrupt = 0.02}, false, 200));
		EXPECT_TRUE(outcome.good) << "seed " << seed << "\n" << outcome.report;
		forged += outcome.forged;
		refuted += outcome.counters.naks_refuted;
	}
	EXPECT_GT(forged, 10'000u);
	EXPECT_GT(refuted, 1'000u);
}

}  // namespace
}  // namespace verbena::sim
