// SPDX-License-Identifier: Apache-2.0
// contended_queue DEVICE RESETS: one thread polls an empty completion queue while another resets a
// queue pair of that queue, RESETS times. Both run on one processor. Prints the milliseconds.
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

void require(bool holds, const char* what) {
	if (holds) return;
	std::perror(what);
	std::exit(1);
}

ibv_context* open_device(const char* name) {
	ibv_device** devices = ibv_get_device_list(nullptr);
	for (ibv_device** device = devices; device && *device; ++device)
		if (std::strcmp(ibv_get_device_name(*device), name) == 0) return ibv_open_device(*device);
	return nullptr;
}

void use_one_processor() {
	cpu_set_t allowed, one;
	require(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
	int first = 0;
	while (!CPU_ISSET(first, &allowed)) ++first;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	require(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 3) return 2;
	use_one_processor();
	ibv_context* context = open_device(argv[1]);
	require(context, "ibv_open_device");
	ibv_pd* pd = ibv_alloc_pd(context);
	ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
	require(pd && cq, "ibv_create_cq");
	ibv_qp_init_attr init{};
	init.send_cq = init.recv_cq = cq;
	init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	init.qp_type = IBV_QPT_RC;
	ibv_qp* qp = ibv_create_qp(pd, &init);
	require(qp, "ibv_create_qp");

	std::atomic<bool> stop{false};
	std::atomic<long> polls{0};
	std::thread poller([&] {
		ibv_wc completion;
		while (!stop) {
			require(ibv_poll_cq(cq, 1, &completion) == 0, "a completion, or ibv_poll_cq");
			++polls;
		}
	});
	// After this many empty polls, the poller yields the processor again and again.
	while (polls < 10'000) sched_yield();
	const auto began = std::chrono::steady_clock::now();
	for (long resets = std::strtol(argv[2], nullptr, 10); resets > 0; --resets) {
		ibv_qp_attr attributes{};
		attributes.qp_state = IBV_QPS_RESET;
		require(ibv_modify_qp(qp, &attributes, IBV_QP_STATE) == 0, "ibv_modify_qp");
	}
	const auto took = std::chrono::steady_clock::now() - began;
	std::printf("%ld\n", static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
	stop = true;
	poller.join();
	return 0;
}
