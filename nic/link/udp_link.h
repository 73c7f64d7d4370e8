// RoCEv2 over ordinary UDP sockets: what the kernel is asked for, and nothing of what the packets mean.
//
// A process has one link. For each address family it has three sockets: one bound to ANY:4791 with SO_REUSEPORT, to
// receive (whichever process of the user receives a packet forwards it; the caller does that), and two to send from,
// unconnected and with path-MTU discovery, so that IPv4 identifications are known: 0, or the index of the segment. One
// of them is for management datagrams alone: there, and nowhere else, the kernel is asked to tell when a host answers
// that nobody receives at its port (`take_refusals`). A family whose sockets cannot be had is down with a reason, and
// the other works on. For a busy flow that the kernel gives to the wrong process, `steer` makes a socket of its own,
// connected to the flow's other end: that is where the kernel delivers it from then on.
//
// Sending and receiving are batched by the kernel (UDP_SEGMENT, UDP_GRO): one system call each for up to 64 packets.
// `UdpPath` makes the batches.
//
// Owned by one engine, used under its lock. Nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>
#include <type_traits>
#include <utility>
#include <vector>

#include "nic/wire/packet.h"
#include "nic/wire/slot_ring.h"

namespace verbena::link {

enum class Family : std::uint8_t { ipv4, ipv6 };

struct UdpOptions {
	std::uint16_t port = wire::roce_port;  // to receive at; 0: any free one, for each family
	int buffer_bytes = 16 << 20;  // of each socket; the kernel cuts it to rmem_max and wmem_max
	bool segmentation = true;  // false: a system call for each packet
};

struct UdpCounters {
	std::uint64_t packets_sent = 0, bytes_sent = 0;
	std::uint64_t packets_received = 0, bytes_received = 0;
	std::uint64_t send_calls = 0, receive_calls = 0;
	std::uint64_t send_blocked = 0;  // times that a socket had no room; what was not sent is sent later
	std::uint64_t too_big = 0;  // packets above the MTU of their route
	std::uint64_t unreachable = 0;  // packets that the kernel refused otherwise
	std::uint64_t malformed = 0;  // datagrams without a usable address or larger than any can be
	std::uint64_t overflowed = 0;  // datagrams lost because a receive buffer was full
	std::uint64_t steered = 0;  // flows that got a socket of their own
	std::uint64_t refusals = 0;  // management datagrams of which a host said that nobody receives them
	std::array<std::uint64_t, static_cast<std::size_t>(wire::DropReason::count)>
		drops{};  // packets received and refused, by reason
};

// Packets to one destination, each `segment_bytes` long but for the last, which may be shorter.
struct UdpBatch {
	static constexpr std::size_t packets_max = 64;
	static constexpr std::size_t bytes_max = 65000;

	const wire::Flow& flow;
	std::uint32_t interface_index;  // of a link-local address, otherwise 0
	std::span<iovec> pieces;
	std::size_t packets;
	std::size_t bytes;
	std::size_t segment_bytes;
};

// A good packet. Everything that it refers to is gone when the sink returns.
struct UdpPacket {
	const wire::Slot& slot;
	std::span<const std::byte> payload;  // within the datagram
	const wire::AddressPair& addresses;  // the source is the sender
	std::uint16_t source_port;
	std::uint16_t ip_id;  // with which its ICRC is right
	std::span<const std::byte> datagram;  // the packet as it came
	bool steered;  // on a socket of its flow
};

// A host has said, by ICMP, that nobody receives at the port that a management datagram went to.
struct Refusal {
	wire::Gid by{};  // where the datagram went
	std::uint64_t transaction_id =
		0;  // its own, as the ICMP message quotes it: who has not seen the datagram cannot know it
};

enum class SendOutcome : std::uint8_t {
	sent,
	blocked,  // no room in the socket: nothing was sent, try again when it is writable
	unsegmentable,  // not as one batch: nothing was sent, try its packets one by one
	refused,  // nothing was sent and never will be; counted
};

class UdpLink {
public:
	explicit UdpLink(const UdpOptions& options);
	~UdpLink();
	UdpLink(const UdpLink&) = delete;
	UdpLink& operator=(const UdpLink&) = delete;

