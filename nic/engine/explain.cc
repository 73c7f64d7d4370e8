// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/explain.h"

#include <cstring>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kept_errno.h"
#include "base/log.h"
#include "nic/engine/link.h"
#include "nic/trace/trace.h"
#include "nic/transport/diagnose.h"
#include "nic/transport/requester.h"
#include "nic/transport/retry_timer.h"

namespace verbena::engine {

using queues::SendWqe;
using queues::Status;
using transport::Context;
using transport::ErrorCause;
using transport::QueuePair;
using wire::Diagnosis;
using Cause = Diagnosis::Cause;

namespace {

constexpr const char* requests[] = {"RDMA WRITE", "RDMA WRITE with immediate", "SEND", "SEND with immediate",
	"RDMA READ", "compare-and-swap", "fetch-and-add", "local invalidate", "bind", "SEND with invalidate"};

const char* name_of(Status status) {
	switch (status) {
		case Status::success: return "IBV_WC_SUCCESS";
		case Status::local_length: return "IBV_WC_LOC_LEN_ERR";
		case Status::local_qp_operation: return "IBV_WC_LOC_QP_OP_ERR";
		case Status::local_protection: return "IBV_WC_LOC_PROT_ERR";
		case Status::flushed: return "IBV_WC_WR_FLUSH_ERR";
		case Status::window_bind: return "IBV_WC_MW_BIND_ERR";
		case Status::bad_response: return "IBV_WC_BAD_RESP_ERR";
		case Status::local_access: return "IBV_WC_LOC_ACCESS_ERR";
		case Status::remote_invalid_request: return "IBV_WC_REM_INV_REQ_ERR";
		case Status::remote_access: return "IBV_WC_REM_ACCESS_ERR";
		case Status::remote_operation: return "IBV_WC_REM_OP_ERR";
		case Status::retry_exceeded: return "IBV_WC_RETRY_EXC_ERR";
		case Status::rnr_retry_exceeded: return "IBV_WC_RNR_RETRY_EXC_ERR";
	}
	return "an error";
}

const Link* link_of(const QueuePair& qp) {
	return qp.outlet && qp.outlet->lossless ? static_cast<const Link*>(qp.outlet->user) : nullptr;
}

// "process 812 (server)", "this process", or "the peer" if it is on another host.
void add_peer(Sentence& sentence, const QueuePair& qp) {
	const Link* const link = link_of(qp);
	if (!link) {
		sentence.add("the peer");
		return;
	}
	if (link->is_self()) {
		sentence.add(link->is_dead_end() ? "a process that has ended" : "this process");
		return;
	}
	char path[40];
	std::snprintf(path, sizeof path, "/proc/%d/comm", static_cast<int>(link->peer().pid));
	char name[32] = {};
	const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
	if (fd >= 0) {
		const long got = syscall(SYS_read, fd, name, sizeof name - 1);
		syscall(SYS_close, fd);
		name[std::max<long>(got, 0)] = '\0';
		name[std::strcspn(name, "\n")] = '\0';
	}
	sentence.add("process %d", static_cast<int>(link->peer().pid));
	if (*name) sentence.add(" (%s)", name);
}

// Why a key cannot be used. `kind` is "rkey" or "lkey".
void add_key_cause(
	Sentence& s, const char* kind, Cause cause, const Diagnosis& d, std::uint64_t begin, std::uint64_t length) {
	s.add("%s 0x%x ", kind, d.key);
	switch (cause) {
		case Cause::key_unknown:
			s.add("names no memory region of that process; use the key that ibv_reg_mr(3) returned there");
			break;
		case Cause::key_retired:
			s.add("belonged to the region ").add_range(d.begin, d.end).add(", which was deregistered ");
			s.add_time(d.age).add(" before; keep the region until the work requests that use it have completed");
			break;
		case Cause::key_domain:
			s.add("belongs to the region ").add_range(d.begin, d.end);
			s.add(" of another protection domain than the queue pair; create both on one ibv_pd");
			break;
		case Cause::key_bounds:
			s.add("names ").add_range(d.begin, d.end).add(", and the request uses ").add_range(begin, begin + length);
			if (begin >= d.begin && begin + length > d.end)
				s.add(", %llu bytes past its end", static_cast<unsigned long long>(begin + length - d.end));
			break;
		case Cause::key_rights:
			s.add("names ")
				.add_range(d.begin, d.end)
				.add(", which lacks ")
				.add_rights(static_cast<std::uint8_t>(d.wanted & ~d.access));
			s.add(" (it has ").add_rights(d.access).add("); register it with that access flag (ibv_reg_mr(3))");
			break;
		case Cause::key_memory:
			s.add("allows it, but the memory ").add_range(begin, begin + length).add(" is not mapped as it needs");
			break;
		default: s.add("cannot be used");
	}
}

void add_cause(Sentence& s, const QueuePair& qp, const Diagnosis& d, std::uint64_t address, std::uint64_t length) {
	const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
	switch (d.cause) {
		case Cause::no_receive:
			s.add("it has no receive posted (%llu posted, %llu used so far)", number(d.begin), number(d.end));
			break;
		case Cause::queue_pair_rights:
			s.add("its qp_access_flags lack ").add_rights(d.wanted).add(" (they are ").add_rights(d.access);
			s.add("); set them in INIT, RTR or RTS (ibv_modify_qp(3))");
			break;
		case Cause::reads:
			s.add("it takes %llu READs and atomics at once (max_dest_rd_atomic there), and max_rd_atomic here is %d",
				number(d.begin), qp.cold->attributes.max_rd_atomic);
			break;
		case Cause::unaligned: s.add("the address 0x%llx of an atomic is no multiple of 8", number(d.begin)); break;
		case Cause::too_long:
			s.add("the receive wr_id %llu has %llu bytes, and the message has %llu or more; post larger receives",
				number(d.wr_id), number(d.begin), number(d.end));
			break;
		case Cause::receive_fault:
			s.add("segment %llu of a receive that is posted there is wrong: ", number(d.wr_id));
			add_key_cause(s, "lkey", d.detail, d, d.begin, 0);
			break;
		case Cause::sequence:
			s.add("the packets make no message there; path_mtu is %llu there and %u here, and must be equal",
				number(d.begin), qp.path_mtu());
			break;
		case Cause::none: s.add("it gave no reason"); break;
		default: add_key_cause(s, "rkey", d.cause, d, address, length);
	}
}

bool has_address(const SendWqe& wqe) {
	return wqe.reads() || wqe.opcode == queues::SendOpcode::rdma_write ||
		wqe.opcode == queues::SendOpcode::rdma_write_imm;
}

void add_silence(Sentence& s, const QueuePair& qp) {
	const transport::QueuePairAttributes& a = qp.cold->attributes;
	const Link* const link = link_of(qp);
	if (link && (qp.outlet->closed || link->is_dead_end() || (!link->is_self() && link->peer_is_gone()))) {
		s.add(" ended before it acknowledged the request; look for its exit code or signal");
		return;
	}
	s.add(" did not acknowledge it: ");
	if (link)
		s.add(
			"no queue pair 0x%x there could receive for the time of %d retries; is it in RTR, and are dest_qp_num, "
			"rq_psn and sq_psn those of the other end?",
			qp.destination_qpn, a.retry_count);
	else
		s.add(
			"%d retries, each after %.1f ms (timeout %d), had no answer; is queue pair 0x%x there in RTR, and do "
			"sgid_index, dgid, dest_qp_num and the PSNs fit?",
			a.retry_count, static_cast<double>(transport::ack_timeout(a.timeout)) / 1e6, a.timeout, qp.destination_qpn);
}

void add_local_fault(Sentence& s, Context& context, const QueuePair& qp, SendWqe& wqe) {
	const std::uint8_t access = wqe.reads() ? context.read_sink_access : std::uint8_t{memory::local_use};
	if (wqe.has(queues::send_inline)) {
		s.add("its inline data could not be read");
		return;
	}
	const Diagnosis d = transport::diagnose_segments(context, qp, wqe.segments(), wqe.segment_count, access);
	const auto index = static_cast<std::uint32_t>(d.wr_id);
	if (d.cause == Cause::none || index >= wqe.segment_count) {
		s.add("its memory cannot be used");
		return;
	}
	const queues::Segment& segment = wqe.segments()[index];
	s.add("segment %u is wrong: ", index);
	add_key_cause(s, "lkey", d.detail, d, segment.address, segment.length);
}

void add_bind_fault(Sentence& s, const Context& context, const QueuePair& qp, const SendWqe& wqe) {
	const memory::KeyTable::Binding binding = transport::binding_of(wqe, qp);
	const auto fault = context.keys.diagnose(binding);
	switch (fault.kind) {
		using enum memory::KeyTable::BindFault::Kind;
		case window_unknown:
			s.add("the window was deallocated (ibv_dealloc_mw(3)) before its bind was executed");
			break;
		case other_window:
			s.add(
				"the new rkey 0x%x is not of the window with rkey 0x%x; it may differ in the low 8 bits only "
				"(ibv_inc_rkey(3))",
				binding.new_key, binding.window_key);
			break;
		case still_bound:
			s.add("the window of type 2 is bound; invalidate it first (IBV_WR_LOCAL_INV, ibv_post_send(3))");
			break;
		case no_bytes: s.add("a window of type 2 cannot be bound to 0 bytes; IBV_WR_LOCAL_INV unbinds it"); break;
		case region_unknown: s.add("the memory region was deregistered before the bind was executed"); break;
		case domain: s.add("window and region are of two protection domains; create both on one ibv_pd"); break;
		case no_bind_right:
			s.add("the region ").add_range(fault.begin, fault.end);
			s.add(" lacks IBV_ACCESS_MW_BIND; register it with that access flag (ibv_reg_mr(3))");
			break;
		case bounds:
			s.add("the window would be ").add_range(binding.address, binding.address + binding.length);
			s.add(", and the region is ").add_range(fault.begin, fault.end);
			break;
		case no_local_write:
			s.add("the window would allow remote writes or atomics, and the region ").add_range(fault.begin, fault.end);
			s.add(" lacks LOCAL_WRITE (ibv_bind_mw(3))");
			break;
		case none: s.add("the window could not be bound (ibv_bind_mw(3))"); break;
	}
}

void add_not_ready(Sentence& s, const QueuePair& qp) {
	const transport::QueuePairAttributes& a = qp.cold->attributes;
	s.add(
		"; rnr_retry %d is used up. Post receives before the peer sends, or set rnr_retry to 7, which has no limit "
		"(ibv_modify_qp(3))",
		a.rnr_retry);
}

}  // namespace

bool somebody_reads() { return log::enabled(log::Level::warn) || trace::on(); }

void publish(const Sentence& sentence, std::uint32_t qpn, std::uint32_t peer_qpn) {
	const std::string_view text = sentence.text();
	log::warn("%.*s", static_cast<int>(text.size()), text.data());
	trace::write_text({.kind = trace::Kind::why, .qpn = qpn, .peer = peer_qpn}, text);
}

const transport::Explainer explainer{explain_failure, explain_refusal, explain_flush};

void explain_failure(Context& context, const QueuePair& qp, const SendWqe* wqe, Status status) {
	if (!somebody_reads() || !wqe || status == Status::flushed) return;
	const KeptErrno kept;
	const Diagnosis* const told = qp.cold->diagnosis.get();
	const Diagnosis d = told ? *told : Diagnosis{};
	const bool rdma = has_address(*wqe);
	const std::uint64_t address = rdma ? wqe->rdma.address : 0;
	Sentence s;
	s.add("%s wr_id %llu on QP 0x%x failed with %s: ", requests[static_cast<int>(wqe->opcode)],
		static_cast<unsigned long long>(wqe->wr_id), qp.qpn, name_of(status));
	switch (status) {
		case Status::local_protection: add_local_fault(s, context, qp, const_cast<SendWqe&>(*wqe)); break;
		case Status::local_qp_operation:
			if (wqe->opcode == queues::SendOpcode::local_invalidate)
				s.add(
					"rkey 0x%x names no window of type 2 that is bound to this queue pair, and nothing else can be "
					"invalidated",
					wqe->immediate);
			else s.add("max_rd_atomic is 0, so no READ or atomic can be sent (ibv_modify_qp(3))");
			break;
		case Status::window_bind: add_bind_fault(s, context, qp, *wqe); break;
		case Status::retry_exceeded:
			add_peer(s, qp);
			add_silence(s, qp);
			break;
		default:
			s.add("QP 0x%x of ", qp.destination_qpn);
			add_peer(s, qp);
			s.add(" refused it: ");
			add_cause(s, qp, d, address, wqe->length);
			if (status == Status::rnr_retry_exceeded) add_not_ready(s, qp);
	}
	publish(s, qp.qpn, qp.destination_qpn);
}

void explain_refusal(Context&, const QueuePair& qp, const wire::Slot& slot, const Diagnosis& d) {
	if (!somebody_reads() || d.cause == Cause::none || d.cause == Cause::no_receive) return;
	const KeptErrno kept;
	const wire::OpcodeFacts& facts = wire::facts(slot.opcode());
	const std::uint64_t address = facts.reth ? slot.reth.address : facts.atomic_eth ? slot.atomic.address : 0;
	const std::uint64_t length = facts.reth ? slot.reth.dma_length : facts.atomic_eth ? 8 : slot.length;
	Sentence s;
	if (d.cause == Cause::too_long)
		s.add("Receive wr_id %llu on QP 0x%x failed with IBV_WC_LOC_LEN_ERR: the message ",
			static_cast<unsigned long long>(d.wr_id), qp.qpn);
	else s.add("QP 0x%x refused a request ", qp.qpn);
	s.add("of QP 0x%x of ", qp.destination_qpn);
	add_peer(s, qp);
	s.add(d.cause == Cause::too_long ? " is longer: " : ": ");
	add_cause(s, qp, d, address, length);
	publish(s, qp.qpn, qp.destination_qpn);
}

void explain_flush(Context&, const QueuePair& qp, ErrorCause cause, std::uint32_t sends, std::uint32_t receives) {
	if (!somebody_reads() || sends + receives == 0) return;
	const KeptErrno kept;
	Sentence s;
	s.add("QP 0x%x went to ERR because ", qp.qpn);
	switch (cause) {
		case ErrorCause::request: s.add("a send request of its own failed"); break;
		case ErrorCause::refused: s.add("it refused a request of its peer"); break;
		case ErrorCause::receive: s.add("a receive request failed"); break;
		case ErrorCause::program: s.add("the program called ibv_modify_qp with IBV_QPS_ERR, or disconnected"); break;
		case ErrorCause::injected: s.add("--faults has broken it (qp-error)"); break;
	}
	s.add(", so %u sends and %u receives completed with IBV_WC_WR_FLUSH_ERR; ", sends, receives);
	if (qp.outlet) {
		s.add("the peer is ");
		add_peer(s, qp);
	} else {
		s.add("it was not connected");
	}
	s.add(". Look at the first failure, not at these");
	publish(s, qp.qpn, qp.destination_qpn);
}

}  // namespace verbena::engine
