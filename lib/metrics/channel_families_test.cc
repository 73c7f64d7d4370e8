// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/channel_families.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "lib/channel/rc_fixture.h"
#include "lib/verbs/port_counters.h"

namespace verbena::metrics {
namespace {

using async::Task;
using channel::testing_tools::bytes_of;
using channel::testing_tools::test_device;

constexpr Nanoseconds long_enough = 20'000'000'000;

lib::Retries retries_now(const lib::OpenDevice& device) {
	return lib::retries_of(lib::hardware_counters(device.context->device->ibdev_path, device.choice.port));
}

// Two queue pairs of one device, connected to each other.
class QueuePairs : public ::testing::Test {
protected:
	QueuePairs() : device_(lib::open_best(test_device()).value()) {
		cq_ = lib::make_completion_queue(device_.context.get(), 16).value();
		memory_ = lib::make_memory_region(device_.domain.get(), bytes_, sizeof bytes_, IBV_ACCESS_LOCAL_WRITE).value();
		for (auto& each : qps_) {
			each =
				std::move(lib::make_queue_pair(device_, cq_.get(), {.send_depth = 4, .receive_depth = 4}).value().qp);
			EXPECT_TRUE(lib::rc_to_init(each.get(), device_, 0));
		}
		for (int i = 0; i < 2; ++i) {
			const lib::RemoteEnd other{.qpn = qps_[1 - i]->qp_num, .psn = 7, .gid = device_.choice.gid};
			EXPECT_TRUE(lib::rc_connect(qps_[i].get(), device_, other, {.local_psn = 7}));
		}
		// The RNR timer is 655 ms, so a receive that is posted within it is in time.
		ibv_qp_attr pause{.qp_state = IBV_QPS_RTS, .min_rnr_timer = 0};
		EXPECT_EQ(ibv_modify_qp(qps_[1].get(), &pause, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER), 0);
	}
	void send() {
		ibv_sge place{.addr = reinterpret_cast<std::uint64_t>(bytes_), .length = 8, .lkey = memory_->lkey};
		ibv_send_wr request{.sg_list = &place, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			*bad = nullptr;
		EXPECT_EQ(ibv_post_send(qps_[0].get(), &request, &bad), 0);
	}
	void receive() {
		ibv_sge place{.addr = reinterpret_cast<std::uint64_t>(bytes_ + 8), .length = 8, .lkey = memory_->lkey};
		ibv_recv_wr request{.sg_list = &place, .num_sge = 1}, *bad = nullptr;
		EXPECT_EQ(ibv_post_recv(qps_[1].get(), &request, &bad), 0);
	}
	// Polls completions until then; all must be successful.
	template <class Done> void poll_until(Done done) {
		const Nanoseconds deadline = monotonic_now() + long_enough;
		while (!done() && monotonic_now() < deadline) {
			ibv_wc completion{};
			if (ibv_poll_cq(cq_.get(), 1, &completion) != 1) continue;
			EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
			++completions_;
		}
		EXPECT_TRUE(done());
	}

	lib::OpenDevice device_;
	std::byte bytes_[16] = {};
	lib::CompletionQueue cq_;
	lib::MemoryRegion memory_;
	lib::QueuePair qps_[2];
	int completions_ = 0;
};

TEST_F(QueuePairs, AMessageThatFindsNoReceiveCountsOneRnrNakAtEitherEnd) {
	const lib::Retries before = retries_now(device_);
	ASSERT_TRUE(
		before.rnr_naks_received && before.rnr_naks_sent && before.retries_exceeded && before.rnr_retries_exceeded);
	send();
	poll_until([&] { return *retries_now(device_).rnr_naks_received == *before.rnr_naks_received + 1; });
	receive();
	poll_until([&] { return completions_ == 2; });
	const lib::Retries after = retries_now(device_);
	EXPECT_EQ(*after.rnr_naks_received, *before.rnr_naks_received + 1);
	EXPECT_EQ(*after.rnr_naks_sent, *before.rnr_naks_sent + 1);
	EXPECT_EQ(after.rnr_retries_exceeded, before.rnr_retries_exceeded);
	EXPECT_EQ(after.retries_exceeded, before.retries_exceeded);
}

TEST_F(QueuePairs, AMessageThatFindsItsReceiveCountsNothing) {
	const lib::Retries before = retries_now(device_);
	receive();
	send();
	poll_until([&] { return completions_ == 2; });
	EXPECT_EQ(retries_now(device_).rnr_naks_received, before.rnr_naks_received);
	EXPECT_EQ(retries_now(device_).rnr_naks_sent, before.rnr_naks_sent);
}

// All samples of these families, by the name and the value of their last label.
std::map<std::string, double> values_of(const Families& families) {
	std::map<std::string, double> values;
	for (const Family& each : families)
		for (const Sample& sample : each.samples)
			values[each.name + (sample.labels.empty() ? "" : " " + sample.labels.back().second)] = sample.value;
	return values;
}

TEST(SlowConsumer, CreditsHoldItsSenderBackBeforeAnRnrNakWould) {
	async::Loop loop;
	channel::testing_tools::TwoTransports transports(loop);
	transports.open();
	auto [a, b] = transports.connect();
	const auto before = values_of(transport_families(transports[0]));
	constexpr int count = 3000;
	loop.spawn([](channel::Channel& channel) -> Task<void> {
		for (int i = 0; i < count; ++i) EXPECT_TRUE(co_await channel.send(bytes_of("one of many")));
	}(*a));
	loop.complete([](async::Loop& loop, channel::Channel& channel) -> Task<void> {
		std::vector<channel::Message> held;
		for (int i = 0; i < count; ++i) {
			auto message = co_await channel.receive();
			if (!message) co_return ADD_FAILURE() << channel.reason();
			held.push_back(std::move(*message));
			if (held.size() < 100) continue;
			co_await loop.sleep_for(100'000);
			held.clear();
		}
	}(loop, *b));
	const auto after = values_of(transport_families(transports[0]));
	for (const char* name :
		{"verbena_rnr_naks_total received", "verbena_rnr_naks_total sent", "verbena_retries_exceeded_total rnr"}) {
		ASSERT_TRUE(after.contains(name)) << name;
		EXPECT_EQ(after.at(name), before.at(name)) << name;
	}
	EXPECT_GT(after.at("verbena_frames_total want"), 0);
}

TEST(TransportFamilies, SumSeveralTransportsAndShowEachPortOnce) {
	async::Loop loop;
	std::vector<std::unique_ptr<channel::RcTransport>> all;
	for (const std::uint32_t units : {100, 200}) {
		auto opened = channel::RcTransport::open(
			loop, test_device(), {.units_start = 16, .units_max = units, .connections_max = 4});
		ASSERT_TRUE(opened.has_value()) << opened.error();
		all.push_back(std::move(*opened));
	}
	const Families one = transport_families(*all.front()), both = transport_families(all);
	const auto values = values_of(both);
	EXPECT_EQ(values.at("verbena_receive_units_max"), 300);
	EXPECT_EQ(values.at("verbena_rdma_resources pd"), 2 * values_of(one).at("verbena_rdma_resources pd"));
	ASSERT_EQ(both.size(), one.size());
	for (std::size_t i = 0; i < both.size(); ++i) {
		EXPECT_EQ(both[i].name, one[i].name);
		EXPECT_EQ(both[i].samples.size(), one[i].samples.size()) << both[i].name << ": both have one device";
	}
}

}  // namespace
}  // namespace verbena::metrics
