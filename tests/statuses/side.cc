// SPDX-License-Identifier: Apache-2.0
#include "side.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{5};

constexpr std::pair<ibv_wc_status, const char*> statuses[] = {
	{IBV_WC_SUCCESS, "SUCCESS"},
	{IBV_WC_LOC_LEN_ERR, "LOC_LEN_ERR"},
	{IBV_WC_LOC_QP_OP_ERR, "LOC_QP_OP_ERR"},
	{IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR"},
	{IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR"},
	{IBV_WC_MW_BIND_ERR, "MW_BIND_ERR"},
	{IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR"},
	{IBV_WC_LOC_ACCESS_ERR, "LOC_ACCESS_ERR"},
	{IBV_WC_REM_INV_REQ_ERR, "REM_INV_REQ_ERR"},
	{IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR"},
	{IBV_WC_REM_OP_ERR, "REM_OP_ERR"},
	{IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR"},
	{IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR"},
};

constexpr std::pair<ibv_event_type, const char*> events[] = {
	{IBV_EVENT_CQ_ERR, "CQ_ERR"},
	{IBV_EVENT_QP_FATAL, "QP_FATAL"},
	{IBV_EVENT_QP_REQ_ERR, "QP_REQ_ERR"},
	{IBV_EVENT_QP_ACCESS_ERR, "QP_ACCESS_ERR"},
	{IBV_EVENT_COMM_EST, "COMM_EST"},
	{IBV_EVENT_SQ_DRAINED, "SQ_DRAINED"},
	{IBV_EVENT_SRQ_LIMIT_REACHED, "SRQ_LIMIT_REACHED"},
	{IBV_EVENT_QP_LAST_WQE_REACHED, "QP_LAST_WQE_REACHED"},
};

constexpr const char* states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

template <class Table, class Key> std::string name_of(const Table& table, Key key) {
	const auto* at =
		std::find_if(std::begin(table), std::end(table), [key](const auto& row) { return row.first == key; });
	return at == std::end(table) ? std::to_string(key) : at->second;
}

template <class T> T* made(T* object, const char* what) {
	if (object) return object;
	throw Failure(std::string(what) + ": " + std::strerror(errno));
}

void done(int result, const char* what) {
	if (result) throw Failure(std::string(what) + ": " + std::strerror(result > 0 ? result : errno));
}

std::string join(const std::vector<std::string>& words) {
	std::string line;
	for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
	return line;
}

std::size_t word_count(const std::string& line) {
	return line.empty() ? 0 : 1 + static_cast<std::size_t>(std::count(line.begin(), line.end(), ' '));
}

}  // namespace

Side::Side(Role role, int socket, const char* device_name) : role_(role), socket_(socket) {
	ibv_device** list = made(ibv_get_device_list(nullptr), "ibv_get_device_list");
	for (ibv_device** device = list; *device && !context; ++device)
		if (std::strcmp(ibv_get_device_name(*device), device_name) == 0)
			context = made(ibv_open_device(*device), "ibv_open_device");
	ibv_free_device_list(list);
	if (!context) throw Failure(std::string("there is no device ") + device_name);
	done(fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK) < 0, "O_NONBLOCK");

	ibv_port_attr port;
	done(ibv_query_port(context, 1, &port), "ibv_query_port");
	mtu_ = std::min(port.active_mtu, IBV_MTU_1024);
	// Prefer an IPv4 address, because a link-local IPv6 address would need the interface's name.
	done(ibv_query_gid(context, 1, 0, &gid_), "ibv_query_gid");
	for (int index = 0; index < port.gid_tbl_len; ++index) {
		static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
		ibv_gid gid;
		if (ibv_query_gid(context, 1, index, &gid) || std::memcmp(gid.raw, mapped, sizeof mapped) != 0) continue;
		gid_ = gid;
		gid_index_ = static_cast<std::uint8_t>(index);
		break;
	}
}

Side::~Side() {
	if (context) ibv_close_device(context);
}

void Side::begin(const Setup& wanted) {
	setup = wanted;
	completions_.clear();
	events_.clear();
	pd = made(ibv_alloc_pd(context), "ibv_alloc_pd");
	if (role_ == target && setup.armed_for_solicited) {
		channel = made(ibv_create_comp_channel(context), "ibv_create_comp_channel");
		done(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) < 0, "O_NONBLOCK");
	}
	cq = made(ibv_create_cq(context, role_ == source ? setup.cq_entries : 64, nullptr, channel, 0), "ibv_create_cq");
	if (channel) done(ibv_req_notify_cq(cq, 1), "ibv_req_notify_cq");
	if (role_ == target && setup.shared_receive_queue) {
		ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
		srq = made(ibv_create_srq(pd, &init), "ibv_create_srq");
	}
	ibv_qp_init_attr init{};
	init.send_cq = init.recv_cq = cq;
	init.srq = srq;
	init.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 0};
	init.qp_type = setup.type;
	init.sq_sig_all = 1;
	qp = made(ibv_create_qp(pd, &init), "ibv_create_qp");
	mr = region(region_bytes, everything | IBV_ACCESS_MW_BIND);

	const Remote own{qp->qp_num, 0x123456, mr->rkey, reinterpret_cast<std::uint64_t>(mr->addr), gid_,
		static_cast<std::uint32_t>(mtu_)};
	send_bytes(&own, sizeof own);
	receive_bytes(&remote, sizeof remote);
	if (setup.type == IBV_QPT_UD) {
		ibv_ah_attr attributes{};
		attributes.is_global = 1;
		attributes.port_num = 1;
		attributes.grh.dgid = remote.gid;
		attributes.grh.sgid_index = gid_index_;
		attributes.grh.hop_limit = 64;
		ah_ = made(ibv_create_ah(pd, &attributes), "ibv_create_ah");
	}
	make_ready(qp, role_ == target ? setup.target_state : IBV_QPS_RTS, remote.qpn);
	meet();
}

void Side::make_ready(ibv_qp* of, ibv_qp_state until, std::uint32_t peer_qpn) {
	const bool datagrams = setup.type == IBV_QPT_UD, reliable = setup.type == IBV_QPT_RC;
	ibv_qp_attr a{};
	if (until == IBV_QPS_RESET) return;
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 1;
	a.qkey = q_key;
	a.qp_access_flags = static_cast<unsigned>(role_ == target ? setup.target_access : everything);
	done(ibv_modify_qp(
			 of, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
		"INIT");
	if (until == IBV_QPS_INIT) return;
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = std::min(mtu_, static_cast<ibv_mtu>(remote.mtu));
	a.dest_qp_num = peer_qpn;
	a.rq_psn = remote.psn;
	a.max_dest_rd_atomic = role_ == target ? setup.target_reads : 4;
	a.min_rnr_timer = 1;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.dgid = remote.gid;
	a.ah_attr.grh.sgid_index = gid_index_;
	a.ah_attr.grh.hop_limit = 64;
	const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
			  rc = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	done(ibv_modify_qp(of, &a, IBV_QP_STATE | (datagrams ? 0 : connected) | (reliable ? rc : 0)), "RTR");
	if (until == IBV_QPS_RTR) return;
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = 0x123456;
	a.timeout = 14;  // 67 ms
	a.retry_cnt = 2;
	a.rnr_retry = setup.rnr_retry;
	a.max_rd_atomic = role_ == source ? setup.source_reads : 4;
	done(ibv_modify_qp(of, &a,
			 IBV_QP_STATE | IBV_QP_SQ_PSN |
				 (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)),
		"RTS");
	if (until == IBV_QPS_RTS) return;
	a.qp_state = until;
	done(ibv_modify_qp(of, &a, IBV_QP_STATE), "beyond RTS");
}

void Side::poll() {
	ibv_wc wc;
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		std::string word = std::to_string(wc.wr_id) + ":" + name_of(statuses, wc.status);
		if (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV)) word += "(" + std::to_string(wc.byte_len) + ")";
		completions_.push_back(word);
	}
}

void Side::collect_events() {
	ibv_async_event event;
	while (ibv_get_async_event(context, &event) == 0) {
		// Whether a QP on its way to RTS is still in RTR when the first packet comes is a matter of
		// timing.
		const bool by_chance = event.event_type == IBV_EVENT_COMM_EST && setup.target_state != IBV_QPS_RTR;
		if (!by_chance) events_.push_back(name_of(events, event.event_type));
		ibv_ack_async_event(&event);
	}
	ibv_cq* of;
	for (void* context_of; channel && ibv_get_cq_event(channel, &of, &context_of) == 0;) {
		events_.emplace_back("COMPLETION");
		ibv_ack_cq_events(of, 1);
	}
}

void Side::await(std::size_t count) {
	const auto deadline = Clock::now() + patience;
	for (poll(); completions_.size() < count && Clock::now() < deadline; poll()) {}
}

Seen Side::observe(const Seen& expected) {
	await(word_count(expected.completions));
	const auto deadline = Clock::now() + patience;
	for (collect_events(); events_.size() < word_count(expected.events) && Clock::now() < deadline; collect_events())
		poll();
	meet();
	poll();
	collect_events();
	ibv_qp_attr attributes;
	ibv_qp_init_attr init;
	if (!qp) return {join(completions_), "none", join(events_)};
	done(ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init), "ibv_query_qp");
	return {join(completions_), states[attributes.qp_state], join(events_)};
}

