// SPDX-License-Identifier: Apache-2.0
// The rules of `verbena run --check`: the name, the severity and the reason of each.
//
// Source of the names and of the reasons: the manual pages and the files of rdma-core that `why`
// names. docs/rules has a page for each rule.
//
// Threads: constants.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::rules {

// error: the program is wrong on every device. portability: it depends on the device or on luck.
// advice: it is slower, less secure or more fragile than it could be.
enum class Severity : std::uint8_t { error, portability, advice };

enum class Rule : std::uint8_t {
	// Lifetime
	mr_dereg_in_flight,
	mr_dereg_advertised,
	mem_freed_while_registered,
	mem_remapped_while_registered,
	mem_given_back_while_registered,
	mr_overlap_stale_cache,
	mw_mr_order,
	pd_destroy_order,
	ah_destroy_in_flight,
	ack_missing,
	ack_wrong_cq,
	qp_destroy_with_work,
	srq_qp_no_last_wqe,
	event_after_destroy_thread,
	use_after_destroy,
	fork_after_reg,
	leak_at_exit,
	cm_destroy_order,
	// Buffers
	send_buffer_modified,
	send_buffer_freed,
	stack_buffer_in_flight,
	recv_overlap,
	sge_overlap_one_wr,
	ud_grh_missing,
	remote_write_on_posted,
	recv_touched,
	remote_races,
	lkey_for_rkey,
	// Queues and events
	sq_unsignaled_full,
	post_error_ignored,
	cq_too_small,
	cq_overrun,
	rq_starved_rnr,
	notify_lost_wakeup,
	notify_not_armed,
	signaled_flag_missing,
	recv_on_srq_qp,
	post_in_wrong_state,
	post_in_err,
	inline_too_long,
	inline_bad_opcode,
	inline_lkey_trust,
	wr_start_nesting,
	thread_unsafe_td,
	rd_atomic_mismatch,
	sqd_misuse,
	sq_depth_by_luck,
	send_completion_means_slot,
	// Ordering
	poll_memory_write,
	write_flag_other_qp,
	read_then_write_nofence,
	fence_expects_write,
	atomic_unaligned,
	atomic_vs_cpu,
	atomic_vs_write,
	atomic_two_devices,
	// Portability
	access_write_without_local,
	no_grh,
	mtu_not_negotiated,
	comp_vector,
	cap_over_profile,
	gid_index_0,
	reset_to_reset,
	timeout_zero,
	max_msg_implicit,
	port_num_constant,
	feature_unqueried,
	access_atomic_unneeded,
	iwarp_read_sink,
	qp_ex_without_fallback,
	// Security
	psn_constant,
	qkey_constant,
	rkey_whole_memory,
	count,
};

struct RuleFacts {
	std::string_view id;  // "mr-dereg-in-flight", as in docs/rules and in files of suppressions
	Severity severity;
	std::string_view why;  // one sentence, with its source
};

const RuleFacts& facts_of(Rule);
std::string_view name_of(Severity);

}  // namespace verbena::rules
