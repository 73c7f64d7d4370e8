// SPDX-License-Identifier: Apache-2.0
// Many threads of one process share one NIC. Two such processes send to each other.
//
//     threads WORK THREADS MESSAGES
//
// The program prints the numbers of its QPs on one line, reads the peer's numbers from one line,
// sends MESSAGES messages, and prints `ok` when all sends and receives have completed.
//
// WORK is one of:
//
//     own      each thread sends on its own QP; all threads poll one completion queue, and the
//              thread that polls a receive posts it again
//     shared   like own, but all threads share one QP
//     events   the threads only send; one more thread polls and sleeps on the completion channel
//     churn    like own, while other threads create and destroy QPs, regions and completion queues
//     hasty    like own, while other threads create QPs, post to them and destroy them at once
//     fork     like own, while the main thread forks children that destroy the inherited objects
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "queue_pairs.h"

namespace {

constexpr unsigned depth = 64;
constexpr int completions_max = 4096, in_flight_max = 2048;
constexpr std::uint32_t bytes = 64;

ibv_context* context;
ibv_pd* pd;
ibv_comp_channel* channel;
ibv_cq* cq;
ibv_mr* mr;
alignas(64) char buffer[4096];
std::vector<ibv_qp*> qps;
std::atomic<long> to_send, to_complete, in_flight;
std::atomic<bool> done = false;

ibv_qp* create(ibv_cq* queue) {
	return create_qp(pd, {.send_cq = queue, .recv_cq = queue, .cap = {depth, depth, 1, 1, 0}, .sq_sig_all = 1});
}

void receive(std::size_t index) {
	ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer) + 1024, bytes, mr->lkey};
	ibv_recv_wr wr{.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;
	demand(!ibv_post_recv(qps[index], &wr, &bad), "post_recv");
}

// Posts a SEND. False: there is no room now. A completed request that was not polled yet takes no
// room in the send queue, but it does in the completion queue, so sends are counted until they are
// polled.
bool send(std::size_t index) {
	if (in_flight.fetch_add(1) >= in_flight_max) {
		--in_flight;
		return false;
	}
	ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer), bytes, mr->lkey};
	ibv_send_wr wr{.wr_id = index, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	const int error = ibv_post_send(qps[index], &wr, &bad);
	demand(!error || error == ENOMEM, "post_send");
	if (error) --in_flight;
	return !error;
}

// Polls once and posts the completed receives again. Returns the number of completions.
int poll() {
	ibv_wc wc[8];
	const int n = ibv_poll_cq(cq, 8, wc);
	demand(n >= 0, "poll_cq");
	for (int i = 0; i < n; ++i) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			std::fprintf(stderr, "completion of %s: %s\n", wc[i].opcode & IBV_WC_RECV ? "receive" : "send",
				ibv_wc_status_str(wc[i].status));
			_exit(1);
		}
		if (wc[i].opcode & IBV_WC_RECV) receive(wc[i].wr_id);
		else --in_flight;
	}
	if (n && (to_complete -= n) == 0) done = true;
	return n;
}

// Polls once more after the request for an event, because a completion may have come before it.
void sleep_on_channel() {
	demand(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	if (poll()) return;
	ibv_cq* which;
	void* its_context;
	demand(!ibv_get_cq_event(channel, &which, &its_context), "get_cq_event");
	ibv_ack_cq_events(which, 1);
}

void work(std::size_t index) {
	while (!done) {
		if (to_send > 0 && to_send.fetch_sub(1) > 0) {
			while (!send(index))
				if (!poll()) sched_yield();
		} else if (!poll()) {
			sched_yield();
		}
	}
}

void only_send(std::size_t index) {
	while (to_send > 0 && to_send.fetch_sub(1) > 0)
		while (!send(index)) sched_yield();
}

void only_sleep() {
	while (!done)
		if (!poll()) sleep_on_channel();
}

void churn() {
	while (!done) {
		ibv_cq* own = ibv_create_cq(context, 16, nullptr, nullptr, 0);
		demand(own, "create_cq");
		ibv_qp* qp = create(own);
		ibv_mr* region = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
		demand(region, "reg_mr");
		demand(!ibv_destroy_qp(qp) && !ibv_dereg_mr(region) && !ibv_destroy_cq(own), "destroy");
	}
}

// Destroys QPs while the engine has not seen their posted work yet.
void hurry() {
	while (!done) {
		ibv_cq* own = ibv_create_cq(context, 16, nullptr, nullptr, 0);
		demand(own, "create_cq");
		ibv_qp* qp = create(own);
		connect(qp, qp->qp_num);
		ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer), bytes, mr->lkey};
		ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
		demand(!ibv_post_send(qp, &wr, &bad), "post_send");
		demand(!ibv_destroy_qp(qp) && !ibv_destroy_cq(own), "destroy");
	}
}

void fork_children() {
	for (int i = 0; i < 20; ++i) {
		const pid_t child = fork();
		demand(child >= 0, "fork");
		if (child == 0) {
			ibv_wc wc;
			if (ibv_poll_cq(cq, 1, &wc) != -1 || errno != EIO) _exit(2);
			for (ibv_qp* qp : qps)
				if (ibv_destroy_qp(qp)) _exit(3);
			_exit(ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(context) ? 4 : 0);
		}
		int status = 0;
		demand(waitpid(child, &status, 0) == child, "waitpid");
		if (status != 0) {
			std::fprintf(stderr, "child %d: status %#x\n", i, static_cast<unsigned>(status));
			_exit(1);
		}
	}
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 4) return 2;
	const std::string what = argv[1];
	const std::size_t threads = std::strtoul(argv[2], nullptr, 10);
	const long messages = std::strtol(argv[3], nullptr, 10);

	context = open_loopback();
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, completions_max, nullptr, channel, 0);
	demand(pd && mr && channel && cq, "set-up");
	for (std::size_t i = 0; i < (what == "shared" ? 1 : threads); ++i) {
		qps.push_back(create(cq));
		for (unsigned k = 0; k < depth; ++k) receive(i);
		std::cout << qps.back()->qp_num << ' ';
	}
	std::cout << std::endl;
	for (ibv_qp* qp : qps) {
		std::uint32_t destination;
		demand(static_cast<bool>(std::cin >> destination), "the peer's numbers");
		connect(qp, destination);
	}

	to_send = messages;
	to_complete = 2 * messages;
	std::vector<std::thread> running;
	for (std::size_t i = 0; i < threads; ++i)
		running.emplace_back(what == "events" ? only_send : work, what == "shared" ? 0 : i);
	if (what == "events") running.emplace_back(only_sleep);
	if (what == "churn")
		for (int i = 0; i < 2; ++i) running.emplace_back(churn);
	if (what == "hasty")
		for (int i = 0; i < 8; ++i) running.emplace_back(hurry);
	if (what == "fork") fork_children();
	for (std::thread& thread : running) thread.join();
	std::cout << "ok" << std::endl;
	std::string end;
	std::getline(std::cin, end);  // the peer's last messages are acknowledged until it is done
	std::getline(std::cin, end);
}
