// All that an engine does by UDP: the paths to addresses of other hosts, what comes from there, and packets that
// reached the wrong process.
//
// Every process of a user that speaks to other hosts is bound to port 4791, and the kernel gives a flow to one of them
// by its own lights. Whoever receives a packet for a queue pair number that is not its own forwards it to the owner of
// the number's block over the same-host link. Where there is no such link yet, a thread makes it (never the one that
// receives: connecting blocks, and the other side may be connecting to us), and a few packets wait for it, because
// nobody sends a datagram again. A flow of more than a few packets gets a socket of its own at its owner: it comes
// straight, and goes on doing so when other processes come and go.
//
// Used under the engine's lock, but for the connecting thread.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "nic/engine/remote.h"
#include "nic/engine/rendezvous.h"

namespace verbena::engine {

class Engine;
class Link;

class Remotes {
public:
	explicit Remotes(Engine& engine) : engine_(engine) {}
	~Remotes();
	Remotes(const Remotes&) = delete;
	Remotes& operator=(const Remotes&) = delete;

	// The way to a destination from one of this host's addresses. EADDRINUSE: another user, or the kernel's Soft-RoCE,
	// holds the port; other errno values.
	std::expected<transport::Outlet*, int> outlet_to(const wire::AddressPair&);
	// Receives from now on; if the port cannot be had, what comes from this host alone.
	void listen();

	// A pass's share: takes in what has come, and sends what had found no room. True: something moved.
	bool pass();
	// The last pass left nothing unread, so that a missing acknowledgement is really missing.
	bool dry() const { return !udp_ || udp_->dry(); }
	// Something was written to the outlet. True: it has left, and there is room again.
	bool transmit(transport::Outlet& outlet) { return static_cast<Remote*>(outlet.user)->transmit(); }
	// A socket has no room for what is to be sent.
	bool blocked() const;
	// A forwarded packet came over a same-host link.
	void take_forwarded(std::span<const std::byte> payload);

	// Datagrams to the group, on the interface, are received from now on, as long as somebody wants them. 0 or errno.
	int join(const wire::Gid& group, std::uint32_t interface_index);
	void leave(const wire::Gid& group, std::uint32_t interface_index);

	struct Counters {
		std::uint64_t forwarded = 0;  // to another process of this host
		std::uint64_t taken = 0;  // from another process of this host
		std::uint64_t nobodys =
			0;  // for a queue pair number that nobody here owns, or whose owner could not be reached
		std::uint64_t forward_no_room = 0;
	};
	const Counters& counters() const { return counters_; }

	// In the child of a fork.
	void abandon_after_fork();

private:
	using FlowKey = std::array<std::uint8_t, 34>;  // both addresses, and the sender's port

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
	bool want(Place);
	bool is_nobodys(Place);
	void connect_wanted();

	Engine& engine_;
	std::unique_ptr<link::UdpLink> udp_;  // from the first path, or listen(), on
	std::vector<std::unique_ptr<Remote>> remotes_;
	Remote* last_from_ = nullptr;
	std::uint64_t pairs_ = 0;
	std::uint32_t idle_passes_ = 0;
	Counters counters_;
	std::map<std::pair<wire::Gid, std::uint32_t>, int> groups_;  // how often each was joined
	struct Held {
		Place owner;
		std::vector<std::byte> payload;
	};
	std::vector<Held> held_;  // packets for places that are being connected to
	std::map<FlowKey, std::uint32_t> flows_;  // packets of each that has no socket of its own
	std::optional<FlowKey> busy_;  // is to have one

	std::mutex mutex_;  // of what follows: the places to connect to
	std::condition_variable wanted_changed_;
	std::vector<Place> wanted_;
	struct Failed {
		Nanoseconds when;
		int error;
	};
	std::map<Place, Failed> failed_;
	bool stopping_ = false;
	std::thread connector_;
};

}  // namespace verbena::engine
