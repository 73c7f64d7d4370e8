// SPDX-License-Identifier: Apache-2.0
// A program may refill a queue to its full depth as soon as it has polled a completion, also while
// the pass that pushed the completion goes on. These tests stop the adapter after each instruction,
// poll as such a program would, and require that the slots of all requests that it has then seen
// completed are free.
#include <csignal>
#include <gtest/gtest.h>

#include "nic/adapter/adapter_fixture.h"

namespace verbena::adapter {
namespace {

using namespace transport;
using queues::Completed;
using queues::SendOpcode;

// Sets or clears the processor's trap flag, which raises SIGTRAP after each instruction.
[[gnu::noinline]] void set_stepping(bool on) {
	if (on) asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	else asm volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

// Calls act(), and look() after each of its instructions.
template <class Act, class Look> void step_through(Act&& act, const Look& look) {
	static const Look* looks;
	looks = &look;
	struct sigaction action{}, before{};
	action.sa_handler = [](int) { (*looks)(); };
	ASSERT_EQ(sigaction(SIGTRAP, &action, &before), 0);
	set_stepping(true);
	act();
	set_stepping(false);
	ASSERT_EQ(sigaction(SIGTRAP, &before, nullptr), 0);
}

class CompletionOrder : public testing_tools::AdapterTest {
protected:
	void SetUp() override {
#if defined(__SANITIZE_THREAD__)
		GTEST_SKIP() << "the thread sanitizer delays signals";
#endif
	}
	static constexpr std::uint32_t depth = 8;

	void fill_sends(QueuePair& qp) {
		for (std::uint32_t i = 0; i < depth; ++i)
			qp.wqe(i) = {.wr_id = i, .opcode = SendOpcode::send, .flags = queues::send_signaled | queues::send_inline};
		qp.sq_head.store(depth);
	}
	void fill_receives(QueuePair& qp) {
		for (std::uint32_t i = 0; i < depth; ++i) *qp.receive_queue->prepare(i) = {.wr_id = i};
		qp.receive_queue->commit(depth);
	}
	void acknowledge(QueuePair& qp, std::uint8_t code, std::uint32_t psn) {
		adapter.handle_ack(outlet, {std::uint64_t{code} << 48 | std::uint64_t{psn} << 24 | qp.qpn});
	}
	// act() completes all requests of both queues that are filled.
	template <class Act> void expect_free_slots(QueuePair& qp, Act&& act) {
		const std::uint32_t tail = qp.sq_tail.load(), posted = qp.receive_queue->posted();
		const std::uint32_t expected = qp.sq_head.load() - tail + posted;
		std::uint32_t sends = 0, receives = 0, early = 0;
		const auto look = [&] {
			cq.drain(
				1000, [&](const queues::Completion& c, int) { ++(c.opcode == Completed::receive ? receives : sends); });
			early += sends > qp.sq_tail.load() - tail || receives > posted - qp.receive_queue->posted();
		};
		step_through(act, look);
		EXPECT_EQ(early, 0u) << "a completion was visible before its slot was free";
		EXPECT_EQ(sends + receives, expected) << "the test saw every completion";
	}
};

TEST_F(CompletionOrder, TheSlotOfAnAcknowledgedSendIsFreeBeforeItsCompletionCanBeSeen) {
	QueuePair& qp = connected();
	fill_sends(qp);
	adapter.begin_pass(1);
	adapter.transmit(qp);
	expect_free_slots(qp, [&] { acknowledge(qp, wire::syndrome::ack, 20 + depth - 1); });
}

TEST_F(CompletionOrder, TheSlotOfAnUnreliableSendIsFreeBeforeItsCompletionCanBeSeen) {
	QueuePair& qp = connected();
	qp.type = QpType::uc;
	fill_sends(qp);
	adapter.begin_pass(1);
	expect_free_slots(qp, [&] { adapter.transmit(qp); });
}

TEST_F(CompletionOrder, TheSlotsOfARefusedAndOfFlushedRequestsAreFreeBeforeTheirCompletionsCanBeSeen) {
	QueuePair& qp = connected();
	fill_sends(qp);
	fill_receives(qp);
	adapter.begin_pass(1);
	adapter.transmit(qp);
	expect_free_slots(qp, [&] { acknowledge(qp, wire::syndrome::nak_remote_access, 20); });
	EXPECT_EQ(qp.state, QpState::error);
}

TEST_F(CompletionOrder, TheSlotsOfRequestsThatTheProgramFlushesAreFreeBeforeTheirCompletionsCanBeSeen) {
	QueuePair& qp = connected();
	fill_sends(qp);
	fill_receives(qp);
	adapter.begin_pass(1);
	expect_free_slots(qp, [&] { adapter.modify_qp(qp, {.mask = qp_state, .state = QpState::error}); });
}

TEST_F(CompletionOrder, TheSlotOfAReceiveIsFreeBeforeItsCompletionCanBeSeen) {
	QueuePair& qp = connected();
	fill_receives(qp);
	adapter.begin_pass(1);
	expect_free_slots(qp, [&] {
		for (std::uint32_t i = 0; i < depth; ++i) handle(request(qp, 10 + i, wire::Opcode::rc_send_only));
	});
}

}  // namespace
}  // namespace verbena::adapter
