// SPDX-License-Identifier: Apache-2.0
// Keeps queues exactly full: for each completion of a queue's request, posts one request. A queue
// that refuses one has shown a completion before it freed the completion's slot.
//
//     refill PLACE QUEUES SECONDS
//
// PLACE is `self` (two queue pairs of this process) or `peer` (one queue pair of each of two
// processes: the program prints the number of its own on a line, and reads the other's from one).
// QUEUES is
//
//     rq, srq   each queue pair has one thread that sends and one that receives, with completion
//               queues that are just as deep as the queues
//     error     the requests of the queue pair fail or are flushed (`self` only)
//
// Two more threads drive the NIC meanwhile, so most completions come from another thread than the
// one that polls them. Signals preempt these two threads in all places: their handler sleeps.
//
// Prints `ok` and the number of completed requests after SECONDS, and ends when its input ends:
// until then a peer's messages are received.
#include <fcntl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "queue_pairs.h"

namespace {

constexpr unsigned depth = 32;
// Long messages evict the queues from the caches, which widens the time between two stores.
constexpr std::uint32_t bytes = 32 << 10;

ibv_context* context;
ibv_pd* pd;
ibv_mr* mr;
alignas(64) char buffer[2 * bytes];
std::atomic<bool> sending = true, receiving = true;
std::atomic<long> completed;

ibv_cq* make_cq() {
	ibv_cq* cq = ibv_create_cq(context, depth, nullptr, nullptr, 0);
	demand(cq && cq->cqe == depth, "a completion queue of exactly this depth");
	return cq;
}

void post_send(ibv_qp* qp, bool bad_key = false) {
	ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer), bytes, mr->lkey};
	ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = bad_key ? IBV_WR_RDMA_WRITE : IBV_WR_SEND}, *bad;
	wr.send_flags = IBV_SEND_SIGNALED;
	demand(!ibv_post_send(qp, &wr, &bad), "the send queue has a slot for each completion");
}

void post_receive(ibv_qp* qp) {
	ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer) + bytes, bytes, mr->lkey};
	ibv_recv_wr wr{.sg_list = &sge, .num_sge = 1}, *bad;
	if (qp->srq) demand(!ibv_post_srq_recv(qp->srq, &wr, &bad), "the shared receive queue has a slot");
	else demand(!ibv_post_recv(qp, &wr, &bad), "the receive queue has a slot for each completion");
}

int poll(ibv_cq* cq, ibv_wc_status wanted) {
	std::array<ibv_wc, 8> wc;
	const int n = ibv_poll_cq(cq, wc.size(), wc.data());
	demand(n >= 0, "poll_cq");
	for (int i = 0; i < n; ++i) {
		if (wc[i].status == wanted) continue;
		std::fprintf(stderr, "a completion with %s\n", ibv_wc_status_str(wc[i].status));
		_exit(1);
	}
	if (n == 0) std::this_thread::yield();
	return n;
}

// One queue pair with queues of exactly `depth` entries, and full receives.
struct End {
	explicit End(bool shared) {
		if (shared) {
			ibv_srq_init_attr init{.attr = {.max_wr = depth, .max_sge = 1}};
			srq = ibv_create_srq(pd, &init);
			demand(srq && init.attr.max_wr == depth, "a shared receive queue of exactly this depth");
		}
		qp = create_qp(pd, {.send_cq = send_cq, .recv_cq = recv_cq, .srq = srq, .cap = {depth, depth, 1, 1, 0}});
		for (unsigned i = 0; i < depth; ++i) post_receive(qp);
	}
	~End() {
		demand(!ibv_destroy_qp(qp) && !(srq && ibv_destroy_srq(srq)), "destroy");
		demand(!ibv_destroy_cq(send_cq) && !ibv_destroy_cq(recv_cq), "destroy");
	}
	End(const End&) = delete;
	End& operator=(const End&) = delete;

	void send() {
		unsigned outstanding = 0;
		while (sending || outstanding) {
			for (; sending && outstanding < depth; ++outstanding) post_send(qp);
			const int n = poll(send_cq, IBV_WC_SUCCESS);
			outstanding -= static_cast<unsigned>(n);
			completed += n;
		}
	}
	void receive() {
		while (receiving)
			for (int n = poll(recv_cq, IBV_WC_SUCCESS); n; --n, ++completed) post_receive(qp);
	}

	ibv_cq *send_cq = make_cq(), *recv_cq = make_cq();
	ibv_srq* srq = nullptr;
	ibv_qp* qp = nullptr;
};

