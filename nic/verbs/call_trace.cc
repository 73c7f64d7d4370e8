// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/call_trace.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <span>

#include "base/kept_errno.h"
#include "nic/wire/gid_text.h"

namespace verbena::verbs {
namespace {

using Name = std::pair<int, const char*>;

constexpr const char* states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr Name access_names[] = {{IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE"}, {IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE"},
	{IBV_ACCESS_REMOTE_READ, "REMOTE_READ"}, {IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC"},
	{IBV_ACCESS_MW_BIND, "MW_BIND"}, {IBV_ACCESS_ZERO_BASED, "ZERO_BASED"}, {IBV_ACCESS_ON_DEMAND, "ON_DEMAND"},
	{IBV_ACCESS_HUGETLB, "HUGETLB"}, {IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING"}};

void append_access(CallText& text, unsigned access) {
	const char* between = "";
	for (const auto& [bit, name] : access_names) {
		if (!(access & static_cast<unsigned>(bit))) continue;
		text.append("%s%s", between, name);
		between = "|";
		access &= ~static_cast<unsigned>(bit);
	}
	if (access != 0 || *between == '\0') text.append("%s0x%x", between, access);
}

void append_gid(CallText& text, const std::uint8_t* raw) {
	wire::Gid gid;
	std::memcpy(gid.data(), raw, gid.size());
	text.append("%s", wire::text_of(gid).bytes);
}

void append_type(CallText& text, ibv_qp_type type) {
	if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD)
		text.append("%s", type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD");
	else text.append("type %d", static_cast<int>(type));
}

void append_capabilities(CallText& text, const ibv_qp_cap& cap) {
	text.append("max_send_wr %u, max_recv_wr %u, max_send_sge %u, max_recv_sge %u, max_inline_data %u", cap.max_send_wr,
		cap.max_recv_wr, cap.max_send_sge, cap.max_recv_sge, cap.max_inline_data);
}

}  // namespace

CallText::CallText(const char* verb) {
	append("%s", verb);
	end_part();
}

void CallText::append(const char* format, ...) {
	const KeptErrno kept;
	const std::size_t room = sizeof bytes_ - size_ - 2;  // two parts may still end
	va_list arguments;
	va_start(arguments, format);
	const int wanted = std::vsnprintf(bytes_ + size_, room, format, arguments);
	va_end(arguments);
	if (wanted > 0) size_ += std::min(static_cast<std::size_t>(wanted), room - 1);
}

void CallText::end_part() {
	if (size_ < sizeof bytes_) bytes_[size_++] = '\0';
}

void CallText::write(int error) const {
	const KeptErrno kept;
	trace::write_text({.time = began_,
						  .kind = trace::Kind::verb,
						  .address = monotonic_now() - began_,
						  .number = static_cast<std::uint32_t>(error)},
		std::string_view(bytes_, size_));
}

void describe(CallText& text, const char* value) { text.append("\"%s\"", value ? value : ""); }
void describe(CallText& text, const ibv_device* device) {
	device ? text.append("device %s", device->name) : text.append("NULL");
}
void describe(CallText& text, const ibv_context* context) {
	context ? describe(text, context->device) : text.append("NULL");
}
void describe(CallText& text, const ibv_pd* pd) { pd ? text.append("pd %u", pd->handle) : text.append("NULL"); }
void describe(CallText& text, const ibv_mr* mr) {
	mr ? text.append("mr lkey 0x%x rkey 0x%x", mr->lkey, mr->rkey) : text.append("NULL");
}
void describe(CallText& text, const ibv_mw* mw) { mw ? text.append("mw rkey 0x%x", mw->rkey) : text.append("NULL"); }
void describe(CallText& text, const ibv_cq* cq) {
	cq ? text.append("cq %p", static_cast<const void*>(cq)) : text.append("NULL");
}
void describe(CallText& text, const ibv_cq_ex* cq) { describe(text, ibv_cq_ex_to_cq(const_cast<ibv_cq_ex*>(cq))); }
void describe(CallText& text, const ibv_comp_channel* channel) {
	channel ? text.append("channel %d", channel->fd) : text.append("NULL");
}
void describe(CallText& text, const ibv_qp* qp) { qp ? text.append("qp 0x%x", qp->qp_num) : text.append("NULL"); }
void describe(CallText& text, const ibv_srq* srq) {
	srq ? text.append("srq %p", static_cast<const void*>(srq)) : text.append("NULL");
}
void describe(CallText& text, const ibv_ah* ah) {
	ah ? text.append("ah %p", static_cast<const void*>(ah)) : text.append("NULL");
}
void describe(CallText& text, const ibv_gid* gid) { gid ? append_gid(text, gid->raw) : text.append("NULL"); }
void describe(CallText& text, const void* address) { text.append("%p", address); }

void describe(CallText& text, const ibv_ah_attr* a) {
	if (!a) return text.append("NULL");
	text.append("{is_global %u, dgid ", a->is_global);
	append_gid(text, a->grh.dgid.raw);
	text.append(", sgid_index %u, port_num %u}", a->grh.sgid_index, a->port_num);
}

void describe(CallText& text, const ibv_qp_init_attr* init) {
	if (!init) return text.append("NULL");
	text.append("{");
	append_type(text, init->qp_type);
	text.append(
		", send_cq %p, recv_cq %p, ", static_cast<const void*>(init->send_cq), static_cast<const void*>(init->recv_cq));
	if (init->srq) text.append("srq %p, ", static_cast<const void*>(init->srq));
	append_capabilities(text, init->cap);
	text.append(", sq_sig_all %d}", init->sq_sig_all);
}

void describe(CallText& text, const ibv_qp_init_attr_ex* init) {
	if (!init) return text.append("NULL");
	text.append("{");
	append_type(text, init->qp_type);
	text.append(", ");
	append_capabilities(text, init->cap);
	text.append(", comp_mask 0x%x}", init->comp_mask);
}

void describe(CallText& text, const ibv_cq_init_attr_ex* init) {
	init ? text.append("{cqe %u, wc_flags 0x%llx}", init->cqe, static_cast<unsigned long long>(init->wc_flags))
		 : text.append("NULL");
}

void describe(CallText& text, const ibv_srq_init_attr* init) {
	init ? text.append(
			   "{max_wr %u, max_sge %u, srq_limit %u}", init->attr.max_wr, init->attr.max_sge, init->attr.srq_limit)
		 : text.append("NULL");
}

void describe_arguments(CallText& text, ibv_qp* qp, ibv_qp_attr* a, int mask) {
	describe(text, qp);
	if (!a) return text.append(", NULL");
	const auto number = [&](int bit, const char* name, unsigned value) {
		if (mask & bit) text.append(", %s %u", name, value);
	};
	if (mask & IBV_QP_STATE)
		text.append(", %s", static_cast<unsigned>(a->qp_state) < std::size(states) ? states[a->qp_state] : "state?");
	number(IBV_QP_CUR_STATE, "cur_qp_state", a->cur_qp_state);
	if (mask & IBV_QP_ACCESS_FLAGS) {
		text.append(", qp_access_flags ");
		append_access(text, a->qp_access_flags);
	}
	number(IBV_QP_PKEY_INDEX, "pkey_index", a->pkey_index);
	number(IBV_QP_PORT, "port_num", a->port_num);
	if (mask & IBV_QP_QKEY) text.append(", qkey 0x%x", a->qkey);
	if (mask & IBV_QP_AV) {
		text.append(", ah_attr ");
		describe(text, &a->ah_attr);
	}
	if (mask & IBV_QP_PATH_MTU) text.append(", path_mtu %u", 128u << (a->path_mtu & 7));
	if (mask & IBV_QP_DEST_QPN) text.append(", dest_qp_num 0x%x", a->dest_qp_num);
	if (mask & IBV_QP_RQ_PSN) text.append(", rq_psn 0x%x", a->rq_psn);
	if (mask & IBV_QP_SQ_PSN) text.append(", sq_psn 0x%x", a->sq_psn);
	number(IBV_QP_TIMEOUT, "timeout", a->timeout);
	number(IBV_QP_RETRY_CNT, "retry_cnt", a->retry_cnt);
	number(IBV_QP_RNR_RETRY, "rnr_retry", a->rnr_retry);
	number(IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", a->min_rnr_timer);
	number(IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a->max_rd_atomic);
	number(IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", a->max_dest_rd_atomic);
	text.append(", mask 0x%x", static_cast<unsigned>(mask));
}

void describe_arguments(CallText& text, ibv_pd* pd, void* address, std::size_t length, int access) {
	describe(text, pd);
	text.append(", %p, %zu bytes, ", address, length);
	append_access(text, static_cast<unsigned>(access));
}

void describe_arguments(
	CallText& text, ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
	describe(text, pd);
	text.append(", %p, %zu bytes, iova 0x%llx, ", address, length, static_cast<unsigned long long>(iova));
	append_access(text, access);
}

void describe_arguments(CallText& text, ibv_qp* qp, ibv_qp_attr*, int mask, ibv_qp_init_attr*) {
	describe(text, qp);
	text.append(", mask 0x%x", static_cast<unsigned>(mask));
}

void describe_arguments(CallText& text, ibv_context* context, std::uint8_t port, int index, ibv_gid*) {
	describe(text, context);
	text.append(", port %u, index %d", port, index);
}

}  // namespace verbena::verbs