void Side::end() {
	meet();  // no object is destroyed while the peer may still use it
	for (ibv_qp* other : others_) done(ibv_destroy_qp(other), "ibv_destroy_qp");
	if (qp) done(ibv_destroy_qp(qp), "ibv_destroy_qp");
	if (srq) done(ibv_destroy_srq(srq), "ibv_destroy_srq");
	if (ah_) done(ibv_destroy_ah(ah_), "ibv_destroy_ah");
	for (ibv_mw* mw : windows_) done(ibv_dealloc_mw(mw), "ibv_dealloc_mw");
	for (ibv_mr* each : regions_) done(ibv_dereg_mr(each), "ibv_dereg_mr");
	if (cq) done(ibv_destroy_cq(cq), "ibv_destroy_cq");
	if (channel) done(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	for (ibv_pd* each : domains_) done(ibv_dealloc_pd(each), "ibv_dealloc_pd");
	if (pd) done(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	for (void* each : memory_) std::free(each);
	qp = nullptr, srq = nullptr, ah_ = nullptr, cq = nullptr, channel = nullptr, pd = nullptr, mr = nullptr;
	others_.clear(), windows_.clear(), regions_.clear(), domains_.clear(), memory_.clear();
}

void Side::send_bytes(const void* data, std::size_t size) {
	if (::send(socket_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
		throw Failure("the other side has ended");
}

// Polls while it waits, because some devices make no progress for a process that does not.
void Side::receive_bytes(void* data, std::size_t size) {
	const auto deadline = Clock::now() + 3 * patience;
	for (pollfd readable{socket_, POLLIN, 0}; ::poll(&readable, 1, 1) == 0;) {
		if (Clock::now() > deadline) throw Failure("the other side did not answer in time");
		if (cq) poll();
	}
	if (recv(socket_, data, size, MSG_WAITALL) != static_cast<ssize_t>(size)) throw Failure("the other side has ended");
}

void Side::meet() {
	if (alone_) return;
	const std::uint32_t here = 0x6d656574;
	std::uint32_t there = 0;
	send_bytes(&here, sizeof here);
	receive_bytes(&there, sizeof there);
	demand(here == there, "both sides are at the same step");
}

void Side::await_peer_exit() {
	char byte;
	demand(recv(socket_, &byte, 1, 0) == 0, "the other side has ended");
	alone_ = true;
}

void Side::stop_peer() const {
	int status;
	demand(peer > 0, "the other side is known");
	demand(kill(peer, SIGSTOP) == 0 && waitpid(peer, &status, WUNTRACED) == peer && WIFSTOPPED(status),
		"the other side was stopped");
}

void Side::continue_peer() const { demand(kill(peer, SIGCONT) == 0, "the other side was continued"); }

ibv_sge Side::part_of(const ibv_mr& of, std::uint32_t length, std::size_t offset) {
	return {reinterpret_cast<std::uint64_t>(of.addr) + offset, length, of.lkey};
}
ibv_sge Side::local(std::uint32_t length, std::size_t offset) const { return part_of(*mr, length, offset); }

void Side::receive(std::uint64_t wr_id, ibv_sge sge) {
	ibv_recv_wr wr{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1}, *bad;
	done(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

ibv_send_wr Side::request(std::uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge* sge) const {
	ibv_send_wr wr{};
	wr.wr_id = wr_id;
	wr.opcode = opcode;
	wr.sg_list = sge;
	wr.num_sge = sge ? 1 : 0;
	return wr;
}

void Side::post(ibv_send_wr* chain) {
	ibv_send_wr* bad;
	if (ibv_post_send(qp, chain, &bad)) completions_.push_back(std::to_string(bad->wr_id) + ":not-taken");
}

void Side::send(std::uint64_t wr_id, ibv_sge sge, unsigned flags) {
	ibv_send_wr wr = request(wr_id, IBV_WR_SEND, &sge);
	wr.send_flags = flags;
	post(&wr);
}

void Side::send_invalidating(std::uint64_t wr_id, std::uint32_t rkey) {
	ibv_sge sge = local(8);
	ibv_send_wr wr = request(wr_id, IBV_WR_SEND_WITH_INV, &sge);
	wr.invalidate_rkey = rkey;
	post(&wr);
}

void Side::datagram(std::uint64_t wr_id, ibv_sge sge, std::uint32_t remote_q_key) {
	ibv_send_wr wr = request(wr_id, IBV_WR_SEND, &sge);
	wr.wr.ud = {.ah = ah_, .remote_qpn = remote.qpn, .remote_qkey = remote_q_key};
	post(&wr);
}

void Side::write(std::uint64_t wr_id, ibv_sge sge, std::uint64_t address, std::uint32_t rkey) {
	ibv_send_wr wr = request(wr_id, IBV_WR_RDMA_WRITE, &sge);
	wr.wr.rdma = {.remote_addr = address, .rkey = rkey};
	post(&wr);
}

void Side::write_immediate(std::uint64_t wr_id, ibv_sge sge, std::uint64_t address, std::uint32_t rkey) {
	ibv_send_wr wr = request(wr_id, IBV_WR_RDMA_WRITE_WITH_IMM, &sge);
	wr.wr.rdma = {.remote_addr = address, .rkey = rkey};
	post(&wr);
}

void Side::read(std::uint64_t wr_id, ibv_sge sge, std::uint64_t address, std::uint32_t rkey) {
	ibv_send_wr wr = request(wr_id, IBV_WR_RDMA_READ, &sge);
	wr.wr.rdma = {.remote_addr = address, .rkey = rkey};
	post(&wr);
}

void Side::fetch_add(std::uint64_t wr_id, ibv_sge sge, std::uint64_t address, std::uint32_t rkey) {
	ibv_send_wr wr = request(wr_id, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
	wr.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 0, .rkey = rkey};
	post(&wr);
}

void Side::bind(std::uint64_t wr_id, ibv_qp* through, ibv_mw* mw, std::uint32_t rkey, const ibv_mr& to,
	std::uint64_t offset, unsigned access) {
	ibv_send_wr wr = request(wr_id, IBV_WR_BIND_MW, nullptr), *bad;
	const std::uint64_t address = reinterpret_cast<std::uint64_t>(to.addr) + offset;
	wr.bind_mw = {.mw = mw,
		.rkey = rkey,
		.bind_info = {.mr = const_cast<ibv_mr*>(&to), .addr = address, .length = 64, .mw_access_flags = access}};
	if (ibv_post_send(through, &wr, &bad)) completions_.push_back(std::to_string(wr_id) + ":not-taken");
}

void Side::invalidate(std::uint64_t wr_id, std::uint32_t rkey) {
	ibv_send_wr wr = request(wr_id, IBV_WR_LOCAL_INV, nullptr);
	wr.invalidate_rkey = rkey;
	post(&wr);
}

ibv_mr* Side::region(std::size_t size, int access, ibv_pd* of) {
	void* memory = nullptr;
	demand(posix_memalign(&memory, 4096, size) == 0, "memory");  // the NIC's heap may serve it
	memory_.push_back(memory);
	return register_memory(memory, size, access, of);
}

ibv_mr* Side::register_memory(void* memory, std::size_t size, int access, ibv_pd* of) {
	// In parentheses, because the macro of verbs.h would choose another function by the access
	// flags.
	regions_.push_back(made((ibv_reg_mr)(of ? of : pd, memory, size, access), "ibv_reg_mr"));
	return regions_.back();
}

ibv_mr* Side::unmapped_region(int access) {
	void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	demand(memory != MAP_FAILED, "memory");
	ibv_mr* gone = register_memory(memory, 4096, access, nullptr);
	munmap(memory, 4096);
	return gone;
}

ibv_mw* Side::window() {
	windows_.push_back(made(ibv_alloc_mw(pd, IBV_MW_TYPE_2), "ibv_alloc_mw"));
	return windows_.back();
}

ibv_pd* Side::domain() {
	domains_.push_back(made(ibv_alloc_pd(context), "ibv_alloc_pd"));
	return domains_.back();
}

ibv_qp* Side::another_qp() {
	ibv_qp_init_attr init{};
	init.send_cq = init.recv_cq = cq;
	init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	init.qp_type = setup.type;
	init.sq_sig_all = 1;
	others_.push_back(made(ibv_create_qp(pd, &init), "ibv_create_qp"));
	make_ready(others_.back(), IBV_QPS_RTS, remote.qpn);
	return others_.back();
}

void Side::destroy_qp() {
	done(ibv_destroy_qp(qp), "ibv_destroy_qp");
	qp = nullptr;
}

void Side::modify(ibv_qp_state state, bool notify_drained) {
	ibv_qp_attr a{};
	a.qp_state = state;
	a.en_sqd_async_notify = notify_drained;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | (notify_drained ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)))
		completions_.push_back(std::string(states[state]) + ":not-taken");
}

void Side::demand(bool fact, const char* what) const {
	if (!fact) throw Failure(std::string("this should hold, but does not: ") + what);
}
