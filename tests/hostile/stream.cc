// SPDX-License-Identifier: Apache-2.0
// stream DEVICE send|receive MILLISECONDS: one end of a reliable connection with checked messages.
//
// Prints its QPN and the PSN of its first packet, and reads the QPN, the PSN and the IPv4 address
// of the other end. `send` then keeps `depth` SENDs in flight until the time is over, prints
// `began` when the first has completed, and marks the last by immediate data. `receive` compares
// every byte.
// At the end each prints `messages N`, and `send` also the longest time between two completions in
// ms (`stall N`) and its counters of forged NAKs. A failure is one line on
// standard error with status 1.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t words = 2048, bytes = words * 8, depth = 16;

template <class Value> Value demand(Value value, const char* what) {
	if (value) return value;
	std::fprintf(stderr, "%s: %m\n", what);
	std::exit(1);
}

std::uint64_t word_of(std::uint64_t message, std::uint64_t i) { return (message + 1) * 0x9e3779b97f4a7c15 + i; }

struct End {
	ibv_context* context = nullptr;
	ibv_pd* pd = nullptr;
	ibv_cq* cq = nullptr;
	ibv_qp* qp = nullptr;
	ibv_mr* mr = nullptr;
	std::vector<std::uint64_t> buffers = std::vector<std::uint64_t>(std::size_t{words} * depth);
	std::uint8_t gid_index = 0;

	std::uint64_t* buffer(std::uint64_t message) { return buffers.data() + message % depth * words; }
	ibv_sge place(std::uint64_t message) { return {reinterpret_cast<std::uint64_t>(buffer(message)), bytes, mr->lkey}; }
};

