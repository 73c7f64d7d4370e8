// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/datagram.h"

#include <algorithm>
#include <array>

#include "nic/transport/in_flight.h"
#include "nic/transport/receive.h"
#include "nic/wire/grh.h"
#include "nic/wire/icrc.h"

namespace verbena::transport {

using queues::Status;

namespace {

// The service level of a received datagram: RoCE has none, and adapters report in its four bits
// that UDP carried the datagram (8), over IPv4 (2) or IPv6 (1). UCX before 1.19 reads there which
// of the two headers it finds in the first 40 bytes (docs/decisions/0021).
std::uint8_t network_type(const wire::AddressPair& addresses) {
	wire::Gid destination;
	std::ranges::copy(addresses.destination, destination.begin());
	return wire::is_ipv4_mapped(destination) ? 0xa : 0x9;
}

}  // namespace

void handle_datagram(Context& context, QueuePair& qp, const wire::Slot& slot, const std::byte* payload,
	const wire::AddressPair& addresses) {
	++context.counters.requests_received;
	if (slot.deth.q_key != qp.q_key) {
		++context.counters.datagrams_dropped_q_key;
		return;
	}
	queues::ReceiveWqe* wqe = qp.receive_queue->front();
	if (!wqe) {
		++context.counters.datagrams_dropped_no_receive;
		return;
	}
	// IBA 9.8.3: a datagram that does not fit is dropped, and the receive WQE serves the next
	// datagram. A receive WQE whose memory the QP may not write is the program's error: it
	// completes with local_protection, and the QP enters the error state (IBA 9.9).
	std::array<std::byte, wire::grh_size> grh;
	const std::uint32_t padded = (slot.length + 3) & ~3u;
	wire::write_grh(grh, addresses, wire::facts(slot.opcode()).header_bytes + padded + wire::icrc_size);
	Status status = scatter(context, qp, *wqe, 0, grh.data(), grh.size());
	if (status == Status::success) status = scatter(context, qp, *wqe, grh.size(), payload, slot.length);
	if (status == Status::local_length) {
		++context.counters.datagrams_dropped_no_receive;
		return;
	}
	if (status != Status::success) [[unlikely]] {
		const std::uint64_t wr_id = wqe->wr_id;
		pop_receive(context, qp);
		context.complete(*qp.recv_cq,
			{.wr_id = wr_id, .qpn = qp.qpn, .status = status, .opcode = queues::Completed::receive}, false);
		return enter_error(context, qp, ErrorCause::receive);
	}
	queues::Completion completion{.wr_id = wqe->wr_id,
		.length = static_cast<std::uint32_t>(grh.size()) + slot.length,
		.qpn = qp.qpn,
		.source_qp = slot.deth.source_qp().value,
		.status = Status::success,
		.opcode = queues::Completed::receive,
		.flags = queues::completion_grh,
		.sl = network_type(addresses)};
	if (wire::facts(slot.opcode()).immediate) {
		completion.immediate = slot.word;
		completion.flags |= queues::completion_with_imm;
	}
	pop_receive(context, qp);
	context.complete(*qp.recv_cq, completion, slot.solicited());
}

}  // namespace verbena::transport
