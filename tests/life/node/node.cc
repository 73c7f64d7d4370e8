// SPDX-License-Identifier: Apache-2.0
// A process on the NIC that a test controls. It reads commands from its standard input, one on each
// line, and answers each on one line: `ok ...`, `error ERRNO` with the name of an errno value, or
// `error no such object`. It uses the NIC through the public verbs only.
//
// The list has each command with its arguments, its effect, and the answer if it succeeds.
//
// Devices and queue pairs:
//   open DEVICE                     open a context, which becomes the current one
//                                   ok
//   close                           destroy the current context and all objects in it; the context
//                                   opened before it becomes the current one
//                                   ok
//   devices                         list the devices
//                                   ok NAME ...
//   port                            report the port of the current context: its state (ACTIVE or
//                                   DOWN), physical state (LINK_UP, POLLING or DISABLED) and MTU
//                                   ok STATE PHYSICAL-STATE BYTES
//   gids                            list the GID table of the current context
//                                   ok INDEX=GID ...
//   counter NAME                    read ports/1/counters/NAME of the current context
//                                   ok VALUE
//   event MS                        sleep until an asynchronous event of the current context comes,
//                                   or MS milliseconds have passed (ETIMEDOUT); its name is without
//                                   IBV_EVENT_
//                                   ok EVENT
//   qp TYPE SENDS RECEIVES          create a QP in the current context: rc or uc in INIT, or ud in
//                                   RTS; SENDS and RECEIVES are the sizes of its queues
//                                   ok INDEX QPN
//   qps COUNT SENDS RECEIVES FILE   create COUNT RC QPs and write their numbers to FILE, each on a
//                                   line of its own
//                                   ok FIRST-INDEX NANOSECONDS
//   connect INDEX QPN [SGID-INDEX GID]
//                                   connect a QP to the QP with number QPN up to RTS: from the GID
//                                   with this index to the port with this GID; without them, from
//                                   GID 0 to this host
//                                   ok
//   connect_all FIRST FILE          connect the QPs from index FIRST on to the QPs whose numbers
//                                   are in FILE
//                                   ok NANOSECONDS
//   modify INDEX STATE              modify only the state: reset, init, rtr, rts, sqd, sqe, err
//                                   ok
//   state INDEX                     report the state
//                                   ok STATE
//   destroy INDEX                   destroy a QP
//                                   ok
// Work:
//   receive INDEX COUNT             post COUNT receives of 64 bytes
//                                   ok
//   send INDEX COUNT BYTES [QPN]    post COUNT SENDs of BYTES bytes; QPN is the destination of a
//                                   datagram. A SEND of 8 to 64 bytes carries a stamp, which the
//                                   receiver checks unless it is a datagram
//                                   ok
//   write|read|add INDEX COUNT BYTES ADDRESS RKEY
//                                   post COUNT WRITEs, READs or fetch-and-adds
//                                   ok
//   latency OP INDEX COUNT BYTES ADDRESS RKEY
//                                   post and poll COUNT operations, one at a time; OP is send,
//                                   write, read or add
//                                   ok MEDIAN-NANOSECONDS
//   poll COUNT MS                   poll until there are COUNT completions or MS milliseconds have
//                                   passed
//                                   ok MICROSECONDS STATUS=COUNT ...
//   wait COUNT MS                   like poll, but sleep on the completion channel
//                                   ok MICROSECONDS STATUS=COUNT ...
//   exit COUNT MS                   poll, then exit at once; the objects are not destroyed
//                                   no answer
// Memory:
//   region BYTES                    map and register memory
//                                   ok INDEX ADDRESS RKEY
//   unmap REGION, remap REGION      unmap the memory, or map new memory at its address; the
//                                   registration stays
//                                   ok
//   load REGION OFFSET              load the eight bytes at OFFSET, without verbs
//                                   ok VALUE
//   await REGION OFFSET VALUE MS    load them until they have this value or MS milliseconds have
//                                   passed (ETIMEDOUT)
//                                   ok
// Signals:
//   handle FUNCTION                 call this function of libc so that it takes SIGSEGV and SIGBUS
//                                   away from the NIC: it sets a handler, which ends the process
//                                   with status 42, or ignores or blocks them
//                                   ok
// Processes:
//   fork FD                         fork; the child reads its commands from the socket FD and
//                                   writes its answers to it, the answer to this command first
//                                   ok PID (0 in the child)
//
// poll and wait count completions by status, in the order in which each status first appeared. A
// status is the name of an ibv_wc_status without IBV_WC_. A successful receive counts as RECEIVED,
// or as WRONG_STAMP if its stamp is not the next one.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint32_t q_key = 0x11111111, message_bytes = 64, grh_bytes = 40;
constexpr std::size_t scratch_bytes = 17 << 20,
					  scratch_sent = 1 << 20;  // for requests other than receives

