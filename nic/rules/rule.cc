// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/rule.h"

#include <array>

namespace verbena::rules {
namespace {

using enum Severity;

struct Entry {
	Rule rule;
	RuleFacts facts;
};

constexpr std::array<Entry, static_cast<std::size_t>(Rule::count)> entries{{
	{Rule::mr_dereg_in_flight,
		{"mr-dereg-in-flight", error,
			"the memory of a request must stay registered until its completion has been polled (rdma_post_write(3), "
			"rdma_post_recv(3))"}},
	{Rule::mr_dereg_advertised,
		{"mr-dereg-advertised", error,
			"a peer that still has the key of a region may use it; tell the peer first, and deregister after its "
			"answer (ibv_dereg_mr(3))"}},
	{Rule::mem_freed_while_registered,
		{"mem-freed-while-registered", error,
			"memory must stay mapped as long as it is registered: a device that has pinned the old pages would read "
			"and write them, and no process would see it (ibv_reg_mr(3))"}},
	{Rule::mem_remapped_while_registered,
		{"mem-remapped-while-registered", error,
			"memory must stay mapped as long as it is registered: a device that has pinned the old pages goes on to "
			"use them, and not those that are mapped at their address now (ibv_reg_mr(3))"}},
	{Rule::mem_given_back_while_registered,
		{"mem-given-back-while-registered", error,
			"the pages of a region must stay as long as it is registered: a device that has pinned them goes on to use "
			"them, and not the new ones that the program gets (ibv_reg_mr(3), madvise(2))"}},
	{Rule::mr_overlap_stale_cache,
		{"mr-overlap-stale-cache", advice,
			"a cache of registrations must forget a region when its memory is unmapped; a device that has pinned the "
			"old pages would use them by the keys of the old region (ibv_reg_mr(3))"}},
	{Rule::mw_mr_order,
		{"mw-mr-order", error,
			"a region cannot be deregistered while a memory window is bound to it, and the call fails "
			"(ibv_dereg_mr(3))"}},
	{Rule::pd_destroy_order,
		{"pd-destroy-order", error,
			"an object cannot be destroyed while another one uses it, and the call fails (ibv_dealloc_pd(3), "
			"ibv_destroy_cq(3), ibv_destroy_srq(3))"}},
	{Rule::ah_destroy_in_flight,
		{"ah-destroy-in-flight", error,
			"an address handle must live until the requests that use it have completed (ibv_post_send(3))"}},
	{Rule::ack_missing,
		{"ack-missing", error,
			"destroying an object waits until all of its events have been acknowledged (ibv_get_cq_event(3), "
			"ibv_get_async_event(3))"}},
	{Rule::ack_wrong_cq,
		{"ack-wrong-cq", error,
			"events are acknowledged on the completion queue that ibv_get_cq_event() returned, once each "
			"(ibv_get_cq_event(3))"}},
	{Rule::qp_destroy_with_work,
		{"qp-destroy-with-work", advice,
			"the completions of a destroyed queue pair do not come any more (rdma-core, mlx5_destroy_qp()), so the "
			"program cannot know which requests were done; move it to IBV_QPS_ERR first and poll them"}},
	{Rule::srq_qp_no_last_wqe,
		{"srq-qp-no-last-wqe", portability,
			"a request that the queue pair has taken from the shared receive queue is lost with it; wait for "
			"IBV_EVENT_QP_LAST_WQE_REACHED in IBV_QPS_ERR (ibv_get_async_event(3))"}},
	{Rule::event_after_destroy_thread,
		{"event-after-destroy-thread", error,
			"a channel must not be destroyed while a thread waits at it (ibv_create_comp_channel(3), "
			"ibv_get_cq_event(3))"}},
	{Rule::use_after_destroy,
		{"use-after-destroy", error,
			"a destroyed object's memory may belong to another one, so the call may do anything (ibv_destroy_qp(3))"}},
	{Rule::fork_after_reg,
		{"fork-after-reg", portability,
			"without ibv_fork_init(), a fork may leave the registered pages to the child and give the parent new ones "
			"(ibv_fork_init(3)); newer kernels copy them for the child"}},
	{Rule::leak_at_exit,
		{"leak-at-exit", advice, "each object that a program makes again and again must be destroyed as often"}},
	{Rule::cm_destroy_order,
		{"cm-destroy-order", error,
			"a queue pair that rdma_create_qp() has made must be destroyed before its id (rdma_destroy_id(3))"}},
	{Rule::send_buffer_modified,
		{"send-buffer-modified", error,
			"the memory of a request can be used again only after its completion has been polled "
			"(ibv_post_send(3)); until then the device may read it at any time"}},
	{Rule::send_buffer_freed,
		{"send-buffer-freed", error,
			"the memory of a request must stay until its completion has been polled (ibv_post_send(3))"}},
	{Rule::stack_buffer_in_flight,
		{"stack-buffer-in-flight", error,
			"the memory of a request must stay until its completion has been polled (ibv_post_send(3)), but the "
			"variables of a function end when it returns"}},
	{Rule::recv_overlap,
		{"recv-overlap", error,
			"the memory of a receive belongs to the device until its completion has been polled "
			"(ibv_post_recv(3)), so a second receive into it destroys the first message"}},
	{Rule::sge_overlap_one_wr,
		{"sge-overlap-one-wr", error, "the order in which a device fills the segments of one request is not defined"}},
	{Rule::ud_grh_missing,
		{"ud-grh-missing", error,
			"the data of a datagram begins at an offset of 40 bytes, which the receive needs in addition "
			"(ibv_post_recv(3))"}},
	{Rule::remote_write_on_posted,
		{"remote-write-on-posted", error,
			"the memory of a request belongs to the device until its completion has been polled (ibv_post_send(3), "
			"ibv_post_recv(3)), so a peer's WRITE into it destroys the message"}},
	{Rule::recv_touched,
		{"recv-touched", error,
			"the memory of a receive belongs to the device until its completion has been polled (ibv_post_recv(3)), so "
			"the message overwrites what the program stores there, or is overwritten"}},
	{Rule::remote_races,
		{"remote-races", portability,
			"nothing orders the WRITEs of two queue pairs while neither has completed, so the memory may hold parts of "
			"both (ibv_post_send(3) promises an order within one queue pair only)"}},
	{Rule::lkey_for_rkey,
		{"lkey-for-rkey", error,
			"a peer needs the rkey of a region; that its lkey has the same value on many devices is luck "
			"(ibv_reg_mr(3))"}},
	{Rule::sq_unsignaled_full,
		{"sq-unsignaled-full", error,
			"a place in the send queue is free again only when the completion of this request or of a later one has "
			"been polled (rdma-core, providers/mlx5/cq.c), so one request in each queue length must be signaled"}},
	{Rule::post_error_ignored,
		{"post-error-ignored", error,
			"a post that fails returns an errno value above 0, and the request and those after it never complete "
			"(ibv_post_send(3))"}},
	{Rule::cq_too_small,
		{"cq-too-small", portability,
			"a completion queue needs an entry for each request that can complete into it; if it overruns, it cannot "
			"be used any more (ibv_poll_cq(3), IBV_EVENT_CQ_ERR)"}},
	{Rule::cq_overrun,
		{"cq-overrun", error,
			"a completion queue that has overrun has lost a completion and cannot be used any more (ibv_poll_cq(3), "
			"IBV_EVENT_CQ_ERR)"}},
	{Rule::rq_starved_rnr,
		{"rq-starved-rnr", portability,
			"a message that finds no receive waits for a timer and is sent again, and with rnr_retry below 7 the "
			"connection may end (ibv_modify_qp(3)); post receives before the peer sends"}},
	{Rule::notify_lost_wakeup,
		{"notify-lost-wakeup", error,
			"only a completion that is added after ibv_req_notify_cq() raises an event; poll until the queue is empty "
			"after arming it, and only then sleep (ibv_get_cq_event(3))"}},
	{Rule::notify_not_armed,
		{"notify-not-armed", error,
			"a completion queue raises one event for each ibv_req_notify_cq(), and none without it "
			"(ibv_req_notify_cq(3))"}},
	{Rule::signaled_flag_missing,
		{"signaled-flag-missing", error,
			"with sq_sig_all 0, a request without IBV_SEND_SIGNALED has no completion (ibv_post_send(3))"}},
	{Rule::recv_on_srq_qp,
		{"recv-on-srq-qp", error,
			"receives of a queue pair with a shared receive queue are posted by ibv_post_srq_recv() "
			"(ibv_post_recv(3))"}},
	{Rule::post_in_wrong_state,
		{"post-in-wrong-state", error,
			"receives can be posted from IBV_QPS_INIT on, and sends from IBV_QPS_RTS on (rdma-core, "
			"providers/efa/verbs.c)"}},
	{Rule::post_in_err,
		{"post-in-err", portability,
			"not every device completes a request that is posted in IBV_QPS_ERR (with IBV_WC_WR_FLUSH_ERR on "
			"InfiniBand and RoCE)"}},
	{Rule::inline_too_long,
		{"inline-too-long", error,
			"the sum of the segments of an inline request is at most the max_inline_data that ibv_create_qp() "
			"returned (ibv_create_qp(3))"}},
	{Rule::inline_bad_opcode,
		{"inline-bad-opcode", error, "IBV_SEND_INLINE is valid only for SEND and RDMA WRITE (ibv_post_send(3))"}},
	{Rule::inline_lkey_trust,
		{"inline-lkey-trust", portability,
			"the lkey of inline data is not checked, and that of all other data is (ibv_post_send(3)); how much data "
			"can "
			"be inline differs between devices, so a request that is too long for it needs the right lkey"}},
	{Rule::wr_start_nesting,
		{"wr-start-nesting", error,
			"between ibv_wr_start() and ibv_wr_complete() the thread must not post to the queue pair in another way "
			"(ibv_wr_post(3))"}},
	{Rule::thread_unsafe_td,
		{"thread-unsafe-td", error,
			"on a queue pair with a thread domain no lock is taken, so one thread at a time may post "
			"(ibv_alloc_td(3), ibv_wr_post(3))"}},
	{Rule::rd_atomic_mismatch,
		{"rd-atomic-mismatch", error,
			"max_rd_atomic must not be above the max_dest_rd_atomic of the peer, or the peer refuses READs and "
			"atomics (ibv_modify_qp(3))"}},
	{Rule::sqd_misuse,
		{"sqd-misuse", error,
			"a connected queue pair gets another path, timeout or retry count only in IBV_QPS_SQD (Linux, "
			"drivers/infiniband/core/verbs.c, qp_state_table)"}},
	{Rule::sq_depth_by_luck,
		{"sq-depth-by-luck", portability,
			"a send queue is sure to have the max_send_wr places that were asked for, and a device that rounds up "
			"hides that they are too few (ibv_create_qp(3))"}},
	{Rule::send_completion_means_slot,
		{"send-completion-means-slot", portability,
			"a place in the send queue is free when its completion has been polled (rdma-core, providers/mlx5/cq.c), "
			"and neither the peer's answer nor the arrival of the completion frees it"}},
	{Rule::poll_memory_write,
		{"poll-memory-write", portability,
			"nothing says when the bytes of a WRITE are in memory, and in which order, but a completion: that of a "
			"later "
			"SEND or of a WRITE with immediate (ibv_query_qp_data_in_order(3))"}},
	{Rule::write_flag_other_qp,
		{"write-flag-other-qp", portability,
			"requests of two queue pairs have no order, so a flag by another queue pair may arrive before the data; "
			"send both by one queue pair, or poll the completion of the data first (ibv_query_qp_data_in_order(3))"}},
	{Rule::read_then_write_nofence,
		{"read-then-write-nofence", error,
			"a request after a READ may be executed before the READ, unless it has IBV_SEND_FENCE or the READ's "
			"completion was polled (ibv_wr_post(3))"}},
	{Rule::fence_expects_write,
		{"fence-expects-write", advice,
			"IBV_SEND_FENCE delays the start of a request until earlier ones have their results (ibv_wr_post(3)), and "
			"is no promise that a WRITE has reached the peer's memory"}},
	{Rule::atomic_unaligned,
		{"atomic-unaligned", error,
			"an atomic changes 8 bytes at an address that is a multiple of 8, and returns 8 bytes (rdma-core, "
			"providers/rxe/rxe.c)"}},
	{Rule::atomic_vs_cpu,
		{"atomic-vs-cpu", error,
			"the atomics of a device are not atomic with the instructions of a processor, unless atomic_cap is "
			"IBV_ATOMIC_GLOB (ibv_wr_post(3), ibv_query_device(3)); change the word by the device from this host too"}},
	{Rule::atomic_vs_write,
		{"atomic-vs-write", portability,
			"an atomic is atomic with other atomics only, and not with a WRITE of another queue pair to the same "
			"word"}},
	{Rule::atomic_two_devices,
		{"atomic-two-devices", error,
			"an atomic is not atomic with writes by other RDMA hardware, unless atomic_cap is IBV_ATOMIC_GLOB "
			"(ibv_wr_post(3)), so all atomics on a word must take one device"}},
	{Rule::access_write_without_local,
		{"access-write-without-local", error,
			"IBV_ACCESS_REMOTE_WRITE and IBV_ACCESS_REMOTE_ATOMIC need IBV_ACCESS_LOCAL_WRITE (ibv_reg_mr(3))"}},
	{Rule::no_grh, {"no-grh", error, "an address on RoCE needs a GID: ah_attr.is_global must be 1 (ibv_modify_qp(3))"}},
	{Rule::mtu_not_negotiated,
		{"mtu-not-negotiated", error,
			"both ends of a connection need the same path_mtu: the smaller of their active_mtu (ibv_modify_qp(3), "
			"ibv_query_port(3))"}},
	{Rule::comp_vector,
		{"comp-vector", portability,
			"completion vectors are those below num_comp_vectors of the context, which differs between devices "
			"(ibv_create_cq(3))"}},
	{Rule::cap_over_profile,
		{"cap-over-profile", portability,
			"a device may have less than a program asks for, and max_inline_data has no query; ask for less until it "
			"is granted, or go on without (ibv_create_qp(3), ibv_query_device(3))"}},
	{Rule::gid_index_0,
		{"gid-index-0", portability,
			"a link-local GID reaches no other network; look for a routable one in the table (ibv_query_gid_ex(3))"}},
	{Rule::reset_to_reset,
		{"reset-to-reset", portability, "some devices refuse to change from IBV_QPS_RESET to IBV_QPS_RESET"}},
	{Rule::timeout_zero,
		{"timeout-zero", advice,
			"timeout 0 waits for ever for a peer that has vanished, and retry_cnt 0 gives up at the first lost packet "
			"(ibv_modify_qp(3))"}},
	{Rule::max_msg_implicit,
		{"max-msg-implicit", error,
			"a datagram is at most as long as the MTU of the port (ibv_query_port(3), active_mtu)"}},
	{Rule::port_num_constant,
		{"port-num-constant", portability,
			"the ports of a device are those from 1 to phys_port_cnt (ibv_query_device(3)), which differs between "
			"devices"}},
	{Rule::feature_unqueried,
		{"feature-unqueried", portability,
			"many devices have no atomics; look at the atomic_cap of ibv_query_device(3) first"}},
	{Rule::access_atomic_unneeded,
		{"access-atomic-unneeded", portability,
			"some devices without atomics refuse to register memory with IBV_ACCESS_REMOTE_ATOMIC (ROCm/mori#497); ask "
			"for it if the atomic_cap of ibv_query_device(3) says so, or if peers need it"}},
	{Rule::iwarp_read_sink,
		{"iwarp-read-sink", portability,
			"on iWARP the target of a READ needs IBV_ACCESS_REMOTE_WRITE, because the answer comes as a WRITE "
			"(ofiwg/libfabric#1707)"}},
	{Rule::qp_ex_without_fallback,
		{"qp-ex-without-fallback", portability,
			"many providers lack ibv_create_qp_ex() or some of its operations; use ibv_create_qp() and ibv_post_send() "
			"then (ibv_create_qp_ex(3))"}},
	{Rule::psn_constant,
		{"psn-constant", advice,
			"whoever knows the first packet sequence number can inject packets; draw sq_psn at random for each queue "
			"pair"}},
	{Rule::qkey_constant,
		{"qkey-constant", advice,
			"0x11111111 is the Q_Key of the examples, which every stranger tries first; agree on a random one"}},
	{Rule::rkey_whole_memory,
		{"rkey-whole-memory", advice,
			"whoever has the key of a region can use all of it; register what peers need, and not more"}},
}};

constexpr bool in_order() {
	for (std::size_t i = 0; i < entries.size(); ++i)
		if (entries[i].rule != static_cast<Rule>(i)) return false;
	return true;
}
static_assert(in_order());

}  // namespace

const RuleFacts& facts_of(Rule rule) { return entries[static_cast<std::size_t>(rule)].facts; }

std::string_view name_of(Severity severity) {
	constexpr std::string_view names[] = {"error", "portability", "advice"};
	return names[static_cast<std::size_t>(severity)];
}

}  // namespace verbena::rules
