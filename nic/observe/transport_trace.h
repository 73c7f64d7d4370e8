// SPDX-License-Identifier: Apache-2.0
// Writes what the transport does into the process's trace (nic/trace): packets, acknowledgements,
// ends of requests, waits.
//
// Threads: under the engine's lock, as every transport::Observer.
// Lifetime: that of the process; made only if there is a trace.
#pragma once

#include <span>

#include "nic/adapter/channel_adapter.h"
#include "nic/trace/trace.h"
#include "nic/transport/observer.h"

namespace verbena::observe {

class TransportTrace final : public transport::Observer {
public:
	explicit TransportTrace(adapter::ChannelAdapter& adapter) : adapter_(adapter) {}

	void sent(
		const transport::Outlet&, const wire::Slot&, std::uint32_t length, std::uint32_t source) noexcept override;
	bool arrived(const transport::Outlet& from, const wire::Slot&, const std::byte* payload,
		const wire::AddressPair&) noexcept override;
	void acknowledged(const transport::QueuePair&, std::uint8_t syndrome, wire::Psn24) noexcept override;
	void acknowledgement_arrived(const transport::Outlet& from, const wire::AckRecord&) noexcept override;
	void finished(const transport::QueuePair&, const queues::SendWqe&, queues::Status, bool direct) noexcept override;
	void received(const queues::Completion&) noexcept override;
	void waits(const transport::QueuePair&, transport::Waits, Nanoseconds pause) noexcept override;

private:
	// Writes a packet, and its addresses and payload if packets are captured.
	void write_packet(
		const trace::Record&, const wire::Slot&, std::span<const std::byte> payload, const wire::AddressPair&) const;
	// The addresses of a packet that this queue pair sends, or receives (`reverse`).
	static wire::AddressPair addresses_of(const transport::QueuePair*, bool reverse);

	adapter::ChannelAdapter& adapter_;
};

}  // namespace verbena::observe