// Thrown by a command that failed; `error` is an errno.
struct Failure {
	int error;
};

// Throws Failure if the verb failed. Some verbs return an errno, others set errno.
void demand(int result) {
	if (result) throw Failure{result > 0 ? result : errno};
}
template <class T> T* demand(T* object) {
	if (!object) throw Failure{errno};
	return object;
}

struct Region {
	void* address;
	std::size_t bytes;
	ibv_mr* mr;
};

struct Context {
	ibv_context* context;
	ibv_pd* pd;
	ibv_comp_channel* channel;
	ibv_cq* cq;
	ibv_gid gid;
	ibv_mtu mtu;
	ibv_ah* ah;  // to this host itself
	Region scratch;  // the local memory of all work requests
};

struct Pair {
	Context* at;
	ibv_qp* qp;  // null after `destroy`
	std::uint64_t sent = 0, received = 0;  // the last stamps
	std::uint64_t receives_posted = 0;
};

// A command names a QP by its index in `pairs`, and a region by its index in `regions`. The process
// has one thread of its own.
std::vector<std::unique_ptr<Context>> contexts;
std::vector<Pair> pairs;
std::map<std::uint32_t, std::size_t> index_of;  // a QP's index in `pairs`, by its number
std::vector<Region> regions;
Context& current() { return *contexts.back(); }

Region map_region(ibv_pd* pd, std::size_t bytes) {
	void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return {at, bytes, demand(ibv_reg_mr(pd, at, bytes, access))};
}

void open(const std::string& name) {
	ibv_device** list = demand(ibv_get_device_list(nullptr));
	ibv_device* found = nullptr;
	for (ibv_device** at = list; *at; ++at)
		if (name == ibv_get_device_name(*at)) found = *at;
	if (!found) throw Failure{ENODEV};
	auto c = std::make_unique<Context>();
	c->context = demand(ibv_open_device(found));
	ibv_free_device_list(list);
	c->pd = demand(ibv_alloc_pd(c->context));
	c->channel = demand(ibv_create_comp_channel(c->context));
	c->cq = demand(ibv_create_cq(c->context, 4096, nullptr, c->channel, 0));
	demand(ibv_query_gid(c->context, 1, 0, &c->gid));
	ibv_port_attr port;
	demand(ibv_query_port(c->context, 1, &port));
	c->mtu = port.active_mtu;
	c->scratch = map_region(c->pd, scratch_bytes);
	ibv_ah_attr to{.grh = {.dgid = c->gid, .hop_limit = 1}, .is_global = 1, .port_num = 1};
	c->ah = demand(ibv_create_ah(c->pd, &to));
	contexts.push_back(std::move(c));
}