void open(End& e, const char* device) {
	ibv_device** list = demand(ibv_get_device_list(nullptr), "ibv_get_device_list");
	for (int i = 0; list[i]; ++i)
		if (std::strcmp(ibv_get_device_name(list[i]), device) == 0) e.context = ibv_open_device(list[i]);
	demand(e.context, device);
	e.pd = demand(ibv_alloc_pd(e.context), "ibv_alloc_pd");
	e.cq = demand(ibv_create_cq(e.context, 2 * depth, nullptr, nullptr, 0), "ibv_create_cq");
	e.mr = demand(ibv_reg_mr(e.pd, e.buffers.data(), e.buffers.size() * 8, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	ibv_qp_init_attr init{.send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_RC};
	init.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1};
	e.qp = demand(ibv_create_qp(e.pd, &init), "ibv_create_qp");
	// The GID of the IPv4 address.
	const std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	ibv_gid gid;
	while (true) {
		demand(ibv_query_gid(e.context, 1, e.gid_index, &gid) == 0, "no IPv4 address");
		if (std::memcmp(gid.raw, mapped, sizeof mapped) == 0) return;
		++e.gid_index;
	}
}

void connect(End& e, std::uint32_t qpn, std::uint32_t own_psn, std::uint32_t psn, const char* address) {
	ibv_qp_attr a{.qp_state = IBV_QPS_INIT, .port_num = 1};
	demand(ibv_modify_qp(e.qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "init");
	// The smallest path MTU, so that many PSNs are in the window.
	a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .rq_psn = psn, .dest_qp_num = qpn};
	a.ah_attr = {.grh = {.sgid_index = e.gid_index, .hop_limit = 1}, .is_global = 1, .port_num = 1};
	a.ah_attr.grh.dgid.raw[10] = a.ah_attr.grh.dgid.raw[11] = 0xff;
	demand(inet_pton(AF_INET, address, a.ah_attr.grh.dgid.raw + 12) == 1, "address");
	a.min_rnr_timer = 1;
	demand(ibv_modify_qp(e.qp, &a,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
		"rtr");
	a = {.qp_state = IBV_QPS_RTS, .sq_psn = own_psn, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	demand(ibv_modify_qp(e.qp, &a,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				   IBV_QP_MAX_QP_RD_ATOMIC) == 0,
		"rts");
}

void post_receive(End& e, std::uint64_t message) {
	ibv_sge sge = e.place(message);
	ibv_recv_wr wr{.wr_id = message, .sg_list = &sge, .num_sge = 1}, *bad;
	demand(ibv_post_recv(e.qp, &wr, &bad) == 0, "ibv_post_recv");
}

void post_send(End& e, std::uint64_t message, bool last) {
	for (std::uint64_t i = 0; i < words; ++i) e.buffer(message)[i] = word_of(message, i);
	ibv_sge sge = e.place(message);
	ibv_send_wr wr{.wr_id = message, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
	wr.opcode = last ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	demand(ibv_post_send(e.qp, &wr, &bad) == 0, "ibv_post_send");
}

ibv_wc next(End& e) {
	ibv_wc wc;
	while (true) {
		const int n = ibv_poll_cq(e.cq, 1, &wc);
		demand(n >= 0, "ibv_poll_cq");
		if (n == 1) break;
		usleep(0);  // two processors for all
	}
	if (wc.status != IBV_WC_SUCCESS) {
		std::fprintf(
			stderr, "message %llu: %s\n", static_cast<unsigned long long>(wc.wr_id), ibv_wc_status_str(wc.status));
		std::exit(1);
	}
	return wc;
}

void print_counter(End& e, const char* name) {
	char file[128], text[32] = "?";
	std::snprintf(file, sizeof file, "ports/1/hw_counters/%s", name);
	demand(ibv_read_sysfs_file(e.context->device->ibdev_path, file, text, sizeof text) > 0, file);
	std::printf("%s %s\n", name, text);
}

void send(End& e, std::chrono::milliseconds duration) {
	const auto end = Clock::now() + duration;
	auto last_progress = Clock::now();
	Clock::duration stall{};
	std::uint64_t posted = 0, completed = 0;
	bool ended = false;
	while (!ended || completed != posted) {
		while (!ended && posted < completed + depth) {
			ended = Clock::now() > end;
			post_send(e, posted++, ended);
		}
		next(e);
		if (++completed == 1) {
			std::puts("began");
			std::fflush(stdout);
		}
		const auto now = Clock::now();
		stall = std::max(stall, now - last_progress);
		last_progress = now;
	}
	std::printf("messages %llu\nstall %lld\n", static_cast<unsigned long long>(completed),
		static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(stall).count()));
	for (const char* name : {"fatal_naks_received", "naks_refuted", "stray_answers"}) print_counter(e, name);
}

void receive(End& e) {
	for (std::uint64_t message = 0;; ++message) {
		const ibv_wc wc = next(e);
		demand(wc.wr_id == message && wc.byte_len == bytes, "message out of order");
		for (std::uint64_t i = 0; i < words; ++i)
			demand(e.buffer(message)[i] == word_of(message, i), "a byte of a message is wrong");
		if (wc.wc_flags & IBV_WC_WITH_IMM) {
			std::printf("messages %llu\n", static_cast<unsigned long long>(message + 1));
			return;
		}
		post_receive(e, message + depth);
	}
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 4) {
		std::fputs("usage: stream DEVICE send|receive MILLISECONDS\n", stderr);
		return 2;
	}
	End e;
	open(e, argv[1]);
	const std::uint32_t own_psn = static_cast<std::uint32_t>(getpid()) * 2'654'435'761u >> 8;
	std::printf("%u %u\n", e.qp->qp_num, own_psn);
	std::fflush(stdout);
	std::uint32_t qpn, psn;
	char address[64];
	demand(std::scanf("%u %u %63s", &qpn, &psn, address) == 3, "the other end");
	connect(e, qpn, own_psn, psn, address);
	const bool receives = std::strcmp(argv[2], "receive") == 0;
	if (receives)
		for (std::uint64_t message = 0; message < depth; ++message) post_receive(e, message);
	std::puts("connected");
	std::fflush(stdout);
	if (receives) receive(e);
	else send(e, std::chrono::milliseconds(std::atoi(argv[3])));
	std::fflush(stdout);
	// The other end may wait for an acknowledgement of this one.
	std::getchar();
	std::getchar();
	_exit(0);
}
