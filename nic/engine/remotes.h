// SPDX-License-Identifier: Apache-2.0
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
// Datagrams to queue pair 1 need no path: they all leave through one outlet, whose slots carry
// their own addresses. So a stranger that asks or answers costs nothing that stays.
//
// Threads: every method under the engine's lock.
// Owns: the UDP socket pair, opened by the first path or by listen(), and the paths.
// Lifetime: a path that no queue pair uses, and that carries nothing, is retired after a minute, or
//   earlier if the table of paths is full. It is freed when no datagram in a send queue points at
//   its outlet (free_unreferenced). An Outlet* from here is valid as long as those of Neighbours
//   are: until links_retired() has changed.
// Invariants: all paths together keep at most 32 MB of memory while their packets leave. Only
//   packets that wait for room in the socket can take more.
// Errors: errno values. A packet that cannot be delivered is dropped and counted.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nic/engine/connector.h"
#include "nic/engine/neighbours.h"
#include "nic/engine/path_table.h"
#include "nic/engine/port_relay.h"
#include "nic/engine/remote.h"
#include "nic/faults/network.h"

namespace verbena::engine {

class Remotes : public ForwardedPackets {
public:
	// `engine` is for the Connector's thread, and `epoll` watches the UDP sockets. All arguments
	// must outlive this object.
	// `network`: the faults that packets meet; null: none.
	Remotes(Engine& engine, adapter::ChannelAdapter& adapter, Neighbours& neighbours, EpollSet& epoll,
		faults::Network* network);
	Remotes(const Remotes&) = delete;
	Remotes& operator=(const Remotes&) = delete;

	// The outlet to a destination from one of this host's addresses. EADDRINUSE: another user that
	// passes no packets on, or the kernel's Soft-RoCE, holds the port; EINVAL: one address is IPv4
	// and the other IPv6; ENOSPC: the table is full of paths that are in use; other errno values of
	// socket calls.
	std::expected<transport::Outlet*, int> outlet_to(const wire::AddressPair&);
	// The outlet for management datagrams between these addresses. The errors of outlet_to(), but
	// not ENOSPC.
	std::expected<transport::Outlet*, int> management_outlet(const wire::AddressPair&);
	// Asks the peer of a queue pair, which sends to `peer` through the outlet, how much may be in
	// flight to it. To be called when the queue pair begins to use the outlet; asks at most once a
	// second.
	void ask_for_room(transport::Outlet&, wire::Qpn own, wire::Qpn peer);
	// From now on pass() receives packets. Returns 0 or an errno value. If another user holds the
	// port, or a family is missing, that is 0, and only the packets that neighbours forward arrive.
	int listen();
	// After listen(): 0, or the errno that keeps UDP over IPv4 from being received.
	int listening_error() const {
		return udp_ && !relay_.active(link::Family::ipv4) ? udp_->error(link::Family::ipv4) : 0;
	}

	// The UDP part of one pass of the engine: takes in packets that have arrived, and sends those
	// for which a socket had no room before. Returns true if packets moved.
	bool pass();
	// Makes the next pass look at the sockets. For the progress thread, which they wake.
	void look_at_sockets() { idle_passes_ = ~0u; }
	bool has_paths() const { return !paths_.empty(); }
	// The sockets have woken the progress thread. They wake it again after wake_again().
	void note_wake() { silent_ = true; }
	void wake_again() {
		if (udp_ && silent_) silent_ = !epoll_.wake_again(udp_->ready_fd());
	}
	// True if they do not wake it, or, after wake_again(), if the kernel has refused that.
	bool silent() const { return silent_; }
	// True if the last pass left no packet unread, so an acknowledgement that is missing has not
	// arrived.
	bool dry() const { return !udp_ || udp_->dry(); }
	// True if the last pass took in a part of a large transfer, so more is probably on its way.
	bool took_much() const { return taken_in_ >= much; }
	// Sends the packets that were written to the outlet. Returns true if all have left, so that the
	// outlet has room again.
	bool transmit(transport::Outlet& outlet) {
		Remote& remote = *static_cast<Remote*>(outlet.user);
		const bool all_left = remote.transmit();
		if (outlet.addressed) management_sent_at_ = adapter_.context().now;
		if (!all_left || outlet.waiting_first) [[unlikely]]
			note_unsettled(remote);
		if (remote.touched_bytes() > remote.counted_bytes) [[unlikely]]
			note_memory(remote);
		return all_left;
	}
	// The errno of an ICMP message about the host, if one came within `age`; otherwise 0.
	int unreachable(const wire::Gid& host, Nanoseconds age) {
		return udp_ ? Remote::recent_error(udp_->unreachable(host), age) : 0;
	}
	// True if packets of any path wait for room in a socket.
	bool blocked() const;
	// The process ends: packets that faults have delayed leave now.
	void let_go();
	// Retires the paths that are not used any more and frees those that were retired, if nothing
	// points at them; calls `freed` for the outlet of each. Takes the port if another user has
	// released it. To call at `upkeep_due()`, or earlier.
	void upkeep(Nanoseconds now, const std::function<void(const transport::Outlet&)>& freed);
	Nanoseconds upkeep_due() const;
	bool has_retired() const { return !retired_.empty(); }
	// Takes a packet that a neighbour received for one of our queue pairs: parses and checks the
	// packet as if it had come directly, and never forwards it again.
	// A stranger's packet is dropped unless that user has the port (port_relay.h).
	void take_forwarded(std::span<const std::byte> payload, std::optional<uid_t> stranger) override;

