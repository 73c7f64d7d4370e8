// SPDX-License-Identifier: Apache-2.0
// RoCEv2 over ordinary UDP sockets (IBA Annex A17): the sockets of one process, and the system
// calls that send and receive packets.
//
// A process has one UdpLink, which has three sockets for each address family:
//  - one bound to ANY:4791 with SO_REUSEPORT, to receive. All processes of one user can share the
//    port this way. The kernel may then give a packet to the wrong one of them, which forwards it
//    to the owner of the queue pair (engine/remotes.h).
//  - one to send from. This socket is unconnected and uses path-MTU discovery, so that the IPv4
//    identification, which the ICRC covers, is known: 0, or the index of the segment.
//  - one to send management datagrams from. The link watches it for ICMP port-unreachable messages
//    (`take_refusals`).
// The kernel keeps ICMP messages for both sockets to send from (`unreachable`, icmp_errors.h). The
// link reads those about packets only after a send has failed or when the caller asks, so they cost
// nothing where packets arrive.
// If the kernel gives a busy flow to the wrong process, `steer` opens a socket that is connected to
// the flow's other end; the kernel then delivers the flow to this socket.
//
// The kernel batches sending and receiving (UDP_SEGMENT, UDP_GRO): one system call for up to 64
// packets. `UdpPath` makes the batches.
//
// Threads: owned by one engine and used under its lock. No call blocks.
// Owns: its sockets and receive buffers.
// Errors: an address family whose sockets cannot all be opened is down (`error`); the other still
//   works. Invalid packets are dropped and counted in `UdpCounters::drops`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <sys/uio.h>
#include <type_traits>
#include <utility>
#include <vector>

#include "nic/link/icmp_errors.h"
#include "nic/link/memberships.h"
#include "nic/link/udp_socket.h"
#include "nic/wire/ip_habit.h"
#include "nic/wire/packet.h"
#include "nic/wire/slot_ring.h"

namespace verbena::link {

struct UdpOptions {
	std::uint16_t port = wire::roce_port;  // where to receive; 0: any free port, for each family
	int buffer_bytes = 16 << 20;  // per socket; the kernel limits it to rmem_max and wmem_max
	bool segmentation = true;  // false: UdpPath sends each packet with a system call of its own
};

struct UdpCounters {
	std::uint64_t packets_sent = 0, bytes_sent = 0;  // bytes of UDP payload
	std::uint64_t packets_received = 0, bytes_received = 0;  // with the invalid packets
	// Those of the packets that were sent to or received from a multicast group.
	std::uint64_t multicast_packets_sent = 0, multicast_packets_received = 0;
	std::uint64_t send_calls = 0, receive_calls = 0;  // system calls
	std::uint64_t send_blocked = 0;  // send calls that found no room; the packets are sent later
	std::uint64_t too_big = 0;  // packets above the MTU of their route
	std::uint64_t unreachable = 0;  // packets that the kernel refused for another reason
	std::uint64_t malformed = 0;  // datagrams that were truncated or had no destination address
	std::uint64_t overflowed = 0;  // datagrams lost because a receive buffer was full
	std::uint64_t steered = 0;  // flows that got a socket of their own
	std::uint64_t refusals = 0;  // ICMP port-unreachable messages about management datagrams
	// Packets that wire::parse refused, by reason. A packet whose ICRC is right only for IPv4
	// fields that are not its sender's habit (ip_habit.h) counts as one with a wrong ICRC.
	std::array<std::uint64_t, static_cast<std::size_t>(wire::DropReason::count)> drops{};
};

// Packets to one destination for one system call. Each is `segment_bytes` long; the last may be
// shorter.
struct UdpBatch {
	static constexpr std::size_t packets_max = 64;
	static constexpr std::size_t bytes_max = 65000;

	const wire::Flow& flow;
	std::uint32_t interface_index;  // for a link-local destination, otherwise 0
	std::span<iovec> pieces;  // the bytes of all packets, one packet after the other
	std::size_t packets;
	std::size_t bytes;
	std::size_t segment_bytes;
};

// A valid packet. All its references dangle once the sink returns.
struct UdpPacket {
	const wire::Slot& slot;
	std::span<const std::byte> payload;  // within the datagram
	const wire::AddressPair& addresses;  // the source is the sender
	std::uint16_t source_port;  // UDP
	wire::IpFields ip;  // the fields of the IPv4 header that the packet's ICRC covers
	std::span<const std::byte> datagram;  // BTH to ICRC, as received
	bool steered;  // received on the flow's own socket
	bool after_overflow;  // the socket has lost datagrams since the one before
};

// An ICMP port-unreachable message about a management datagram.
struct Refusal {
	wire::Gid by{};  // the datagram's destination, where no process receives
	// The transaction id of the datagram, which the ICMP message quotes. A host that has not seen
	// the datagram would have to guess it.
	std::uint64_t transaction_id = 0;
};

enum class SendOutcome : std::uint8_t {
	sent,
	blocked,  // nothing was sent, as the socket has no room; try again later
	unsegmentable,  // nothing was sent: the kernel cannot segment it; send the packets one by one
	refused,  // nothing was sent, and a retry would not help; counted
};

class UdpLink {
public:
	explicit UdpLink(const UdpOptions& options);
	~UdpLink();
	UdpLink(const UdpLink&) = delete;
	UdpLink& operator=(const UdpLink&) = delete;

