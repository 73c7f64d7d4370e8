// SPDX-License-Identifier: Apache-2.0
// yielding_poll plain|extended: polls an empty completion queue until the NIC yields the processor,
// and sends a message to itself in that moment. The poll that yielded returns the completion.
#include <sched.h>

#include <string>

#include "queue_pairs.h"

namespace {

ibv_qp* sender = nullptr;
bool sent = false;

void send() {
	ibv_send_wr request{}, *bad;
	request.opcode = IBV_WR_SEND;
	request.send_flags = IBV_SEND_SIGNALED;
	demand(!ibv_post_send(sender, &request, &bad), "post_send");
	ibv_wc completion;
	while (ibv_poll_cq(sender->send_cq, 1, &completion) == 0);
	demand(completion.status == IBV_WC_SUCCESS, "the message");
}

}  // namespace

// The NIC calls this one, because the program's functions come before those of libraries.
extern "C" int sched_yield() noexcept {
	if (sender && !sent) {
		sent = true;
		send();
	}
	return 0;
}

int main(int argc, char** argv) {
	if (argc != 2) return 2;
	const bool is_extended = std::string(argv[1]) == "extended";
	ibv_context* context = open_loopback();
	ibv_pd* pd = ibv_alloc_pd(context);
	ibv_cq_init_attr_ex attributes{};
	attributes.cqe = 16;
	ibv_cq_ex* extended = is_extended ? ibv_create_cq_ex(context, &attributes) : nullptr;
	ibv_cq* received = is_extended ? ibv_cq_ex_to_cq(extended) : ibv_create_cq(context, 16, nullptr, nullptr, 0);
	ibv_cq* other = ibv_create_cq(context, 16, nullptr, nullptr, 0);
	demand(pd && received && other, "create_cq");
	ibv_qp_init_attr init{};
	init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	init.send_cq = init.recv_cq = other;
	ibv_qp* from = create_qp(pd, init);
	init.recv_cq = received;
	ibv_qp* to = create_qp(pd, init);
	connect(from, to->qp_num);
	connect(to, from->qp_num);
	ibv_recv_wr receive{}, *bad;
	demand(!ibv_post_recv(to, &receive, &bad), "post_recv");
	sender = from;

	int got = 0;
	while (!sent) {
		ibv_wc completion;
		ibv_poll_cq_attr none{};
		if (!is_extended) got = ibv_poll_cq(received, 1, &completion);
		else if ((got = ibv_start_poll(extended, &none) == 0)) ibv_end_poll(extended);
	}
	std::printf("%d\n", got);
	return 0;
}