	bool up(Family family) const { return at(family).error == 0; }
	// Tries again to bring up what is down: whoever held the port may be gone.
	bool reopen(Family family);
	// Why a family is down: an errno (EADDRINUSE: another user, or the kernel's Soft-RoCE, holds the port), and in
	// words. 0 and empty: it is up.
	int error(Family family) const { return at(family).error; }
	std::string explain(Family family) const;

	// Readable when packets wait on any socket.
	int ready_fd() const { return epoll_fd_; }
	// Of one family: readable when packets wait at the port; writable (the second) when a blocked path may go on. -1:
	// the family is down.
	int receive_fd(Family family) const { return at(family).receiver.fd; }
	int send_fd(Family family) const { return at(family).send_fd; }
	std::uint16_t port(Family family) const { return at(family).receiver.port; }  // where packets are received
	std::uint16_t source_port(Family family) const { return at(family).source_port; }  // where they come from
	std::uint16_t management_port(Family family) const {
		return at(family).management.port;
	}  // and those to queue pair 1
	bool segmentation() const { return options_.segmentation; }

	SendOutcome send(const UdpBatch& batch);

	// Reads up to `datagrams_max` datagrams of a socket (a datagram may be 64 merged packets) and calls, for every good
	// packet, sink(const UdpPacket&). The sink may send, but neither receive nor steer. Returns how many datagrams
	// there were. Goes back to the socket that has just had some before it looks at the others, because one system call
	// is cheaper than two; but it does look, now and then.
	template <class Sink> std::size_t receive(std::size_t datagrams_max, Sink&& sink) {
		using Target = std::remove_reference_t<Sink>;
		return receive(datagrams_max,
			PacketSink{.context = &sink,
				.deliver = [](void* context, const UdpPacket& packet) { (*static_cast<Target*>(context))(packet); }});
	}
	// Those that receive() has found.
	std::vector<Refusal> take_refusals() { return std::exchange(refusals_, {}); }
	// The last receive() found nothing more on any socket.
	bool dry() const { return dry_; }

	// From now on packets from `peer`:`port` to `own` come to a socket of this process. At most so many flows have one;
	// one that was silent for long loses it to a new one.
	void steer(const wire::Gid& own, const wire::Gid& peer, std::uint16_t port);
	static constexpr std::size_t steered_max = 1024;

	// Whether datagrams to this group that arrive on this interface are received. 0 or errno.
	int join(const wire::Gid& group, std::uint32_t interface_index);
	int leave(const wire::Gid& group, std::uint32_t interface_index);

	const UdpCounters& counters() const { return counters_; }

private:
	int change_membership(const wire::Gid& group, std::uint32_t interface_index, bool member);
	struct Receiver {
		int fd = -1;
		std::uint16_t port = 0;
		std::uint32_t overflowed = 0;  // as the kernel last counted it
		std::uint64_t last_used = 0;  // a steered one: the receive() that had something from it
		wire::Gid peer{};
		std::uint16_t peer_port = 0;
		bool only_refusals = false;
	};
	struct Sockets {
		Receiver receiver;
		Receiver management{.only_refusals = true};
		int send_fd = -1;
		std::uint16_t source_port = 0;
		int error = 0;
		const char* failed_step = "";
	};
	struct PacketSink {
		void* context;
		void (*deliver)(void*, const UdpPacket&);
	};
	struct ReceiveBuffers;

	const Sockets& at(Family family) const { return sockets_[static_cast<std::size_t>(family)]; }
	Sockets& at(Family family) { return sockets_[static_cast<std::size_t>(family)]; }
	void open(Family family);
	std::size_t receive(std::size_t datagrams_max, PacketSink sink);
	std::size_t receive(Receiver&, std::size_t datagrams_max, PacketSink sink);
	const char* prepare_receiver(Family family, int fd);
	void read_refusals(const Receiver&);
	bool evict();

	UdpOptions options_;
	int epoll_fd_;
	Receiver* hot_ = nullptr;  // had something at the last call
	bool dry_ = true;
	std::uint64_t receives_ = 0;
	std::vector<std::unique_ptr<Receiver>> steered_;
	std::array<Sockets, 2> sockets_;
	std::vector<Refusal> refusals_;
	std::unique_ptr<ReceiveBuffers> buffers_;
	UdpCounters counters_;
};

}  // namespace verbena::link
