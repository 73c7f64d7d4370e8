// SPDX-License-Identifier: Apache-2.0
// The commands of work requests and completions.
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "commands.h"

namespace {

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
		took.push_back(nanoseconds_since(start));
	}
	std::ranges::nth_element(took, took.begin() + count / 2);
	return took[static_cast<std::size_t>(count / 2)];
}

ibv_wr_opcode opcode_of(const std::string& word) {
	return word == "send" ? IBV_WR_SEND
		: word == "write" ? IBV_WR_RDMA_WRITE
		: word == "read"  ? IBV_WR_RDMA_READ
		: word == "add"   ? IBV_WR_ATOMIC_FETCH_AND_ADD
						  : throw Failure{EINVAL};
}

}  // namespace

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