std::size_t create_qp(ibv_qp_type type, unsigned sends, unsigned receives) {
	Context& c = current();
	ibv_qp_init_attr init{.send_cq = c.cq,
		.recv_cq = c.cq,
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type};
	if (sends > 1) init.cap.max_inline_data = message_bytes;
	ibv_qp* qp = demand(ibv_create_qp(c.pd, &init));
	ibv_qp_attr a{.qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = 1};
	a.qkey = q_key;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	demand(ibv_modify_qp(qp, &a, mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	if (type == IBV_QPT_UD) {
		a.qp_state = IBV_QPS_RTR;
		demand(ibv_modify_qp(qp, &a, IBV_QP_STATE));
		a.qp_state = IBV_QPS_RTS;
		demand(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	index_of[qp->qp_num] = pairs.size();
	pairs.push_back({&c, qp});
	return pairs.size() - 1;
}

std::string text_of(const ibv_gid& gid) {
	char text[INET6_ADDRSTRLEN];
	return inet_ntop(AF_INET6, gid.raw, text, sizeof text);
}

void list_devices(std::ostream& out) {
	ibv_device** list = demand(ibv_get_device_list(nullptr));
	for (ibv_device** at = list; *at; ++at) out << ' ' << ibv_get_device_name(*at);
	ibv_free_device_list(list);
}

void report_port(std::ostream& out) {
	ibv_port_attr port;
	demand(ibv_query_port(current().context, 1, &port));
	out << (port.state == IBV_PORT_ACTIVE        ? " ACTIVE"
				   : port.state == IBV_PORT_DOWN ? " DOWN"
												 : " OTHER")
		<< (port.phys_state == 5          ? " LINK_UP"
				   : port.phys_state == 2 ? " POLLING"
				   : port.phys_state == 3 ? " DISABLED"
										  : " OTHER")
		<< ' ' << (128 << port.active_mtu);
}

void list_gids(std::ostream& out) {
	ibv_gid_entry entries[256];
	const ssize_t count = ibv_query_gid_table(current().context, entries, std::size(entries), 0);
	if (count < 0) throw Failure{static_cast<int>(-count)};
	for (ssize_t i = 0; i < count; ++i) out << ' ' << entries[i].gid_index << '=' << text_of(entries[i].gid);
}

std::string counter(const std::string& name) {
	std::ifstream file(current().context->device->ibdev_path + ("/ports/1/counters/" + name));
	std::string value;
	if (!(file >> value)) throw Failure{ENOENT};
	return value;
}

std::string await_event(int milliseconds) {
	ibv_context* context = current().context;
	pollfd readable{context->async_fd, POLLIN, 0};
	if (::poll(&readable, 1, milliseconds) != 1) throw Failure{ETIMEDOUT};
	ibv_async_event event;
	demand(ibv_get_async_event(context, &event));
	ibv_ack_async_event(&event);
	switch (event.event_type) {
		case IBV_EVENT_PORT_ACTIVE: return "PORT_ACTIVE";
		case IBV_EVENT_PORT_ERR: return "PORT_ERR";
		case IBV_EVENT_GID_CHANGE: return "GID_CHANGE";
		case IBV_EVENT_DEVICE_FATAL: return "DEVICE_FATAL";
		default: return ibv_event_type_str(event.event_type);
	}
}

void connect(Pair& p, std::uint32_t destination, std::uint8_t gid_index, const ibv_gid& gid) {
	ibv_qp_attr a{.qp_state = IBV_QPS_RTR, .path_mtu = p.at->mtu, .dest_qp_num = destination};
	a.ah_attr = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 1}, .is_global = 1, .port_num = 1};
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 1;
	const bool rc = p.qp->qp_type == IBV_QPT_RC;
	const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	demand(ibv_modify_qp(p.qp, &a, path | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	const int limits = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	demand(ibv_modify_qp(p.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? limits : 0)));
}

// The buffer of the receive `number` of a QP, 128 bytes. 120 QPs have 1024 buffers each; further
// receives and QPs use the same buffers again. Only the stamp in a buffer is read.
std::byte* receive_slot(Pair& p, std::uint64_t number) {
	const auto index = static_cast<std::uint64_t>(&p - pairs.data());
	return static_cast<std::byte*>(p.at->scratch.address) + scratch_sent + (index % 120 * 1024 + number % 1024) * 128;
}

void receive(Pair& p, int count) {
	for (; count > 0; --count) {
		const bool ud = p.qp->qp_type == IBV_QPT_UD;
		ibv_sge sge{reinterpret_cast<std::uint64_t>(receive_slot(p, p.receives_posted)),
			ud ? message_bytes + grh_bytes : message_bytes, p.at->scratch.mr->lkey};
		ibv_recv_wr wr{.wr_id = p.receives_posted, .sg_list = &sge, .num_sge = 1}, *bad;
		demand(ibv_post_recv(p.qp, &wr, &bad));
		++p.receives_posted;
	}
}

void post(
	Pair& p, ibv_wr_opcode opcode, std::uint32_t bytes, std::uint64_t address, std::uint32_t rkey, std::uint32_t qpn) {
	std::uint64_t stamp[message_bytes / 8] = {p.sent + 1};
	const bool inlined = opcode == IBV_WR_SEND && bytes <= message_bytes;
	ibv_sge sge{
		inlined ? reinterpret_cast<std::uint64_t>(stamp) : reinterpret_cast<std::uint64_t>(p.at->scratch.address),
		bytes, p.at->scratch.mr->lkey};
	ibv_send_wr wr{.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
	wr.send_flags = inlined ? IBV_SEND_SIGNALED | IBV_SEND_INLINE : IBV_SEND_SIGNALED;
	if (p.qp->qp_type == IBV_QPT_UD) wr.wr.ud = {p.at->ah, qpn, q_key};
	else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) wr.wr.atomic = {address, 1, 0, rkey};
	else wr.wr.rdma = {address, rkey};
	demand(ibv_post_send(p.qp, &wr, &bad));
	p.sent += opcode == IBV_WR_SEND;
}

// By ibv_wc_status.
const char* const statuses[] = {"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR",
	"WR_FLUSH_ERR", "MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
	"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"};

// The status under which a completion is counted. Checks the stamp of a receive.
std::string name_of(const ibv_wc& wc) {
	std::string name = statuses[wc.status];
	if (wc.status != IBV_WC_SUCCESS || !(wc.opcode & IBV_WC_RECV)) return name;
	Pair& p = pairs[index_of.at(wc.qp_num)];
	const bool ud = p.qp->qp_type == IBV_QPT_UD;
	std::uint64_t stamp;
	std::memcpy(&stamp, receive_slot(p, wc.wr_id) + (ud ? grh_bytes : 0), sizeof stamp);
	const bool expected = ud || stamp == p.received + 1;
	p.received = stamp;
	return expected ? "RECEIVED" : "WRONG_STAMP";
}

// Counts completions by name, in the order in which each name was first seen.
struct WordCounter {
	std::vector<std::pair<std::string, int>> counts;
	void add(const std::string& name) {
		const auto at = std::ranges::find(counts, name, &std::pair<std::string, int>::first);
		if (at != counts.end()) ++at->second;
		else counts.emplace_back(name, 1);
	}
};

// Executes poll, or wait if `asleep`, and writes the answer's words to `out`.
void collect(std::ostream& out, int count, int milliseconds, bool asleep) {
	Context& c = current();
	const auto start = Clock::now(), end = start + std::chrono::milliseconds(milliseconds);
	WordCounter tally;
	bool armed = false;
	while (count > 0 && Clock::now() < end) {
		ibv_wc wc[16];
		const int n = ibv_poll_cq(c.cq, std::min(count, 16), wc);
		if (n < 0) throw Failure{errno};
		for (int i = 0; i < n; ++i) tally.add(name_of(wc[i]));
		count -= n;
		if (n || !asleep) continue;
		if (!armed) {  // poll again, since a completion may have come before the request
			demand(ibv_req_notify_cq(c.cq, 0));
			armed = true;
			continue;
		}
		pollfd readable{c.channel->fd, POLLIN, 0};
		const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
		if (::poll(&readable, 1, static_cast<int>(std::max<long>(left, 0))) == 1) {
			ibv_cq* cq;
			void* context;
			demand(ibv_get_cq_event(c.channel, &cq, &context));
			ibv_ack_cq_events(cq, 1);
		}
		armed = false;
	}
	out << ' ' << std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
	for (const auto& [name, n] : tally.counts) out << ' ' << name << '=' << n;
}

// The median time of an operation, from the post to the completion, in nanoseconds.
std::int64_t latency(
	Pair& p, ibv_wr_opcode opcode, int count, std::uint32_t bytes, std::uint64_t address, std::uint32_t rkey) {
	std::vector<std::int64_t> took;
	for (int i = 0; i < count; ++i) {
		const auto start = Clock::now();
		post(p, opcode, bytes, address, rkey, 0);
		ibv_wc wc;
		while (ibv_poll_cq(p.at->cq, 1, &wc) == 0) {}
		if (wc.status != IBV_WC_SUCCESS) throw Failure{EIO};
		took.push_back(std::chrono::nanoseconds(Clock::now() - start).count());
	}
	std::ranges::nth_element(took, took.begin() + count / 2);
	return took[static_cast<std::size_t>(count / 2)];
}

std::uint64_t load(std::size_t region, std::size_t offset) {
	return std::atomic_ref(
		*reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(regions.at(region).address) + offset))
		.load();
}

void close_current() {
	Context& c = current();
	for (Pair& p : pairs)
		if (p.at == &c && p.qp) demand(ibv_destroy_qp(std::exchange(p.qp, nullptr)));
	for (Region& r : regions)
		if (r.mr && r.mr->context == c.context) demand(ibv_dereg_mr(std::exchange(r.mr, nullptr)));
	demand(ibv_destroy_ah(c.ah));
	demand(ibv_dereg_mr(c.scratch.mr));
	munmap(c.scratch.address, c.scratch.bytes);
	demand(ibv_destroy_cq(c.cq));
	demand(ibv_destroy_comp_channel(c.channel));
	demand(ibv_dealloc_pd(c.pd));
	demand(ibv_close_device(c.context));
	contexts.pop_back();
}

template <class T> T next(std::istream& in) {
	T value{};
	if (!(in >> value)) throw Failure{EINVAL};
	return value;
}
Pair& next_pair(std::istream& in) { return pairs.at(next<std::size_t>(in)); }

ibv_wr_opcode opcode_of(const std::string& word) {
	return word == "send" ? IBV_WR_SEND
		: word == "write" ? IBV_WR_RDMA_WRITE
		: word == "read"  ? IBV_WR_RDMA_READ
		: word == "add"   ? IBV_WR_ATOMIC_FETCH_AND_ADD
						  : throw Failure{EINVAL};
}

long nanoseconds_since(Clock::time_point start) { return std::chrono::nanoseconds(Clock::now() - start).count(); }

// The next five functions execute one group of commands each. If the command `word` belongs to its
// group, a function reads the arguments from `in`, executes the command and writes the answer's
// words to `out`. It returns false for every other word.
bool obey_device(const std::string& word, std::istream& in, std::ostream& out) {
	if (word == "open") open(next<std::string>(in));
	else if (word == "close") close_current();
	else if (word == "devices") list_devices(out);
	else if (word == "port") report_port(out);
	else if (word == "gids") list_gids(out);
	else if (word == "counter") out << ' ' << counter(next<std::string>(in));
	else if (word == "event") out << ' ' << await_event(next<int>(in));
	else return false;
	return true;
}

bool obey_qp(const std::string& word, std::istream& in, std::ostream& out) {
	static const std::vector<std::string> states{"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};
	if (word == "qp") {
		const auto type = next<std::string>(in);
		const auto sends = next<unsigned>(in), receives = next<unsigned>(in);
		const ibv_qp_type qp_type = type == "rc" ? IBV_QPT_RC : type == "uc" ? IBV_QPT_UC : IBV_QPT_UD;
		const std::size_t index = create_qp(qp_type, sends, receives);
		out << ' ' << index << ' ' << pairs[index].qp->qp_num;
	} else if (word == "qps") {
		const auto count = next<int>(in);
		const auto sends = next<unsigned>(in), receives = next<unsigned>(in);
		std::ofstream file(next<std::string>(in));
		const std::size_t first = pairs.size();
		const auto start = Clock::now();
		for (int i = 0; i < count; ++i) file << pairs[create_qp(IBV_QPT_RC, sends, receives)].qp->qp_num << '\n';
		out << ' ' << first << ' ' << nanoseconds_since(start);
	} else if (word == "connect") {
		Pair& p = next_pair(in);
		const auto qpn = next<std::uint32_t>(in);
		ibv_gid to = p.at->gid;
		unsigned gid_index = 0;
		std::string gid;
		if (in >> gid_index >> gid && inet_pton(AF_INET6, gid.c_str(), to.raw) != 1) throw Failure{EINVAL};
		connect(p, qpn, static_cast<std::uint8_t>(gid_index), to);
	} else if (word == "connect_all") {
		auto index = next<std::size_t>(in);
		std::ifstream file(next<std::string>(in));
		const auto start = Clock::now();
		for (std::uint32_t qpn; file >> qpn; ++index) connect(pairs.at(index), qpn, 0, pairs.at(index).at->gid);
		out << ' ' << nanoseconds_since(start);
	} else if (word == "modify") {
		Pair& p = next_pair(in);
		ibv_qp_attr a{
			.qp_state = static_cast<ibv_qp_state>(std::ranges::find(states, next<std::string>(in)) - states.begin())};
		demand(ibv_modify_qp(p.qp, &a, IBV_QP_STATE));
	} else if (word == "state") {
		ibv_qp_attr a;
		ibv_qp_init_attr init;
		demand(ibv_query_qp(next_pair(in).qp, &a, IBV_QP_STATE, &init));
		out << ' ' << states.at(a.qp_state);
	} else if (word == "destroy") {
		demand(ibv_destroy_qp(std::exchange(next_pair(in).qp, nullptr)));
	} else {
		return false;
	}
	return true;
}

bool obey_work(const std::string& word, std::istream& in, std::ostream& out) {
	if (word == "receive") {
		Pair& p = next_pair(in);
		receive(p, next<int>(in));
	} else if (word == "send") {
		Pair& p = next_pair(in);
		const auto count = next<int>(in);
		const auto bytes = next<std::uint32_t>(in);
		std::uint32_t qpn = 0;
		in >> qpn;
		for (int i = 0; i < count; ++i) post(p, IBV_WR_SEND, bytes, 0, 0, qpn);
	} else if (word == "write" || word == "read" || word == "add") {
		Pair& p = next_pair(in);
		const auto count = next<int>(in);
		const auto bytes = next<std::uint32_t>(in);
		const auto address = next<std::uint64_t>(in);
		const auto rkey = next<std::uint32_t>(in);
		for (int i = 0; i < count; ++i) post(p, opcode_of(word), bytes, address, rkey, 0);
	} else if (word == "latency") {
		const ibv_wr_opcode opcode = opcode_of(next<std::string>(in));
		Pair& p = next_pair(in);
		const auto count = next<int>(in);
		const auto bytes = next<std::uint32_t>(in);
		const auto address = next<std::uint64_t>(in);
		out << ' ' << latency(p, opcode, count, bytes, address, next<std::uint32_t>(in));
	} else if (word == "poll" || word == "wait") {
		const auto count = next<int>(in);
		collect(out, count, next<int>(in), word == "wait");
	} else if (word == "exit") {
		const auto count = next<int>(in);
		collect(out, count, next<int>(in), false);
		std::exit(0);
	} else {
		return false;
	}
	return true;
}

bool obey_memory(const std::string& word, std::istream& in, std::ostream& out) {
	if (word == "region") {
		regions.push_back(map_region(current().pd, next<std::size_t>(in)));
		out << ' ' << regions.size() - 1 << ' ' << reinterpret_cast<std::uint64_t>(regions.back().address) << ' '
			<< regions.back().mr->rkey;
	} else if (word == "unmap") {
		Region& r = regions.at(next<std::size_t>(in));
		demand(munmap(r.address, r.bytes));
	} else if (word == "remap") {
		Region& r = regions.at(next<std::size_t>(in));
		if (mmap(r.address, r.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
				0) != r.address)
			throw Failure{errno};
	} else if (word == "load") {
		const auto region = next<std::size_t>(in);
		out << ' ' << load(region, next<std::size_t>(in));
	} else if (word == "await") {
		const auto region = next<std::size_t>(in), offset = next<std::size_t>(in);
		const auto value = next<std::uint64_t>(in);
		const auto end = Clock::now() + std::chrono::milliseconds(next<int>(in));
		while (load(region, offset) != value)
			if (Clock::now() > end) throw Failure{ETIMEDOUT};
	} else {
		return false;
	}
	return true;
}

void exit_with_42(int) { _exit(42); }

bool obey_signals(const std::string& word, std::istream& in, std::ostream&) {
	if (word != "handle") return false;
	const auto name = next<std::string>(in);
	void* const function = dlsym(RTLD_DEFAULT, name.c_str());
	if (!function) throw Failure{ENOENT};
	sigset_t every;
	sigfillset(&every);
	for (const int number : {SIGSEGV, SIGBUS}) {
		if (name.ends_with("sigaction")) {
			struct sigaction action{};
			action.sa_handler = exit_with_42;
			demand(reinterpret_cast<decltype(&sigaction)>(function)(number, &action, nullptr));
		} else if (name.ends_with("mask") && name != "sigsetmask") {
			demand(reinterpret_cast<decltype(&sigprocmask)>(function)(SIG_SETMASK, &every, nullptr));
		} else if (name == "sigblock" || name == "sigsetmask") {
			reinterpret_cast<int (*)(int)>(function)(~0);
		} else if (name == "sighold" || name == "sigignore") {
			demand(reinterpret_cast<int (*)(int)>(function)(number));
		} else {
			reinterpret_cast<sighandler_t (*)(int, sighandler_t)>(function)(number, exit_with_42);
		}
	}
	return true;
}

bool obey_fork(const std::string& word, std::istream& in, std::ostream& out) {
	if (word != "fork") return false;
	const auto fd = next<int>(in);
	const pid_t child = fork();
	if (child < 0) throw Failure{errno};
	if (child == 0) {
		dup2(fd, STDIN_FILENO);
		dup2(fd, STDOUT_FILENO);
	}
	close(fd);
	out << ' ' << child;
	return true;
}

void obey(const std::string& word, std::istream& in, std::ostream& out) {
	const bool known = obey_device(word, in, out) || obey_qp(word, in, out) || obey_work(word, in, out) ||
		obey_memory(word, in, out) || obey_signals(word, in, out) || obey_fork(word, in, out);
	if (!known) throw Failure{ENOSYS};
}

}  // namespace

int main() {
	// read() and not std::cin, because a forked child must not find its parent's lines in a buffer.
	std::string line;
	for (char c; read(STDIN_FILENO, &c, 1) == 1;) {
		if (c != '\n') {
			line += c;
			continue;
		}
		std::istringstream in(line);
		line.clear();
		std::ostringstream out;
		out << "ok";
		try {
			obey(next<std::string>(in), in, out);
		} catch (const Failure& failure) {
			out.str(std::string("error ") + strerrorname_np(failure.error));
		} catch (const std::out_of_range&) {
			out.str("error no such object");
		}
		const std::string answer = out.str() + "\n";
		if (write(STDOUT_FILENO, answer.data(), answer.size()) < 0) return 1;
	}
	return 0;
}
