// SPDX-License-Identifier: Apache-2.0
// Asks the loopback device one question, named by the argument, and prints the answer.
//
// The questions are about verbs that once answered wrongly; test_answers.py has the right answers.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "../life/queue_pairs.h"

// rdma-core 65, which is newer than the installed verbs.h.
extern "C" {
struct ibv_buf;
void* ibv_alloc_buf(ibv_pd* pd, size_t size, ibv_buf** buf) __attribute__((weak));
void ibv_free_buf(ibv_buf* buf) __attribute__((weak));
ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, size_t length, int access) __attribute__((weak));
int ibv_export_buf_dmabuf_fd(ibv_buf* buf) __attribute__((weak));
ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, void* attributes) __attribute__((weak));
}

namespace {

ibv_context* context;
ibv_pd* pd;
ibv_comp_channel* channel;
ibv_cq* cq;
ibv_mr* mr;
char buffer[8192];

void print(const char* name, long value) { std::cout << name << '=' << value << '\n'; }

// Whether the channel has an event; fetches it.
bool fetch_event() {
	pollfd readable{channel->fd, POLLIN, 0};
	if (poll(&readable, 1, 0) != 1) return false;
	ibv_cq* which;
	void* its_context;
	demand(!ibv_get_cq_event(channel, &which, &its_context) && which == cq, "get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

// A queue pair that is connected with itself.
ibv_qp* looped() {
	ibv_qp* qp = create_qp(pd, {.send_cq = cq, .recv_cq = cq, .cap = {16, 16, 1, 1, 0}});
	connect(qp, qp->qp_num);
	return qp;
}

void post_receive(ibv_qp* qp) {
	ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer) + 4096, 64, mr->lkey};
	ibv_recv_wr wr{.sg_list = &sge, .num_sge = 1}, *bad;
	demand(!ibv_post_recv(qp, &wr, &bad), "post_recv");
}

void post_send(ibv_qp* qp, unsigned flags) {
	ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer), 8, mr->lkey};
	ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags}, *bad;
	demand(!ibv_post_send(qp, &wr, &bad), "post_send");
}

// Polls `count` completions of whatever status.
void take(int count) {
	ibv_wc wc;
	while (count > 0) count -= ibv_poll_cq(cq, 1, &wc);
}

// Sends messages to itself until the queue holds the completions of all; the SEND's own completion
// comes last. A second queue pair shows that, because it completes after them.
void hold(ibv_qp* qp, unsigned flags) {
	ibv_cq* other = ibv_create_cq(context, 4, nullptr, nullptr, 0);
	ibv_qp* last = create_qp(pd, {.send_cq = other, .recv_cq = other, .cap = {1, 1, 1, 1, 0}});
	connect(last, last->qp_num);
	post_receive(qp);
	post_send(qp, flags);
	post_receive(last);
	post_send(last, IBV_SEND_SIGNALED);
	ibv_wc wc;
	for (int n = 0; n < 2;) n += ibv_poll_cq(other, 1, &wc);
	demand(!ibv_destroy_qp(last) && !ibv_destroy_cq(other), "destroy");
}

void arming() {
	ibv_qp* qp = looped();
	hold(qp, 0);
	print("unarmed", fetch_event());
	demand(!ibv_req_notify_cq(cq, 1), "req_notify_cq");
	print("solicited_only_with_an_unsolicited_one", fetch_event());
	demand(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	demand(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	print("not_empty_and_armed_twice", fetch_event());
	print("again", fetch_event());
	demand(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	print("reported_by_the_event_before", fetch_event());
	hold(qp, 0);
	print("a_second_one_came", fetch_event());
	take(2);
	hold(qp, 0);
	take(1);
	demand(!ibv_req_notify_cq(cq, 0), "req_notify_cq");
	print("empty", fetch_event());
	hold(qp, 0);
	print("then_one_came", fetch_event());
	take(1);
	hold(qp, IBV_SEND_SOLICITED);
	demand(!ibv_req_notify_cq(cq, 1), "req_notify_cq");
	print("solicited_only_with_a_solicited_one", fetch_event());
	take(1);
	ibv_qp_attr error{.qp_state = IBV_QPS_ERR};
	post_receive(qp);
	demand(!ibv_modify_qp(qp, &error, IBV_QP_STATE), "to error");
	demand(!ibv_req_notify_cq(cq, 1), "req_notify_cq");
	print("solicited_only_with_a_failed_one", fetch_event());
}

void query_qp() {
	ibv_qp* qp = looped();
	ibv_qp_attr a{.qp_state = IBV_QPS_ERR};
	demand(!ibv_modify_qp(qp, &a, IBV_QP_STATE), "to error");
	qp->state = IBV_QPS_RTS;
	ibv_qp_init_attr init;
	demand(!ibv_query_qp(qp, &a, IBV_QP_CAP, &init), "query_qp");
	print("state_after_a_query_of_others", qp->state);
	print("attribute_after_a_query_of_others", a.qp_state);
	demand(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init), "query_qp");
	print("state_after_a_query_of_the_state", qp->state);
}

void alternate_path() {
	ibv_qp* qp = looped();
	ibv_qp_init_attr init;
	ibv_qp_attr a;
	demand(!ibv_query_qp(qp, &a, IBV_QP_AV, &init), "query_qp");
	a.alt_ah_attr = a.ah_attr;
	a.alt_pkey_index = 0;
	a.alt_port_num = 1;
	a.alt_timeout = 9;
	demand(!ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH), "alternate path");
	ibv_qp_attr seen{};
	demand(!ibv_query_qp(qp, &seen, IBV_QP_ALT_PATH, &init), "query_qp");
	print("alt_port_num", seen.alt_port_num);
	print("alt_timeout", seen.alt_timeout);
	a.alt_port_num = 9;
	print("wrong_port", ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH));
	a.alt_port_num = 1;
	a.alt_timeout = 99;
	print("wrong_timeout", ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH));
	a.alt_timeout = 9;
	a.alt_ah_attr.grh.sgid_index = 200;
	print("wrong_gid", ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH));
}