	// Datagrams to the group that arrive on the interface are received from the first join() on,
	// until leave() has been called once for each join(). join() returns 0 or an errno value.
	int join(const wire::Gid& group, std::uint32_t interface_index);
	void leave(const wire::Gid& group, std::uint32_t interface_index);

	struct Counters {
		wire::Traffic forwarded;  // to another process of this host
		wire::Traffic taken;  // from another process of this host
		wire::Traffic room_sent, room_received;  // messages about room, which no program sends
		// Dropped: no process of this host owns the queue pair number, or its owner could not be
		// reached.
		std::uint64_t unowned = 0;
		std::uint64_t forward_no_room = 0;  // dropped: the link to the owner was full
	};
	const Counters& counters() const { return counters_; }
	// Paths that wait to be freed. While there are this many, no path is retired to make room.
	static constexpr std::size_t retired_max = 256;

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
	std::unique_ptr<link::UdpPath> make_path(const link::UdpPathOptions&);
	void handle(const wire::Slot&, const std::byte* payload, const wire::AddressPair&);
	bool refuses(const Remote&, const wire::Slot&);
	void forward(Place owner, const link::UdpPacket&);
	void forward_to(transport::Outlet&, std::span<const std::byte> payload, std::span<const std::byte> rest);
	void release_held(Place, std::expected<transport::Outlet*, int>);
	bool handle_forwarded(std::span<const std::byte> payload);  // false: not for this process
	bool comes_from_port_holder(std::span<const std::byte> payload, uid_t stranger);
	int bring_up(link::Family);  // 0 or an errno value
	void handle_management(std::span<const std::byte> datagram, const wire::AddressPair&);
	// False: the datagram is none about room.
	bool take_room_message(std::span<const std::byte> datagram, const wire::AddressPair&);
	void take_room(Remote&, const wire::RoomMessage& answer);
	void note_overflow(const wire::AddressPair&);
	void send_room_message(const wire::AddressPair&, const wire::RoomMessage&);
	void repeat_room_questions(Nanoseconds now);
	void renew_room_questions(Nanoseconds now);
	std::optional<Place> owner_elsewhere(const link::UdpPacket&) const;
	void count_flow(const wire::AddressPair&, std::uint16_t source_port);
	void steer_busy_flow();
	Remote* from(const wire::AddressPair&);
	int open_for(const wire::AddressPair&);  // 0 or an errno value
	bool awaits_management() const;
	void note_unsettled(Remote&);
	void note_memory(Remote&);
	void retire(std::vector<std::unique_ptr<Remote>>);
	bool is_referenced(Remote&, std::span<const void* const> outlets);
	std::vector<const void*> outlets_of_queue_pairs();  // sorted

	adapter::ChannelAdapter& adapter_;
	Neighbours& neighbours_;
	EpollSet& epoll_;
	faults::Network* network_;
	std::unique_ptr<link::UdpLink> udp_;
	PortRelay relay_;
	PathTable<Remote> paths_;
	std::unique_ptr<Remote> management_;  // null until the first management datagram is sent
	Nanoseconds management_sent_at_ = 0;
	Nanoseconds room_question_due_ = never;  // when a path repeats its question
	bool silent_ = false;  // packets that arrive do not wake the progress thread
	// Out of the table; datagrams in send queues may point at these.
	std::vector<std::unique_ptr<Remote>> retired_;
	// Paths with packets that wait for room in the socket, or with queue pairs that wait for these.
	std::vector<Remote*> unsettled_;
	// Paths in the order in which they began to touch memory, and the sum of their counted_bytes.
	// None of the three vectors grows when it must not fail: open() has reserved places.
	std::vector<Remote*> touched_;
	std::size_t touched_bytes_ = 0;
	Remote* last_from_ = nullptr;  // the path of the last packet; packets mostly come in runs
	std::uint64_t pairs_ = 0;  // the last Outlet::peer assigned; one for each address pair
	static constexpr std::size_t much = 16 * 1024;
	std::size_t taken_in_ = 0;  // bytes of payload, in the last pass
	std::uint32_t idle_passes_ = 0;
	Counters counters_;
	std::map<std::pair<wire::Gid, std::uint32_t>, int> groups_;  // the number of joins of each
	std::vector<Held> held_;  // packets for places that are being connected to
	std::map<FlowKey, std::uint32_t> flows_;  // packets of each flow without its own socket
	std::optional<FlowKey> busy_;  // the next flow to get its own socket
	Connector connector_;
};

}  // namespace verbena::engine
