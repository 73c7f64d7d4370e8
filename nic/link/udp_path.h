// From this host to one address over UDP, in the shape of a same-host link: the adapter writes slots and
// acknowledgements into a `Direction` and does not know that nobody maps the other side; `transmit` reads them, cuts
// them into packets and gives them to the kernel in batches of equal length.
//
// Nothing is lost here in silence: what a socket has no room for stays in the ring and is sent by the next call, and
// the ring in turn stops the adapter; what can never be sent is dropped and counted (UdpCounters), and the transport's
// retries deal with it. Acknowledgements go after the slots that were written before them, so they never overtake a
// response.
//
// Owned by one engine, used under its lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "nic/link/udp_link.h"
#include "nic/wire/flow.h"
#include "nic/wire/slot_ring.h"

namespace verbena::link {

struct UdpPathOptions {
	wire::Gid source{};  // an address of this host
	wire::Gid destination{};  // of the same family
	std::uint16_t destination_port = wire::roce_port;
	std::uint8_t traffic_class =
		0;  // of what is not a datagram; a datagram's stand in the direction's table of address pairs
	std::uint8_t hop_limit = 64;
	std::uint32_t interface_index = 0;  // needed where the destination is link-local
};

class UdpPath {
public:
	UdpPath(UdpLink& link, const UdpPathOptions& options);
	UdpPath(const UdpPath&) = delete;
	UdpPath& operator=(const UdpPath&) = delete;

	// The producer's side: attach a SlotWriter and an AckWriter.
	wire::Direction* direction() const { return direction_.get(); }

	// Sends what is published. False: the socket is full and something is left; call again when `link.send_fd` is
	// writable.
	bool transmit();

private:
	struct Unmap {
		void operator()(wire::Direction* direction) const;
	};
	// Where in the ring, and in the run of the slot there, the next packet is.
	struct Cursor {
		wire::SlotReader reader;
		std::uint32_t index = 0;
	};
	class Batch;

	bool transmit_slots();
	bool transmit_acknowledgements();
	void fill(Batch& batch);
	wire::Flow flow_of(const wire::Slot& slot) const;

	UdpLink& link_;
	wire::Flow flow_;
	std::uint32_t interface_index_;
	std::unique_ptr<wire::Direction, Unmap> direction_;
	Cursor cursor_;
	wire::AckReader acknowledgements_;
	std::array<wire::AckRecord, UdpBatch::packets_max> owed_;  // read from the ring and not sent yet
	std::size_t owed_count_ = 0;
	std::size_t singly_ = 0;  // packets that must go one by one, because a batch of them was refused
};

}  // namespace verbena::link
