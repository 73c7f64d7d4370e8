// The engine's UDP side: the paths to addresses of other hosts, the packets that come from there,
// and packets that reached the wrong process of this host.
//
// Every process that speaks to other hosts is bound to port 4791, and the kernel assigns each flow
// to one of them by a hash. A process that receives a packet for a queue pair number that it does
// not own forwards the packet to the owner of the number's block over the same-host link. If that
// link does not exist yet, the Connector makes it. A limited number of packets wait for the link,
// because a lost datagram is not sent again. A flow of more than a few packets gets a connected
// socket in the process that owns the queue pair: the flow's packets then arrive there directly,
// and still do when other processes come and go.
//
// Threads: every method under the engine's lock.
// Owns: the UDP socket pair, opened by the first path or by listen(), and the paths.
// Lifetime: paths live as long as this object.
// Errors: errno values. A packet that cannot be delivered is dropped and counted.
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
	// `engine` is for the Connector's thread, and `epoll` watches the UDP sockets. All four
	// arguments must outlive this object.
	Remotes(Engine& engine, adapter::ChannelAdapter& adapter, Neighbours& neighbours, EpollSet& epoll);
	Remotes(const Remotes&) = delete;
	Remotes& operator=(const Remotes&) = delete;

	// The outlet to a destination from one of this host's addresses. EADDRINUSE: another user, or
	// the kernel's Soft-RoCE, holds the port; EINVAL: one address is IPv4 and the other IPv6; other
	// errno values of socket calls.
	std::expected<transport::Outlet*, int> outlet_to(const wire::AddressPair&);
	// From now on pass() receives packets. Returns 0 or an errno value. If another user holds the
	// port, or a family is missing, that is 0, and only the packets that neighbours forward arrive.
	int listen();
	// After listen(): 0, or the errno that keeps UDP over IPv4 from being received.
	int listening_error() const { return udp_ ? udp_->error(link::Family::ipv4) : 0; }

	// The UDP part of one pass of the engine: takes in packets that have arrived, and sends those
	// for which a socket had no room before. Returns true if packets moved.
	bool pass();
	// True if the last pass left no packet unread, so an acknowledgement that is missing has not
	// arrived.
	bool dry() const { return !udp_ || udp_->dry(); }
	// Sends the packets that were written to the outlet. Returns true if all have left, so that the
	// outlet has room again.
	bool transmit(transport::Outlet& outlet) { return static_cast<Remote*>(outlet.user)->transmit(); }
	// The errno of an ICMP message about the host, if one came within `age`; otherwise 0.
	int unreachable(const wire::Gid& host, Nanoseconds age) {
		return udp_ ? Remote::recent_error(udp_->unreachable(host), age) : 0;
	}
	// True if packets of any path wait for room in a socket.
	bool blocked() const;
	// Takes a packet that a neighbour received for one of our queue pairs: parses and checks the
	// packet as if it had come directly, and never forwards it again.
	void take_forwarded(std::span<const std::byte> payload) override;

	// Datagrams to the group that arrive on the interface are received from the first join() on,
	// until leave() has been called once for each join(). join() returns 0 or an errno value.
	int join(const wire::Gid& group, std::uint32_t interface_index);
	void leave(const wire::Gid& group, std::uint32_t interface_index);

	struct Counters {
		wire::Traffic forwarded;  // to another process of this host
		wire::Traffic taken;  // from another process of this host
		// Dropped: no process of this host owns the queue pair number, or its owner could not be
		// reached.
		std::uint64_t unowned = 0;
		std::uint64_t forward_no_room = 0;  // dropped: the link to the owner was full
	};
	const Counters& counters() const { return counters_; }
	// Adds the traffic of all paths. A packet that arrived at the wrong process counts in its
	// owner.
	void count(PortCounts&) const;

	// To be called in the child of a fork: closes the UDP sockets.
	void abandon_after_fork();

private:
	using FlowKey = std::array<std::uint8_t, 34>;  // both addresses, and the sender's port
	struct Held {
		Place owner;
		std::vector<std::byte> payload;  // wire::ForwardedPacket, then the datagram
	};

	int open();  // 0 or an errno value
	void handle(const wire::Slot&, const std::byte* payload, const wire::AddressPair&);
	void forward(Place owner, const link::UdpPacket&);
	void forward_to(transport::Outlet&, std::span<const std::byte> payload, std::span<const std::byte> rest);
	void release_held(Place, std::expected<transport::Outlet*, int>);
	bool handle_forwarded(std::span<const std::byte> payload);  // false: not for this process
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
	Remote* last_from_ = nullptr;  // the path of the last packet; packets mostly come in runs
	std::uint64_t pairs_ = 0;      // the last Outlet::peer assigned; one for each address pair
	std::uint32_t idle_passes_ = 0;
	Counters counters_;
	std::map<std::pair<wire::Gid, std::uint32_t>, int> groups_;  // the number of joins of each
	std::vector<Held> held_;                   // packets for places that are being connected to
	std::map<FlowKey, std::uint32_t> flows_;  // packets of each flow without its own socket
	std::optional<FlowKey> busy_;              // the next flow to get its own socket
	Connector connector_;
};

}  // namespace verbena::engine
