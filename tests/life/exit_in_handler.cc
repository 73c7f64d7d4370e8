// SPDX-License-Identifier: Apache-2.0
// A program that ends by exit() in a signal handler, which interrupts ibv_poll_cq.
//
// usage: exit_in_handler MICROSECONDS: polls an empty completion queue and ends with status 3 after
// this time. It listens by rdma_cm, so that the NIC has connections to end at exit.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/time.h>

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>

#include "queue_pairs.h"

int main(int argc, char** argv) {
	if (argc != 2) return 2;
	rdma_event_channel* channel = rdma_create_event_channel();
	rdma_cm_id* listener = nullptr;
	demand(channel && !rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP), "rdma_create_id");
	sockaddr_in address{};
	address.sin_family = AF_INET;
	demand(!rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
	demand(!rdma_listen(listener, 1), "rdma_listen");

	ibv_context* context = open_loopback();
	ibv_pd* pd = ibv_alloc_pd(context);
	ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
	demand(pd && cq, "create_cq");
	ibv_qp_init_attr init{};
	init.send_cq = init.recv_cq = cq;
	init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	create_qp(pd, init);

	signal(SIGALRM, [](int) { std::exit(3); });
	const itimerval once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = std::atoi(argv[1])}};
	setitimer(ITIMER_REAL, &once, nullptr);
	ibv_wc completion;
	while (ibv_poll_cq(cq, 1, &completion) == 0) {}
	return 1;
}
