// SPDX-License-Identifier: Apache-2.0
#include "tools/waiting.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::tools {
namespace {

using status::Process;
using status::QueuePair;

const Process* find(std::span<const Process> all, std::uint32_t pid) {
	const auto found = std::ranges::find(all, pid, &Process::pid);
	return found == all.end() ? nullptr : &*found;
}

const QueuePair* find(const Process* process, std::uint32_t qpn) {
	if (!process) return nullptr;
	const auto found = std::ranges::find(process->queue_pairs, qpn, &QueuePair::qpn);
	return found == process->queue_pairs.end() ? nullptr : &*found;
}

std::string count(std::uint32_t number, const char* what) {
	return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// The queue pair at the other end, and its process.
struct PeerView {
	std::string name;  // "process 812 (server)"
	const Process* process = nullptr;  // null: it did not answer, or is on another host
	const QueuePair* qp = nullptr;
	bool stopped = false;
};

PeerView peer_of(const QueuePair& qp, const Looks& looks) {
	PeerView peer;
	if (qp.peer_pid == 0) {
		peer.name = qp.link == "memory" ? "a process that has ended" : qp.peer_address;
		return peer;
	}
	peer.process = find(looks.now, qp.peer_pid);
	peer.qp = find(peer.process, qp.peer_qpn);
	peer.stopped = looks.is_stopped(qp.peer_pid);
	peer.name = peer.process ? fmt::format("process {} ({})", qp.peer_pid, peer.process->program)
							 : fmt::format("process {}", qp.peer_pid);
	return peer;
}

std::string why_no_answer(const QueuePair& qp, const PeerView& peer) {
	if (peer.stopped) return fmt::format("{} is stopped, by a signal or a debugger; SIGCONT lets it go on", peer.name);
	if (peer.process && !peer.qp) return fmt::format("{} has no queue pair 0x{:x} any more", peer.name, qp.peer_qpn);
	if (peer.qp && (peer.qp->state == "RESET" || peer.qp->state == "INIT"))
		return fmt::format(
			"QP 0x{:x} of {} is in {} and takes no packet; it must be in RTR before the first message "
			"(ibv_modify_qp(3))",
			qp.peer_qpn, peer.name, peer.qp->state);
	if (peer.qp && peer.qp->state == "ERR")
		return fmt::format("QP 0x{:x} of {} is in ERR and answers nothing", qp.peer_qpn, peer.name);
	if (qp.waits == "receive" && peer.qp)
		return fmt::format(
			"QP 0x{:x} of {} has {} posted ({} posted, {} used so far); post receives before the peer "
			"sends (ibv_post_recv(3))",
			qp.peer_qpn, peer.name,
			peer.qp->receives_open() ? count(peer.qp->receives_open(), "receive") : "no receive",
			peer.qp->receives_posted, peer.qp->receives_taken);
	if (qp.waits == "receive")
		return fmt::format("{} has no receive posted, or no queue pair that can receive", peer.name);
	if (qp.waits == "room") return fmt::format("{} does not take in what was sent", peer.name);
	return fmt::format("{} has not answered; retries left: {}", peer.name, qp.retries_left);
}

std::string why_no_message(const QueuePair& qp, const PeerView& peer) {
	if (peer.stopped) return fmt::format("{} is stopped, by a signal or a debugger; SIGCONT lets it go on", peer.name);
	if (!peer.qp) return fmt::format("{} sends none", peer.name);
	if (peer.qp->sends_open() != 0)
		return fmt::format(
			"QP 0x{:x} of {} has {} under way", qp.peer_qpn, peer.name, count(peer.qp->sends_open(), "request"));
	return fmt::format("QP 0x{:x} of {} has none under way ({} complete){}", qp.peer_qpn, peer.name,
		count(peer.qp->sends_done, "request"),
		peer.qp->receives_open() != 0 ? ": each end waits for the other to send" : "");
}

// Empty: nothing is posted, so nothing waits.
std::string why_idle(const QueuePair& qp, const Looks& looks) {
	const std::string name = fmt::format("QP 0x{:x}", qp.qpn);
	if (qp.state == "ERR")
		return fmt::format(
			"{} is in ERR: what is posted completes with IBV_WC_WR_FLUSH_ERR; VERBENA_LOG=warn says why", name);
	if (qp.sends_open() != 0) {
		if (qp.state == "RESET" || qp.state == "INIT" || qp.state == "RTR")
			return fmt::format("{} waits with {} in state {}: requests are sent from RTS on (ibv_modify_qp(3))", name,
				count(qp.sends_open(), "send request"), qp.state);
		if (qp.type == "UD")
			return fmt::format("{} waits with {} for room on the link", name, count(qp.sends_open(), "datagram"));
		return fmt::format("{} waits with {}: {}", name, count(qp.sends_open(), "send request"),
			why_no_answer(qp, peer_of(qp, looks)));
	}
	if (qp.unpolled != 0)
		return fmt::format(
			"{} has nothing to send, and {} in its completion queues: the program has not polled them; "
			"poll until ibv_poll_cq(3) returns 0, also after ibv_req_notify_cq(3)",
			name, count(qp.unpolled, "completion"));
	if (qp.receives_open() == 0) return {};
	if (qp.type == "UD" || qp.peer_qpn == 0) return fmt::format("{} waits for a message", name);
	return fmt::format("{} waits for a message: {}", name, why_no_message(qp, peer_of(qp, looks)));
}

}  // namespace

std::vector<std::string> why_waiting(std::uint32_t pid, const Looks& looks) {
	std::vector<std::string> sentences;
	const Process* const before = find(looks.before, pid);
	const Process* const now = find(looks.now, pid);
	if (!now) return sentences;
	for (const QueuePair& qp : now->queue_pairs) {
		const QueuePair* const then = find(before, qp.qpn);
		const bool moved = !then || then->sends_done != qp.sends_done || then->receives_taken != qp.receives_taken;
		if (moved) continue;
		if (std::string why = why_idle(qp, looks); !why.empty()) sentences.push_back(std::move(why));
	}
	return sentences;
}

}  // namespace verbena::tools
