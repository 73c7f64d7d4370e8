// SPDX-License-Identifier: Apache-2.0
// Reports to the checker's book what peers do to the memory of this process.
//
// Threads: under the engine's lock, as every transport::Observer.
// Lifetime: that of the process; made only if the process is checked.
#pragma once

#include "nic/adapter/channel_adapter.h"
#include "nic/engine/engine.h"
#include "nic/transport/observer.h"
#include "nic/verbs/polled_writes.h"

namespace verbena::verbs {

class CheckedArrivals final : public transport::Observer {
public:
	// `next`: the observer that the adapter had; may be null.
	CheckedArrivals(adapter::ChannelAdapter& adapter, transport::Observer* next) : adapter_(adapter), next_(next) {}

	void sent(
		const transport::Outlet&, const wire::Slot&, std::uint32_t length, std::uint32_t source) noexcept override;
	bool arrived(const transport::Outlet& from, const wire::Slot&, const std::byte* payload,
		const wire::AddressPair&) noexcept override;
	void handled() noexcept override;
	void acknowledged(const transport::QueuePair&, std::uint8_t syndrome, wire::Psn24) noexcept override;
	void acknowledgement_arrived(const transport::Outlet&, const wire::AckRecord&) noexcept override;
	void finished(const transport::QueuePair&, const queues::SendWqe&, queues::Status, bool direct) noexcept override;
	void received(const queues::Completion&) noexcept override;
	void waits(const transport::QueuePair&, transport::Waits, Nanoseconds pause) noexcept override;
	void ends(transport::QueuePair&) noexcept override;
	bool holds_message() noexcept override;
	void withdrawn() noexcept override;

private:
	void note(const transport::QueuePair&, const wire::Slot&, const wire::OpcodeFacts&);
	void note_send(const transport::QueuePair&);
	void note_write(const transport::QueuePair&, const wire::Slot&, bool last);
	void note_atomic(const transport::QueuePair&, const wire::Slot&);
	std::byte* find(const transport::QueuePair&, std::uint32_t key, std::uint64_t address, std::uint32_t length,
		std::uint8_t access);

	adapter::ChannelAdapter& adapter_;
	PolledWrites polled_writes_;
	transport::Observer* const next_;
};

// Lets the book see what the engine's peers do, if the process is checked.
void check_arrivals(engine::Engine&);

}  // namespace verbena::verbs
