// SPDX-License-Identifier: Apache-2.0
// The UDP path from this host to one address of another, in the shape of a same-host link.
//
// The adapter writes slots into a `Direction` and does not know that no other process maps it.
// `transmit` reads the slots, cuts them into packets and passes them to the kernel in batches of
// equal length.
//
// Threads: owned by one engine and used under its lock.
// Owns: the Direction. Refers to the UdpLink, which must outlive it.
// Errors: a packet for which the socket has no room stays in the ring for the next call, and a full
//   ring stops the adapter. A packet that can never be sent is dropped and counted (UdpCounters);
//   the transport's retries handle it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "nic/link/udp_link.h"
#include "nic/wire/flow.h"
#include "nic/wire/slot_ring.h"

namespace verbena::link {

struct UdpPathOptions {
	wire::Gid source{};  // an address of this host
	wire::Gid destination{};  // must be of the same family
	std::uint16_t destination_port = wire::roce_port;
	// The next two are for packets of connected queue pairs. Those of a datagram are in the
	// direction's table of address pairs.
	std::uint8_t traffic_class = 0;
	std::uint8_t hop_limit = 64;
	std::uint32_t interface_index = 0;  // required for a link-local destination
	// True: the path has no destination. Each slot goes to the addresses of its entry in the
	// direction's table of address pairs; `interface_of` gives the interface of an own address, for
	// link-local destinations. All slots are management datagrams.
	bool addressed = false;
	std::function<std::uint32_t(const wire::Gid& source)> interface_of;
};

class UdpPath {
public:
	UdpPath(UdpLink& link, const UdpPathOptions& options);
	virtual ~UdpPath() = default;
	UdpPath(const UdpPath&) = delete;
	UdpPath& operator=(const UdpPath&) = delete;

	// The ring into which the adapter writes with a SlotWriter. The path does not read the ring of
	// acknowledgement records: on a link that can lose packets an acknowledgement is a slot.
	wire::Direction* direction() const { return direction_.get(); }

	// Sends all published slots, in order. Returns false if the socket is full and slots are left;
	// the caller then calls transmit() again in a later pass.
	virtual bool transmit();
	// When to call transmit() again although nothing was written; `never` if a later pass is early
	// enough.
	virtual Nanoseconds due() const { return never; }
	// The process ends: sends what a derived path has kept.
	virtual void finish() {}

	// Gives the memory of slots and payloads back to the kernel, until it is written again. All
	// published slots must have been sent.
	void trim();
	// The memory that a path keeps after trim(), and that which its slots take.
	static constexpr std::size_t trimmed_bytes_max = 20 * 1024, slot_bytes = sizeof(wire::Direction::slots);

	// UdpLink::unreachable() for the destination.
	std::optional<UnreachableHosts::Report> unreachable() { return link_.unreachable(flow_.destination); }

protected:
	wire::SlotReader& reader() { return cursor_.reader; }
	// The addresses and ports of the packets of a slot.
	wire::Flow flow_of(const wire::Slot& slot) const;
	// Sends one packet, as UdpLink::send().
	SendOutcome send_packet(const wire::Flow& flow, std::span<std::byte> bytes);

private:
	struct Unmap {
		void operator()(wire::Direction* direction) const;
	};
	// The position of the next packet: a slot of the ring, and an index in its run of packets.
	struct Cursor {
		wire::SlotReader reader;
		std::uint32_t index = 0;
	};
	class Batch;

	void fill(Batch& batch);
	std::uint32_t interface_for(const wire::Flow& flow) const;

	UdpLink& link_;
	wire::Flow flow_;
	std::uint32_t interface_index_;
	bool addressed_;
	std::function<std::uint32_t(const wire::Gid&)> interface_of_;
	std::unique_ptr<wire::Direction, Unmap> direction_;
	Cursor cursor_;
	// The number of packets still to be sent one by one, after the kernel could not segment a
	// batch.
	std::size_t unbatched_left_ = 0;
};

}  // namespace verbena::link