	bool up(Family family) const { return at(family).error == 0; }
	// Tries again to bring up a family that is down, for example after another process released the
	// port. Returns whether it is up.
	bool reopen(Family family);
	// Why a family is down, as an errno; 0 if it is up. EADDRINUSE: another user or the kernel's
	// Soft-RoCE holds the port. Such a family receives nothing, but can send.
	int error(Family family) const { return at(family).error; }
	bool sends(Family family) const { return at(family).send_fd >= 0; }

	// A descriptor for epoll or poll: readable while packets or refusals wait on any socket.
	int ready_fd() const { return epoll_fd_; }
	// The port at which packets are received.
	std::uint16_t port(Family family) const { return at(family).receiver.port; }
	// The source port of packets, and that of management datagrams (packets to queue pair 1).
	std::uint16_t source_port(Family family) const { return at(family).source_port; }
	std::uint16_t management_port(Family family) const { return at(family).management.port; }
	// The memory that the kernel gives a socket that receives, in bytes; 0: the family is down.
	std::uint32_t receive_buffer_bytes(Family family) const { return at(family).receive_buffer_bytes; }
	bool segmentation() const { return options_.segmentation; }

	// Sends a batch with one system call; see SendOutcome. A batch of one packet is sent without
	// segmentation.
	SendOutcome send(const UdpBatch& batch);

	// Reads up to `datagrams_max` datagrams per socket and calls sink(const UdpPacket&) for each
	// valid packet. One datagram may hold up to 64 packets, which the kernel merged. The sink may
	// send, but must not receive or steer. Returns the number of datagrams. Most calls read only
	// the socket that last had datagrams, because one system call is cheaper than two. Every eighth
	// call, and a call that finds this socket empty, looks at all sockets.
	template <class Sink> std::size_t receive(std::size_t datagrams_max, Sink&& sink) {
		using Target = std::remove_reference_t<Sink>;
		return receive(datagrams_max,
			PacketSink{.context = &sink,
				.deliver = [](void* context, const UdpPacket& packet) { (*static_cast<Target*>(context))(packet); }});
	}
	// Returns and clears the refusals that receive() has read.
	std::vector<Refusal> take_refusals() { return std::exchange(refusals_, {}); }
	// Returns the errno of the last ICMP message about a datagram to `host`, or that with which the
	// kernel refused one. Only good to explain a failure: the message may be old or forged.
	std::optional<UnreachableHosts::Report> unreachable(const wire::Gid& host);
	// True if the last receive() looked at all sockets and left no packet on any.
	bool dry() const { return dry_; }

	// Makes packets from `peer`:`port` to `own` arrive at a connected socket of this process. Has
	// no effect for a link-local `peer` or if a system call fails. At the limit of such sockets,
	// closes the one that has been silent longest, if it was silent for 10,000 calls of receive();
	// otherwise has no effect.
	void steer(const wire::Gid& own, const wire::Gid& peer, std::uint16_t port);
	// The limit, or an eighth of the process's limit of descriptors, if that is less.
	static constexpr std::size_t steered_max = 1024;

	// Start and stop receiving datagrams to this multicast group on this interface. Both return 0
	// or an errno. Each join() is followed by its leave() before the next one of the same group.
	int join(const wire::Gid& group, std::uint32_t interface_index);
	int leave(const wire::Gid& group, std::uint32_t interface_index);

	const UdpCounters& counters() const { return counters_; }

private:
	// A socket that receives: packets, or, as the management socket, only refusals.
	struct Receiver {
		int fd = -1;
		std::uint16_t port = 0;
		std::uint32_t overflowed = 0;  // the kernel's count of lost datagrams when last read
		std::uint64_t last_used = 0;  // `receives_` when it last had datagrams
		wire::Gid peer{};  // steered: the flow's other end
		std::uint16_t peer_port = 0;  // steered: not 0
		bool only_refusals = false;  // the management socket: only its error queue is read
	};
	struct Sockets {
		Receiver receiver;
		Receiver management{.only_refusals = true};
		int send_fd = -1;
		std::uint16_t source_port = 0;
		std::uint32_t receive_buffer_bytes = 0;
		int error = 0;
	};
	struct PacketSink {
		void* context;
		void (*deliver)(void*, const UdpPacket&);
	};
	struct ReceiveBuffers;
	// The end from which packets come. The table forgets a sender when another one takes its place.
	struct Sender {
		wire::Gid address{};
		std::uint16_t port = 0;
		wire::IpHabit habit;
	};
	static constexpr std::size_t senders_remembered = 1024;

	const Sockets& at(Family family) const { return sockets_[static_cast<std::size_t>(family)]; }
	Sockets& at(Family family) { return sockets_[static_cast<std::size_t>(family)]; }
	void open(Family family);
	bool open_senders(Family family);
	bool open_receiver(Family family);
	std::size_t receive(std::size_t datagrams_max, PacketSink sink);
	std::size_t receive(Receiver&, std::size_t datagrams_max, PacketSink sink);
	void deliver(Receiver&, std::size_t index, PacketSink sink);
	wire::IpHabit& habit_of(const wire::Flow& flow);
	std::size_t read_icmp(int fd, bool management);
	bool evict();

	UdpOptions options_;
	int epoll_fd_ = -1;
	Receiver* last_active_ = nullptr;  // the socket that last had datagrams
	bool dry_ = true;
	std::uint64_t receives_ = 0;  // calls of receive()
	std::vector<std::unique_ptr<Receiver>> steered_;
	std::array<Sockets, 2> sockets_;
	Memberships memberships_;
	std::vector<Refusal> refusals_;
	UnreachableHosts unreachable_;
	std::unique_ptr<ReceiveBuffers> buffers_;
	std::unique_ptr<Sender[]> senders_;
	UdpCounters counters_;
};

}  // namespace verbena::link
