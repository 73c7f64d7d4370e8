// The NIC as one object without I/O (vol. 1, chapter 11: a channel adapter). Time is an argument and links are memory,
// so the same object runs behind the verbs of a process, on the virtual clock of the simulator, and in a fuzzer. Wiring
// only: the protocol is in transport/.
//
// The contract of a pass, under the engine's lock:
//   1. begin_pass(now);
//   2. handle_slot(...), handle_ack(...) for what the links brought; handle_timeouts() when poll_timeout() is due;
//   transmit(qp) for posted work;
//      resume(outlet) for outlets on which QPs wait;
//   3. finish_pass(): responses leave. No pass may end without it, or the last side to exit turns its peer's success
//   into an error;
//   4. take events from context().raised_queues and context().raised_events.
//
// Not movable: everything holds pointers into it. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nic/adapter/qp_table.h"
#include "nic/cm/connection_manager.h"
#include "nic/transport/context.h"

namespace verbena::adapter {

struct QpInit {
	transport::QpType type = transport::QpType::rc;
	std::uint32_t protection_domain = 0;
	queues::CompletionQueue* send_cq = nullptr;
	queues::CompletionQueue* recv_cq = nullptr;
	queues::ReceiveQueue* shared_receive_queue = nullptr;
	std::uint32_t send_entries = 1;
	std::uint32_t receive_entries = 1;
	std::uint16_t send_segments = 1;
	std::uint16_t receive_segments = 1;
	std::uint16_t inline_bytes = 0;
	bool signal_all = false;
	void* user = nullptr;
};

struct QpChange {
	std::uint32_t mask = 0;  // transport::QpAttributeMask
	transport::QpState state = transport::QpState::reset;
	transport::QpState current_state = transport::QpState::reset;
	transport::QueuePairAttributes attributes;
	std::uint32_t receive_psn = 0, send_psn = 0;
	std::uint32_t destination_qpn = 0;
	transport::Outlet* outlet = nullptr;  // with qp_av on a connected QP
	bool sqd_notify = false;
};

class ChannelAdapter {
public:
	explicit ChannelAdapter(std::uint64_t key_secret, Nanoseconds now = 0)
		: context_(key_secret, now), connections_(key_secret ^ 0x636d, now) {}
	ChannelAdapter(const ChannelAdapter&) = delete;
	ChannelAdapter& operator=(const ChannelAdapter&) = delete;

	transport::Context& context() { return context_; }
	QpTable& queue_pairs() { return table_; }
	// Behind queue pair 1. What it has to send leaves with finish_pass(); a route's carrier is an outlet.
	cm::ConnectionManager& connections() { return connections_; }

	// Commands
	transport::QueuePair* create_qp(const QpInit&);  // null: no QPN is free
	bool modify_qp(transport::QueuePair&,
		const QpChange&);  // false: the transition or an attribute is not allowed; nothing changed
	void destroy_qp(transport::QueuePair&);
	void transmit(transport::QueuePair& qp);
	// Datagrams to the group reach the queue pair, too (10.5.2). False: they do, or do not, already.
	bool attach_multicast(const wire::Gid& group, transport::QueuePair&);
	bool detach_multicast(const wire::Gid& group, transport::QueuePair&);

	// A pass
	void begin_pass(Nanoseconds now) { context_.now = now; }
	// A slot or an acknowledgement for that QP comes soon.
	void expect(wire::Qpn qpn) const {
		if (table_.count() > in_cache_anyway) table_.prefetch(qpn);
	}
	void handle_slot(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);
	// A READ's response whose payload the peer lends; null: it could not be had.
	void handle_lent(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::SlotReader& lent_by);
	void handle_ack(transport::Outlet& from, wire::AckRecord);
	// For queue pair 1, from `addresses.source`; answers go by `back`.
	void handle_management(
		transport::Outlet& back, std::span<const std::byte> datagram, const wire::AddressPair& addresses);
	void handle_timeouts();
	void resume(transport::Outlet&);
	void finish_pass();

	// Responses wait for room on an outlet: a pass is needed although nothing comes in.
	bool owes_responses() const { return context_.owing_first != nullptr; }
	// Nanoseconds of the next timer, or `never`.
	Nanoseconds poll_timeout() const;

	// The peer behind this outlet is gone: what was sent to it fails with retry_exceeded.
	void fail_outlet(transport::Outlet&);

private:
	static constexpr std::size_t in_cache_anyway = 64;  // queue pairs whose prefetching costs more than it saves

	void forget(transport::QueuePair&);
	void revoke_loans(transport::QueuePair&);
	void reset(transport::QueuePair&);
	void send_management();
	void handle_multicast(const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);

	transport::Context context_;
	QpTable table_;
	cm::ConnectionManager connections_;
	std::vector<std::pair<wire::Gid, transport::QueuePair*>> multicast_;
};

}  // namespace verbena::adapter
