// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "nic/rules/findings_file.h"

namespace verbena::rules {
namespace {

using queues::Completed;
using queues::Completion;
using queues::Segment;
using queues::SendOpcode;
using queues::Status;
using testing::HasSubstr;
using testing::Not;

// A book with a queue pair of four sends, whose findings go to a file.
class BookTest : public testing::Test {
protected:
	BookTest() {
		book.registered(&region, {.lkey = 7, .begin = 0, .length = ~std::uint64_t{0} >> 40}, 1);
		book.completion_queue_made(&cq, 16, &channel, 1);
		book.made(Kind::cq, &cq, {&channel}, 1);
		book.made(Kind::qp, &qp, {&cq}, 1);
		book.queue_pair_made(&qp,
			{.qpn = 0x10,
				.type = IBV_QPT_RC,
				.send_cq = &cq,
				.receive_cq = &cq,
				.send_requests_max = 4,
				.receives_max = 4,
				.inline_max = 64,
				.mtu = 1024},
			1);
		book.changed(&qp, {.state = IBV_QPS_RTS}, 1);
	}
	std::string found() const { return file.text(); }

	void post(
		std::uint64_t id, std::uint8_t flags = queues::send_signaled, SendOpcode opcode = SendOpcode::rdma_write) {
		const Segment segment{reinterpret_cast<std::uint64_t>(memory.data()), sizeof memory, 7};
		const SendFacts facts{.wr_id = id, .segments = {&segment, 1}, .opcode = opcode, .flags = flags};
		book.sends_posted(&qp, {&facts, 1}, {.site = static_cast<Site>(id), .thread = pthread_self()});
	}
	void poll(std::uint64_t id, Status status = Status::success, Completed opcode = Completed::rdma_write) {
		const Completion completion{.wr_id = id, .length = 8, .qpn = 0x10, .status = status, .opcode = opcode};
		++polls;
		book.polled(&cq, {&completion, 1}, {produced ? produced : polls, polls}, {}, 0);
	}
	void receive_at(std::uint64_t id, std::size_t offset) {
		const Segment segment{reinterpret_cast<std::uint64_t>(memory.data()) + offset, 16, 7};
		const ReceiveFacts facts{id, {&segment, 1}};
		book.receives_posted(&qp, {&facts, 1}, {.site = static_cast<Site>(id)});
	}

	void is_filled(std::uint64_t id, std::size_t offset) {
		const Segment segment{reinterpret_cast<std::uint64_t>(memory.data()) + offset, 16, 7};
		book.receive_is_filled(0x10, id, {&segment, 1});
	}