// A queue pair fails: its oldest request by a bad key or by the program, the others by being
// flushed. In the error state each new request is flushed as well.
void fail_and_flush() {
	for (bool by_request = false; sending; by_request = !by_request) {
		End end(false);
		ibv_qp* target = create_qp(pd, {.send_cq = end.send_cq, .recv_cq = end.recv_cq, .cap = {1, 1, 1, 1, 0}});
		connect(end.qp, target->qp_num);
		connect(target, end.qp->qp_num);
		if (by_request) {
			post_send(end.qp, true);
		} else {
			ibv_qp_attr error{.qp_state = IBV_QPS_ERR};
			demand(!ibv_modify_qp(end.qp, &error, IBV_QP_STATE), "to error");
			post_send(end.qp);
		}
		for (unsigned i = 1; i < depth; ++i) post_send(end.qp);
		if (by_request) {
			ibv_wc wc{};
			while (ibv_poll_cq(end.send_cq, 1, &wc) == 0) {}
			demand(wc.status == IBV_WC_REM_ACCESS_ERR, "the first failure");
			post_send(end.qp);
		}
		for (int round = 0; sending && round < 2000; ++round) {
			for (int n = poll(end.send_cq, IBV_WC_WR_FLUSH_ERR); n; --n, ++completed) post_send(end.qp);
			for (int n = poll(end.recv_cq, IBV_WC_WR_FLUSH_ERR); n; --n, ++completed) post_receive(end.qp);
		}
		demand(!ibv_destroy_qp(target), "destroy");
	}
}

// Its passes complete the requests of all other threads.
void drive() {
	ibv_cq* cq = make_cq();
	while (receiving) poll(cq, IBV_WC_SUCCESS);
	demand(!ibv_destroy_cq(cq), "destroy");
}

void be_preempted(int) {
	const int error = errno;
	const timespec away{.tv_nsec = 20'000};
	nanosleep(&away, nullptr);
	errno = error;
}

void preempt(std::span<std::thread> threads) {
	while (receiving)
		for (std::thread& thread : threads) {
			demand(!pthread_kill(thread.native_handle(), SIGUSR1), "pthread_kill");
			std::this_thread::sleep_for(std::chrono::microseconds(50));  // the threads get on
		}
}

void expect_no_overrun() {
	demand(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	ibv_async_event event;
	while (!ibv_get_async_event(context, &event)) {
		errno = EOVERFLOW;
		demand(event.event_type != IBV_EVENT_CQ_ERR, "a completion queue has a slot for each request");
		ibv_ack_async_event(&event);
	}
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 4) return 2;
	const bool self = std::string(argv[1]) == "self", shared = std::string(argv[2]) == "srq",
			   error = std::string(argv[2]) == "error";
	const std::chrono::duration<double> time(std::strtod(argv[3], nullptr));
	context = open_loopback();
	demand(std::signal(SIGUSR1, be_preempted) != SIG_ERR, "signal");
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	demand(pd && mr, "set-up");

	std::vector<std::unique_ptr<End>> ends;
	for (int i = 0; !error && i < (self ? 2 : 1); ++i) ends.push_back(std::make_unique<End>(shared));
	if (ends.size() == 2) {
		connect(ends[0]->qp, ends[1]->qp->qp_num);
		connect(ends[1]->qp, ends[0]->qp->qp_num);
	} else if (ends.size() == 1) {
		std::cout << ends[0]->qp->qp_num << std::endl;
		std::uint32_t destination;
		demand(static_cast<bool>(std::cin >> destination), "the peer's number");
		connect(ends[0]->qp, destination);
	}

	std::vector<std::thread> senders, receivers;
	for (const auto& end : ends) {
		senders.emplace_back([&] { end->send(); });
		receivers.emplace_back([&] { end->receive(); });
	}
	for (int i = 0; error && i < 2; ++i) senders.emplace_back(fail_and_flush);
	std::vector<std::thread> drivers;
	for (int i = 0; i < 2; ++i) drivers.emplace_back(drive);
	std::thread preempter(preempt, std::span(drivers));

	const auto until = std::chrono::steady_clock::now() + time;
	while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
	sending = false;
	for (std::thread& thread : senders) thread.join();
	std::cout << "ok " << completed << std::endl;
	std::string end_of_input;
	while (std::getline(std::cin, end_of_input)) {}
	receiving = false;
	preempter.join();
	for (std::thread& thread : receivers) thread.join();
	for (std::thread& thread : drivers) thread.join();
	expect_no_overrun();
	ends.clear();
}