void packet_numbers() {
	ibv_qp* qp = create_qp(pd, {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}});
	connect(qp, qp->qp_num, 0x1000000 + 5);
	ibv_qp_attr a;
	ibv_qp_init_attr init;
	demand(!ibv_query_qp(qp, &a, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init), "query_qp");
	print("received", a.rq_psn);
	print("sent", a.sq_psn);
}

// A message into a receive of two segments of 2 GiB.
void long_receive() {
	constexpr std::uint32_t half = 1u << 31;
	void* place = mmap(nullptr, half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	demand(place != MAP_FAILED, "mmap");
	ibv_mr* whole = ibv_reg_mr(pd, place, half, IBV_ACCESS_LOCAL_WRITE);
	demand(whole, "reg_mr");
	ibv_qp* qp = create_qp(pd, {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 2, 0}});
	connect(qp, qp->qp_num);
	ibv_sge halves[2] = {{reinterpret_cast<std::uint64_t>(place), half, whole->lkey}, {}};
	halves[1] = halves[0];
	ibv_recv_wr wr{.sg_list = halves, .num_sge = 2}, *bad;
	demand(!ibv_post_recv(qp, &wr, &bad), "post_recv");
	post_send(qp, IBV_SEND_SIGNALED);
	ibv_wc wc;
	for (int n = 0; n < 2;) {
		const int taken = ibv_poll_cq(cq, 1, &wc);
		if (taken) print(wc.opcode & IBV_WC_RECV ? "receive" : "send", wc.status);
		n += taken;
	}
}

// A handler of atexit(3) runs after the destructors of the main thread's own objects.
void at_exit() {
	std::atexit([] {
		int count = 0;
		ibv_device** devices = ibv_get_device_list(&count);
		demand(devices, "get_device_list");
		print("devices", count);
		print("name_is_right", std::string("vb_lo") == ibv_get_device_name(devices[0]));
		std::cout.flush();
	});
	std::exit(0);
}

