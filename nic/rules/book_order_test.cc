// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>

#include "nic/rules/book.h"
#include "nic/rules/findings_file.h"

namespace verbena::rules {
namespace {

using queues::Segment;
using queues::SendOpcode;
using testing::HasSubstr;

// A book with two queue pairs, which are connected, and whose findings go to a file.
class FlagTest : public testing::Test {
protected:
	FlagTest() {
		book.completion_queue_made(&cq, 64, nullptr, 1);
		for (const auto& [handle, qpn] : {std::pair(&data_qp, 0x10u), std::pair(&flag_qp, 0x20u)}) {
			book.made(Kind::qp, handle, {&cq}, 1);
			book.queue_pair_made(handle,
				{.qpn = qpn, .type = IBV_QPT_RC, .send_cq = &cq, .receive_cq = &cq, .send_requests_max = 16}, 1);
			book.changed(handle, {.state = IBV_QPS_RTS}, 1);
		}
		book.asked_device();
	}
	std::string found() const { return file.text(); }

	void post(Handle qp, std::uint32_t length, SendOpcode opcode = SendOpcode::rdma_write, std::uint32_t rkey = 5) {
		const Segment segment{reinterpret_cast<std::uint64_t>(memory.data()), length, 7};
		const SendFacts facts{.wr_id = ++posts,
			.rkey = rkey,
			.segments = {&segment, 1},
			.opcode = opcode,
			.flags = queues::send_signaled};
		book.sends_posted(qp, {&facts, 1}, {.site = 1, .thread = pthread_self()});
	}
	void poll(std::uint32_t qpn, std::uint64_t id) {
		const queues::Completion completion{
			.wr_id = id, .qpn = qpn, .status = queues::Status::success, .opcode = queues::Completed::rdma_write};
		++polls;
		book.polled(&cq, {&completion, 1}, {polls, polls}, {}, 0);
	}

	FindingsFile file;
	Findings findings{Severity::portability, file.path()};
	Book book{findings};
	std::array<char, 4096> memory{};
	char cq = 0, data_qp = 0, flag_qp = 0;
	std::uint64_t posts = 0;
	std::uint32_t polls = 0;
};

TEST_F(FlagTest, AFlagByAnotherQueuePairMayOvertakeItsData) {
	post(&data_qp, 2048);
	post(&flag_qp, 8);
	EXPECT_THAT(found(), HasSubstr("write-flag-other-qp"));
}

TEST_F(FlagTest, SoMayAnAtomic) {
	post(&data_qp, 2048);
	post(&flag_qp, 8, SendOpcode::fetch_add);
	EXPECT_THAT(found(), HasSubstr("write-flag-other-qp"));
}

TEST_F(FlagTest, SoMayAWriteWithImmediate) {
	post(&data_qp, 2048);
	post(&flag_qp, 64, SendOpcode::rdma_write_imm);
	EXPECT_THAT(found(), HasSubstr("write-flag-other-qp"));
}

TEST_F(FlagTest, AFlagAfterTheDatasCompletionIsRight) {
	post(&data_qp, 2048);
	poll(0x10, 1);
	post(&flag_qp, 8);
	EXPECT_EQ(found(), "");
}

TEST_F(FlagTest, AFlagByTheDatasQueuePairIsRight) {
	post(&data_qp, 2048);
	post(&data_qp, 8);
	EXPECT_EQ(found(), "");
}

TEST_F(FlagTest, AQueuePairThatCarriesDataTooHasFlagsOfItsOwn) {
	post(&flag_qp, 2048);
	post(&data_qp, 2048);
	post(&flag_qp, 8);
	EXPECT_EQ(found(), "");
}

TEST_F(FlagTest, AShortWriteToAnotherRegionSaysNothingOfTheData) {
	post(&data_qp, 2048);
	post(&flag_qp, 8, SendOpcode::rdma_write, 6);
	EXPECT_EQ(found(), "");
}

TEST_F(FlagTest, TheDataMayHaveGoneWithItsQueuePair) {
	post(&data_qp, 2048);
	book.destroys(&data_qp, 1);
	book.destroyed(Kind::qp, &data_qp);
	post(&flag_qp, 8);
	EXPECT_EQ(found(), "");
}

// One queue pair whose requests all use the same memory.
class ForwardTest : public FlagTest {
protected:
	void post_to(SendOpcode opcode, std::uint8_t flags = queues::send_signaled) {
		const Segment segment{reinterpret_cast<std::uint64_t>(memory.data()), 64, 7};
		const SendFacts facts{.wr_id = ++posts, .segments = {&segment, 1}, .opcode = opcode, .flags = flags};
		book.sends_posted(&data_qp, {&facts, 1}, {.site = 1, .thread = pthread_self()});
	}
};

TEST_F(ForwardTest, AFencedWriteMayForwardTheResultOfARead) {
	post_to(SendOpcode::rdma_read);
	post_to(SendOpcode::rdma_write, queues::send_signaled | queues::send_fence);
	memory[0] ^= 1;  // as the device does
	poll(0x10, 1);
	poll(0x10, 2);
	EXPECT_EQ(found(), "");
}

TEST_F(ForwardTest, AReadMayReplaceWhatAnEarlierSendHasSent) {
	post_to(SendOpcode::send);
	post_to(SendOpcode::rdma_read);
	memory[0] ^= 1;  // as the device does
	poll(0x10, 1);
	poll(0x10, 2);
	EXPECT_EQ(found(), "");
}

}  // namespace
}  // namespace verbena::rules