	FindingsFile file;
	Findings findings{Severity::advice, file.path()};
	Book book{findings};
	std::array<char, 64> memory{};
	char cq = 0, qp = 0, channel = 0, mr = 0, region = 0;
	std::uint32_t polls = 0, produced = 0;
};

TEST_F(BookTest, APlaceInTheSendQueueIsFreeOnlyAfterAPoll) {
	for (std::uint64_t id = 1; id <= 4; ++id) post(id);
	EXPECT_EQ(book.room(&qp), 0u);
	poll(1);
	EXPECT_EQ(book.room(&qp), 1u);
	EXPECT_EQ(found(), "");
}

TEST_F(BookTest, ACompletionEndsTheUnsignaledRequestsBeforeIt) {
	post(1, 0);
	post(2, 0);
	post(3);
	post(4);
	poll(3);
	EXPECT_EQ(book.room(&qp), 3u);
	poll(4);
	EXPECT_EQ(book.room(&qp), 4u);
}

TEST_F(BookTest, AnErrorMayBeOfAnUnsignaledRequest) {
	post(1, 0);
	post(2, 0);
	post(3);
	poll(2, Status::remote_access);
	EXPECT_EQ(book.room(&qp), 3u);
	poll(3, Status::flushed);
	EXPECT_EQ(book.room(&qp), 4u);
}

TEST_F(BookTest, ASendQueueWithoutASignaledRequestIsFullForEver) {
	for (std::uint64_t id = 1; id <= 4; ++id) post(id, 0);
	book.send_refused(&qp, {.wr_id = 5}, ENOMEM, 0, 9);
	EXPECT_THAT(found(), HasSubstr("sq-unsignaled-full"));
}

TEST_F(BookTest, AFullQueueWithASignaledRequestIsNoMistake) {
	post(1);
	for (std::uint64_t id = 2; id <= 4; ++id) post(id, 0);
	book.send_refused(&qp, {.wr_id = 5}, ENOMEM, 0, 9);
	EXPECT_EQ(found(), "");
}

TEST_F(BookTest, ABufferThatChangesBeforeThePollIsFound) {
	post(1);
	memory[40] = 1;
	poll(1);
	EXPECT_THAT(found(), HasSubstr("send-buffer-modified"));
}

TEST_F(BookTest, ABufferMayChangeAfterThePollAndWithInlineData) {
	post(1);
	poll(1);
	memory[40] = 1;
	post(2, queues::send_signaled | queues::send_inline);
	memory[40] = 2;
	poll(2);
	EXPECT_EQ(found(), "");
}

TEST_F(BookTest, TwoReceivesShareABufferWithoutHarmIfEachIsPolledInTime) {
	receive_at(1, 0);
	receive_at(2, 0);
	poll(1, Status::success, Completed::receive);
	poll(2, Status::success, Completed::receive);
	EXPECT_EQ(found(), "");
}

TEST_F(BookTest, ASecondMessageInOneBufferBeforeThePollIsFound) {
	receive_at(1, 0);
	receive_at(2, 8);
	produced = 2;
	poll(1, Status::success, Completed::receive);
	poll(2, Status::success, Completed::receive);
	EXPECT_THAT(found(), HasSubstr("recv-overlap"));
}

std::uint32_t none_taken(Handle) { return 0; }
std::uint32_t three_taken(Handle) { return 3; }

TEST_F(BookTest, ASleepWithCompletionsFromBeforeTheArmingIsFound) {
	book.armed(&cq, 3, 5);
	book.waits_for_event(&channel, three_taken, 6, 0);
	EXPECT_EQ(found(), "");
	book.waits_for_event(&channel, none_taken, 6, 0);
	EXPECT_THAT(found(), HasSubstr("notify-lost-wakeup"));
}

TEST_F(BookTest, AWaitWithoutArmingIsFoundAfterTwoSeconds) {
	book.waits_for_event(&channel, none_taken, 6, second);
	book.look(2 * second);
	EXPECT_EQ(found(), "");
	book.look(4 * second);
	EXPECT_THAT(found(), HasSubstr("notify-not-armed"));
}

TEST_F(BookTest, AClockThatWasReadBeforeTheLastPollShowsNoLongWait) {
	book.send_refused(&qp, {.wr_id = 5}, EINVAL, 0, 9);
	book.polled(&cq, {}, {}, {}, 5 * second);
	book.look(5 * second - 1);
	EXPECT_EQ(found(), "");
	book.look(7 * second);
	EXPECT_THAT(found(), HasSubstr("post-error-ignored"));
}

TEST_F(BookTest, AnObjectMadeAtTheAddressOfADestroyedOneIsAnotherOne) {
	book.made(Kind::mr, &mr, {}, 1);
	book.registered(&mr, {.lkey = 9, .begin = 1, .length = 1}, 1);
	book.destroys(&mr, 3);
	// Another thread gets the memory before this one can report the end of the call.
	book.made(Kind::mr, &mr, {}, 2);
	book.registered(&mr, {.lkey = 8, .begin = 1, .length = 1}, 2);
	book.destroyed(Kind::mr, &mr);
	book.wrong_key(0x10, 8);
	EXPECT_THAT(found(), HasSubstr("lkey-for-rkey"));
}

TEST_F(BookTest, AWordThatTheProcessorChangesOnceMayBelongToAnotherPhase) {
	std::uint64_t value = 0;
	for (int i = 0; i < 10; ++i, ++value) {
		if (i == 5) value = 100;
		book.atomic_arrives(0x10, 64, value, value + 1, i);
	}
	EXPECT_EQ(found(), "");
	for (int i = 0; i < 4; ++i, value += 2) book.atomic_arrives(0x10, 64, value + 1, value + 2, i);
	EXPECT_THAT(found(), HasSubstr("atomic-vs-cpu"));
}

TEST_F(BookTest, AFullQueueIsAMistakeOfAProgramThatGivesUp) {
	for (std::uint64_t id = 1; id <= 4; ++id) post(id);
	book.send_refused(&qp, {.wr_id = 5}, ENOMEM, 0, 9);
	poll(1);
	book.finish();
	EXPECT_EQ(found(), "");
	post(5);
	book.send_refused(&qp, {.wr_id = 6}, ENOMEM, 0, 9);
	book.finish();
	EXPECT_THAT(found(), HasSubstr("sq-depth-by-luck"));
}

TEST_F(BookTest, AProgramThatGivesUpBeforeItHasPolledMistakesAnArrivalForAPlace) {
	for (std::uint64_t id = 1; id <= 4; ++id) post(id);
	book.send_refused(&qp, {.wr_id = 5}, ENOMEM, 3, 9);
	book.destroys_queue_pair(&qp, false, 9);
	EXPECT_THAT(found(), HasSubstr("send-completion-means-slot"));
	EXPECT_THAT(found(), Not(HasSubstr("sq-depth-by-luck")));
}

TEST_F(BookTest, AReceiveThatTheProgramChangesIsFoundWhenItsMessageArrives) {
	receive_at(1, 0);
	receive_at(2, 16);
	memory[20] = 1;
	is_filled(1, 0);
	EXPECT_EQ(found(), "");
	is_filled(2, 16);
	EXPECT_THAT(found(), HasSubstr("recv-touched"));
}

TEST_F(BookTest, AReceiveMayChangeByMessagesInTheSameMemory) {
	receive_at(1, 0);
	receive_at(2, 8);
	is_filled(1, 0);
	receive_at(3, 8);
	memory[8] = 1;
	is_filled(2, 8);
	is_filled(3, 8);
	EXPECT_EQ(found(), "");
}

TEST_F(BookTest, AMulticastFillsAReceiveWithoutAnArrival) {
	receive_at(1, 0);
	receive_at(1, 0);
	memory[0] = 1;
	book.receive_has_completed(0x10, 1);
	is_filled(1, 0);
	EXPECT_EQ(found(), "");
}

TEST_F(BookTest, TheCompletionOfAReceiveEndsTheDigestOfNoOtherOneWithItsNumber) {
	receive_at(1, 0);
	receive_at(1, 16);
	is_filled(1, 0);
	book.receive_has_completed(0x10, 1);
	memory[16] = 1;
	is_filled(1, 16);
	EXPECT_THAT(found(), HasSubstr("recv-touched"));
}

TEST_F(BookTest, AReceiveMayChangeByAReadAndByPeers) {
	receive_at(1, 0);
	post(1, queues::send_signaled, SendOpcode::rdma_read);
	receive_at(2, 16);
	memory[0] = memory[16] = 1;
	is_filled(1, 0);
	is_filled(2, 16);
	poll(1, Status::success, Completed::rdma_read);
	receive_at(3, 32);
	book.write_arrives(0x10, reinterpret_cast<std::uint64_t>(memory.data()), sizeof memory, true, 0);
	memory[32] = 1;
	is_filled(3, 32);
	EXPECT_THAT(found(), Not(HasSubstr("recv-touched")));
}

TEST_F(BookTest, WritesOfTwoQueuePairsRaceIfOneBeginsInTheMiddleOfTheOther) {
	book.write_arrives(0x11, 5000, 100, false, 0);
	book.write_arrives(0x10, 5100, 100, true, 0);  // beside it
	book.write_goes_on(0x11, true, 0);
	book.write_arrives(0x10, 5000, 100, true, 0);  // after it
	book.write_arrives(0x11, 5000, 100, false, 0);
	book.write_arrives(0x11, 5000, 100, false, 0);  // the same queue pair
	book.write_arrives(0x10, 5000, 100, true, second);  // long after it was abandoned
	book.writes_end(0x11);
	book.write_arrives(0x10, 5000, 100, true, 0);
	EXPECT_EQ(found(), "");
	book.write_arrives(0x11, 5000, 100, false, 0);
	book.write_arrives(0x10, 5099, 100, true, 0);
	EXPECT_THAT(found(), HasSubstr("remote-races"));
}

TEST_F(BookTest, AWordMayBelongToTwoDevicesOneAfterTheOther) {
	char other = 0, device = 0;
	book.made(Kind::qp, &other, {&cq}, 1);
	book.queue_pair_made(&other, {.qpn = 0x20, .type = IBV_QPT_RC, .device = &device}, 1);
	std::uint64_t value = 0;
	const auto add = [&](std::uint32_t qpn) {
		book.atomic_arrives(qpn, 64, value, value + 1, 0);
		++value;
	};
	for (int i = 0; i < 5; ++i) add(0x10);
	for (int i = 0; i < 5; ++i) add(0x20);
	EXPECT_EQ(found(), "");
	add(0x10);
	add(0x20);
	EXPECT_THAT(found(), HasSubstr("atomic-two-devices"));
}

TEST_F(BookTest, OnlyAQueuePairOfRdmaCmMustEndBeforeItsId) {
	book.id_destroyed(0x10, 9);
	EXPECT_EQ(found(), "");
	char other = 0;
	book.queue_pair_made(&other, {.qpn = 0x20, .type = IBV_QPT_RC, .made_by_rdma_cm = true}, 1);
	book.id_destroyed(0x20, 9);
	EXPECT_THAT(found(), HasSubstr("cm-destroy-order"));
}

TEST_F(BookTest, TheSameMistakeAtOnePlaceIsWrittenOnce) {
	for (int i = 0; i < 3; ++i) book.region_refused(IBV_ACCESS_REMOTE_WRITE, 4);
	book.region_refused(IBV_ACCESS_REMOTE_WRITE, 5);
	findings.finish();
	EXPECT_THAT(found(), HasSubstr("\"count\":3"));
	const std::string text = found();
	EXPECT_EQ(std::ranges::count(text, '\n'), 3);  // two findings, and a count
}

// A device that pins the pages goes on to use the old ones; with on-demand paging it follows.
TEST_F(BookTest, PagesThatAreGivenBackMatterOnlyIfTheyArePinned) {
	constexpr std::size_t bytes = 65536;
	void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(memory, MAP_FAILED);
	const auto begin = reinterpret_cast<std::uint64_t>(memory);
	for (const unsigned access : {unsigned{IBV_ACCESS_ON_DEMAND}, 0u}) {
		EXPECT_EQ(found(), "");
		book.made(Kind::mr, &mr, {}, 1);
		book.registered(&mr, {.lkey = 9, .rkey = 10, .begin = begin, .length = bytes, .access = access}, 1);
		book.gives_back(begin + 8192, begin + bytes);
		book.memory_is_used(0x10, 10, begin, 64);  // not these pages
		EXPECT_EQ(found(), "");
		book.memory_is_used(0x10, 10, begin + 12288, 64);
		book.destroys(&mr, 3);
		book.destroyed(Kind::mr, &mr);
	}
	EXPECT_THAT(found(), HasSubstr("mem-given-back-while-registered"));
	munmap(memory, bytes);
}

}  // namespace
}  // namespace verbena::rules