void buffers() {
	ibv_buf* handle = nullptr;
	char* memory = static_cast<char*>(ibv_alloc_buf(pd, 8192, &handle));
	print("allocated", memory && handle);
	print("page_aligned", reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
	ibv_mr* all = ibv_reg_buf_mr(pd, handle, memory, 8192, IBV_ACCESS_LOCAL_WRITE);
	print("registered", all && all->addr == memory && all->length == 8192 && all->pd == pd);
	ibv_mr* part = ibv_reg_buf_mr(pd, handle, memory + 4096, 4096, IBV_ACCESS_LOCAL_WRITE);
	print("part_registered", part != nullptr);
	print("beyond_its_end", ibv_reg_buf_mr(pd, handle, memory + 4096, 4097, 0) ? 0 : errno);
	print("before_its_start", ibv_reg_buf_mr(pd, handle, memory - 1, 1, 0) ? 0 : errno);
	ibv_pd* other = ibv_alloc_pd(context);
	print("of_another_domain", ibv_reg_buf_mr(other, handle, memory, 8192, 0) ? 0 : errno);
	print("exported", ibv_export_buf_dmabuf_fd(handle) >= 0 ? 0 : errno);
	demand(!ibv_dereg_mr(all) && !ibv_dereg_mr(part), "dereg_mr");
	ibv_free_buf(handle);

	struct {
		std::size_t length;
		int access;
		std::uint64_t comp_mask, iova;
		void* address;
		int fd;
		std::uint64_t fd_offset;
		void *dma_handle, *buffer;
	} attributes{.length = 64, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = 2, .address = buffer};
	ibv_mr* plain = ibv_reg_mr_ex(pd, &attributes);
	print("reg_mr_ex", plain && plain->addr == buffer && plain->length == 64 && !ibv_dereg_mr(plain));
	attributes.comp_mask = 4 | 8;
	print("reg_mr_ex_of_a_dmabuf", ibv_reg_mr_ex(pd, &attributes) ? 0 : errno);
	attributes.comp_mask = 0;
	print("reg_mr_ex_of_nothing", ibv_reg_mr_ex(pd, &attributes) ? 0 : errno);
}

void device() {
	ibv_device_attr a;
	demand(!ibv_query_device(context, &a), "query_device");
	print("atomics_with_the_cpu", a.atomic_cap == IBV_ATOMIC_GLOB);
	print("two_vectors", context->num_comp_vectors >= 2 && context->num_comp_vectors <= 16);
	for (int vector = 0; vector < context->num_comp_vectors; ++vector) {
		ibv_cq* own = ibv_create_cq(context, 1, nullptr, channel, vector);
		demand(own && !ibv_destroy_cq(own), "a completion queue of this vector");
	}
	print("vector_too_high", ibv_create_cq(context, 1, nullptr, nullptr, context->num_comp_vectors) ? 0 : errno);
}

void parent_domains() {
	ibv_parent_domain_init_attr init{.pd = pd, .comp_mask = 1 << 30};
	print("unknown_mask", ibv_alloc_parent_domain(context, &init) ? 0 : errno);
	init.comp_mask = 1 << 2;  // memory that a confidential guest shares, of rdma-core 65
	ibv_pd* parent = ibv_alloc_parent_domain(context, &init);
	print("unprotected_memory", parent && !ibv_dealloc_pd(parent));
	init.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	init.alloc = [](ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t) -> void* { std::abort(); };
	init.free = [](ibv_pd*, void*, void*, std::uint64_t) { std::abort(); };
	parent = ibv_alloc_parent_domain(context, &init);
	demand(parent, "alloc_parent_domain");
	ibv_qp* qp = create_qp(parent, {.send_cq = cq, .recv_cq = cq, .cap = {16, 16, 1, 1, 0}});
	print("allocators_are_not_called", !ibv_destroy_qp(qp) && !ibv_dealloc_pd(parent));
	init = {.pd = nullptr};
	print("no_domain", ibv_alloc_parent_domain(context, &init) ? 0 : errno);
}

void shared_receives() {
	ibv_srq_init_attr_ex init{
		.attr = {.max_wr = 16, .max_sge = 1}, .comp_mask = IBV_SRQ_INIT_ATTR_PD | 1 << 20, .pd = pd};
	print("unknown_mask", ibv_create_srq_ex(context, &init) ? 0 : errno);
	init.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
	init.srq_type = IBV_SRQT_BASIC;
	ibv_srq* srq = ibv_create_srq_ex(context, &init);
	demand(srq, "create_srq_ex");
	ibv_srq_attr limit{.srq_limit = 7};
	demand(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "modify_srq");
	ibv_srq_attr read;
	demand(!ibv_query_srq(srq, &read), "query_srq");
	print("limit_is_off_after_it_was_reached", read.srq_limit == 0);
}

void windows() {
	ibv_qp* qp = looped();
	ibv_mr* region = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	demand(region && mw, "set-up");
	const auto bind = [&](std::size_t length) {
		ibv_send_wr wr{.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
		wr.bind_mw = {.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {region, reinterpret_cast<std::uint64_t>(buffer), length, IBV_ACCESS_REMOTE_WRITE}};
		demand(!ibv_post_send(qp, &wr, &bad), "post_send");
		ibv_wc wc;
		while (ibv_poll_cq(cq, 1, &wc) == 0) {}
		return wc.status;
	};
	print("bind", bind(4096));
	print("bind_of_no_bytes", bind(0));
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 2) return 2;
	context = open_loopback();
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 64, nullptr, channel, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	demand(pd && channel && cq && mr, "set-up");
	const std::string question = argv[1];
	if (question == "arming") arming();
	else if (question == "query_qp") query_qp();
	else if (question == "alternate_path") alternate_path();
	else if (question == "packet_numbers") packet_numbers();
	else if (question == "long_receive") long_receive();
	else if (question == "at_exit") at_exit();
	else if (question == "buffers") buffers();
	else if (question == "device") device();
	else if (question == "parent_domains") parent_domains();
	else if (question == "shared_receives") shared_receives();
	else if (question == "windows") windows();
	else return 2;
	std::cout.flush();
	_exit(0);
}
