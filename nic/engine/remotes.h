// The engine's UDP side: the paths to addresses of other hosts, the packets that come from there,
// and packets that reached the wrong process of this host.
//
// Every process that speaks to other hosts is bound to port 4791, and the kernel assigns each flow
// to one of them by a hash. A process that receives a packet for a queue pair number that it does
// not own forwards it to the owner of the number's block over the same-host link. Where there is no
// such link yet, the Connector makes it, and a few packets wait for it, because a lost datagram is
// not sent again. A flow of more than a few packets gets a connected socket at its owner: its
// packets then arrive there directly, and still do when other processes come and go.
//
// Threads: every method under the engine's lock.
// Owns: the UDP socket pair, opened by the first path or by listen(), and the paths.
// Lifetime: paths live as long as this object.
// Errors: errno values; a packet that cannot be delivered costs a counter.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nic/engine/connector.h"
#include "nic/engine/neighbours.h"
#include "nic/engine/remote.h"

namespace verbena::engine {

class Remotes : public ForwardedPackets {
public:
	// `engine` serves the connecting thread, `epoll` watches the socket. All four outlive this
	// object.
	Remotes(Engine& engine, adapter::ChannelAdapter& adapter, Neighbours& neighbours, EpollSet& epoll);
	Remotes(const Remotes&) = delete;
	Remotes& operator=(const Remotes&) = delete;

	// The outlet to a destination from one of this host's addresses. EADDRINUSE: another user, or
	// the kernel's Soft-RoCE, holds the port; other errno values of socket calls.
	std::expected<transport::Outlet*, int> outlet_to(const wire::AddressPair&);
	// Receives from now on; if the port cannot be had, only packets that neighbours forward.
	void listen();

	// A pass's share: takes in what has arrived, and sends what had found no room. True: packets
	// moved.
	bool pass();
	// The last pass left nothing unread, so that a missing acknowledgement is really missing.
	bool dry() const { return !udp_ || udp_->dry(); }
	// Packets were written to the outlet. True: all have left, and there is room again.
	bool transmit(transport::Outlet& outlet) { return static_cast<Remote*>(outlet.user)->transmit(); }
	// A socket has no room for what is to be sent.
	bool blocked() const;
	// A neighbour received this packet for one of our queue pairs. It is parsed and checked as if
	// it had come directly, and never forwarded again.
	void take_forwarded(std::span<const std::byte> payload) override;

	// Datagrams to the group, on the interface, are received until leave() was called as often as
	// join(). join() returns 0 or an errno value.
	int join(const wire::Gid& group, std::uint32_t interface_index);
	void leave(const wire::Gid& group, std::uint32_t interface_index);

	struct Counters {
		std::uint64_t forwarded = 0;  // to another process of this host
		std::uint64_t taken = 0;      // from another process of this host
		// For a queue pair number without an owner on this host, or whose owner could not be
		// reached.
		std::uint64_t unowned = 0;
		std::uint64_t forward_no_room = 0;
	};
	const Counters& counters() const { return counters_; }

	// In the child of a fork: gives up the socket.
	void abandon_after_fork();

private:
	using FlowKey = std::array<std::uint8_t, 34>;  // both addresses, and the sender's port
	struct Held {
		Place owner;
		std::vector<std::byte> payload;  // wire::ForwardedPacket, then the datagram
	};

	void open();
	void handle(const wire::Slot&, const std::byte* payload, const wire::AddressPair&);
	void forward(Place owner, const link::UdpPacket&);
	void forward_to(transport::Outlet&, std::span<const std::byte> payload, std::span<const std::byte> rest);
	void release_held(Place, std::expected<transport::Outlet*, int>);
	void handle_management(std::span<const std::byte> datagram, const wire::AddressPair&);
	std::optional<Place> owner_elsewhere(const link::UdpPacket&) const;
	void count_flow(const wire::AddressPair&, std::uint16_t source_port);
	void steer_busy_flow();
	Remote* from(const wire::AddressPair&);

	adapter::ChannelAdapter& adapter_;
	Neighbours& neighbours_;
	EpollSet& epoll_;
	std::unique_ptr<link::UdpLink> udp_;
	std::vector<std::unique_ptr<Remote>> remotes_;
	Remote* last_from_ = nullptr;  // the path of the last packet, since packets mostly come in runs
	std::uint64_t pairs_ = 0;      // names pairs of addresses
	std::uint32_t idle_passes_ = 0;
	Counters counters_;
	std::map<std::pair<wire::Gid, std::uint32_t>, int> groups_;  // the number of joins of each
	std::vector<Held> held_;                   // packets for places that are being connected to
	std::map<FlowKey, std::uint32_t> flows_;  // packets of each flow without its own socket
	std::optional<FlowKey> busy_;              // the next flow to get one
	Connector connector_;
};

}  // namespace verbena::engine
