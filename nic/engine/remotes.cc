// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/remotes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/cancellation.h"
#include "nic/faults/faulty_path.h"
#include "nic/transport/answers.h"

namespace verbena::engine {

namespace {

constexpr std::size_t datagrams_a_pass = 8;
// Without a path, no queue pair waits for an answer, and the progress thread sees what arrives.
constexpr std::uint32_t passes_between_listening = 64;
// A management datagram may be answered in this time. A look at the sockets in each pass would slow
// down a process that otherwise uses shared memory alone.
constexpr Nanoseconds management_attention = 1'000'000'000;
// Few, because a flow without a socket of its own can lose packets when another process ends.
constexpr std::uint32_t busy_flow_packets = 8;
constexpr std::size_t flows_counted_max = 1024;
constexpr std::size_t held_max = 256;

}  // namespace

Remotes::Remotes(
	Engine& engine, adapter::ChannelAdapter& adapter, Neighbours& neighbours, EpollSet& epoll, faults::Network* network)
	: adapter_(adapter),
	  neighbours_(neighbours),
	  epoll_(epoll),
	  network_(network),
	  connector_(engine, [this](adapter::ChannelAdapter&, Place owner, std::expected<transport::Outlet*, int> outlet) {
		  release_held(owner, outlet);
	  }) {}

int Remotes::open() {
	if (udp_) return 0;
	auto udp = std::make_unique<link::UdpLink>(link::UdpOptions{});
	if (udp->ready_fd() < 0) return udp->error(link::Family::ipv4);
	constexpr std::size_t paths_and_management = 2 * PathTable<Remote>::paths_max + retired_max + 1;
	unsettled_.reserve(paths_and_management);
	touched_.reserve(paths_and_management);
	retired_.reserve(paths_and_management);
	if (!epoll_.add_wake_only(udp->ready_fd())) return errno;
	udp_ = std::move(udp);
	return 0;
}

int Remotes::listen() {
	if (const int error = open()) return error;
	// A shortage may be over when the caller tries again; everything else will not change.
	for (const auto family : {link::Family::ipv4, link::Family::ipv6}) {
		const int error = bring_up(family);
		if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) return error;
	}
	return 0;
}

int Remotes::open_for(const wire::AddressPair& addresses) {
	if (!Remote::is_one_family(addresses)) return EINVAL;
	if (const int error = open()) return error;
	return bring_up(Remote::family_of(addresses));
}

// After open(): 0 if packets of the family can be sent, and arrive here or are passed on.
int Remotes::bring_up(link::Family family) {
	if (relay_.active(family) || udp_->reopen(family)) return 0;
	return relay_.begin(*udp_, family, adapter_.context().now) ? 0 : udp_->error(family);
}

std::unique_ptr<link::UdpPath> Remotes::make_path(const link::UdpPathOptions& options) {
	if (network_) return std::make_unique<faults::FaultyPath>(*udp_, options, *network_, adapter_);
	return std::make_unique<link::UdpPath>(*udp_, options);
}

std::expected<transport::Outlet*, int> Remotes::outlet_to(const wire::AddressPair& addresses) {
	if (Remote* known = paths_.find(addresses)) return &known->outlet;
	if (const int error = open_for(addresses)) return std::unexpected(error);
	const Nanoseconds now = adapter_.context().now;
	if (paths_.full() && retired_.size() < retired_max) {
		const auto referenced = outlets_of_queue_pairs();
		retire(paths_.make_room(now, [&](Remote& path) { return is_referenced(path, referenced); }));
	}
	if (paths_.full()) return std::unexpected(ENOSPC);
	const Remote* same_ends = paths_.find_between(addresses);
	const std::uint64_t peer = same_ends ? same_ends->outlet.peer : ++pairs_;
	const auto make = [this](const link::UdpPathOptions& options) { return make_path(options); };
	Remote& added = paths_.add(std::make_unique<Remote>(make, addresses, peer), now);
	added.outlet.own_room = own_room_of_buffer(udp_->receive_buffer_bytes(Remote::family_of(addresses)));
	return &added.outlet;
}

std::expected<transport::Outlet*, int> Remotes::management_outlet(const wire::AddressPair& addresses) {
	if (const int error = open_for(addresses)) return std::unexpected(error);
	if (!management_)
		management_ =
			std::make_unique<Remote>([this](const link::UdpPathOptions& options) { return make_path(options); });
	return &management_->outlet;
}

int Remotes::join(const wire::Gid& group, std::uint32_t interface_index) {
	if (const int error = open()) return error;
	int& count = groups_[{group, interface_index}];
	const int error = count == 0 ? udp_->join(group, interface_index) : 0;
	if (error == 0) ++count;
	else groups_.erase({group, interface_index});
	return error;
}

void Remotes::leave(const wire::Gid& group, std::uint32_t interface_index) {
	const auto at = groups_.find({group, interface_index});
	if (at == groups_.end() || --at->second > 0) return;
	groups_.erase(at);
	if (udp_) udp_->leave(group, interface_index);
}

bool Remotes::pass() {
	taken_in_ = 0;
	if (!udp_) return false;
	if (paths_.empty() && !awaits_management() && ++idle_passes_ % passes_between_listening != 0) return false;
	const std::size_t datagrams = udp_->receive(datagrams_a_pass, [this](const link::UdpPacket& packet) {
		taken_in_ += packet.payload.size();
		const wire::Qpn destination = packet.slot.destination();
		if (packet.after_overflow) [[unlikely]]
			note_overflow(packet.addresses);
		if (destination == wire::general_services_qpn) [[unlikely]] {
			if (const auto owner = owner_elsewhere(packet)) return forward(*owner, packet);
			return handle_management(packet.payload, packet.addresses);
		}
		// The kernel delivers a multicast datagram to the socket of every process.
		if (destination == wire::multicast_qpn) [[unlikely]]
			return handle(packet.slot, packet.payload.data(), packet.addresses);
		if (!adapter_.queue_pairs().owns(destination)) return forward(Place::block(block_of(destination)), packet);
		if (!packet.steered) count_flow(packet.addresses, packet.source_port);
		handle(packet.slot, packet.payload.data(), packet.addresses);
	});
	if (busy_) [[unlikely]]
		steer_busy_flow();
	for (const link::Refusal& refusal : udp_->take_refusals())
		adapter_.connections().handle_refusal(adapter_.context().now, refusal.by, refusal.transaction_id);
	bool moved = datagrams != 0;
	if (!unsettled_.empty()) [[unlikely]]
		std::erase_if(unsettled_, [&](Remote* remote) {
			if (remote->blocked() && remote->transmit()) moved = true;
			// A path that delays its packets is blocked, and has room all the same.
			if (remote->outlet.waiting_first && remote->outlet.slots.drained()) adapter_.resume(remote->outlet);
			return !remote->blocked() && !remote->outlet.waiting_first;
		});
	return moved;
}

bool Remotes::awaits_management() const {
	return management_ && adapter_.connections().connection_count() != 0 &&
		adapter_.context().now - management_sent_at_ < management_attention;
}

bool Remotes::blocked() const {
	return std::ranges::any_of(unsettled_, [](const Remote* remote) { return remote->blocked(); });
}

void Remotes::let_go() {
	for (Remote* const remote : unsettled_) remote->finish();
}

void Remotes::note_unsettled(Remote& remote) {
	if (std::ranges::find(unsettled_, &remote) == unsettled_.end()) unsettled_.push_back(&remote);
}

Remote* Remotes::from(const wire::AddressPair& addresses) {
	if (last_from_ && last_from_->comes_from(addresses)) [[likely]]
		return last_from_;
	Remote* const found = paths_.find_answered_by(addresses);
	return found ? last_from_ = found : nullptr;
}

void Remotes::handle(const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses) {
	if (Remote* remote = from(addresses)) {
		if (network_) [[unlikely]]
			if (refuses(*remote, slot)) return;
		return adapter_.handle_slot(remote->outlet, slot, payload, addresses);
	}
	if (!wire::facts(slot.opcode()).deth) return;
	// A datagram from an address to which there is no path: it needs no answer.
	static transport::Outlet nowhere{.lossless = false};
	adapter_.handle_slot(nowhere, slot, payload, addresses);
}

// Answers a request by an RNR NAK if the faults say so.
bool Remotes::refuses(const Remote& remote, const wire::Slot& slot) {
	transport::QueuePair* const qp = adapter_.queue_pairs().find(slot.destination());
	const bool receives = qp && qp->type == transport::QpType::rc && qp->outlet &&
		qp->outlet->peer == remote.outlet.peer && qp->state == transport::QpState::rts;
	if (!receives || !network_->refuses(adapter_, *qp, slot)) return false;
	transport::refuse(adapter_.context(), *qp, transport::Verdict::rnr);
	return true;
}

// The owner of a management datagram, if it is another process of this host.
std::optional<Place> Remotes::owner_elsewhere(const link::UdpPacket& packet) const {
	if (packet.payload.size() != wire::mad_size) return std::nullopt;
	if (const auto message = wire::read_room_message(packet.payload)) {
		const wire::Qpn asked = message->is_answer ? message->asker : message->asked;
		return adapter_.queue_pairs().owns(asked) ? std::nullopt : std::optional(Place::block(block_of(asked)));
	}
	const auto envelope = cm::read_message(packet.payload.first<wire::mad_size>());
	if (!envelope) return std::nullopt;
	const cm::Addressee addressee = cm::addressee_of(envelope->message);
	if (addressee.service) {
		if (adapter_.connections().listens(*addressee.service)) return std::nullopt;
		return Place::service(addressee.service->value);
	}
	const std::uint32_t block = cm::block_of(addressee.connection);
	if (block == 0 || adapter_.queue_pairs().owns({block << block_index_bits})) return std::nullopt;
	return Place::block(block);
}

void Remotes::handle_management(std::span<const std::byte> datagram, const wire::AddressPair& addresses) {
	const NotCancellable whole;  // opening sockets makes system calls
	if (take_room_message(datagram, addresses)) return;
	wire::AddressPair back = addresses;
	std::swap(back.source, back.destination);
	back.traffic_class = 0;
	back.hop_limit = 64;
	if (const auto outlet = management_outlet(back)) adapter_.handle_management(**outlet, datagram, addresses);
}

void Remotes::forward(Place owner, const link::UdpPacket& packet) {
	const wire::ForwardedPacket head{.addresses = packet.addresses,
		.source_port = packet.source_port,
		.ip_id = packet.ip.id,
		.ip_dont_fragment = packet.ip.dont_fragment};
	transport::Outlet* const outlet =
		owner.is_service ? nullptr : neighbours_.find_block(static_cast<std::uint32_t>(owner.value));
	if (outlet) {
		forward_to(*outlet, std::as_bytes(std::span(&head, 1)), packet.datagram);
	} else if (held_.size() < held_max && connector_.request(owner, adapter_.context().now)) {
		Held& held = held_.emplace_back(owner);
		held.payload.resize(sizeof head + packet.datagram.size());
		std::memcpy(held.payload.data(), &head, sizeof head);
		std::ranges::copy(packet.datagram, held.payload.begin() + sizeof head);
	} else if (packet.slot.destination() == wire::general_services_qpn && connector_.refused(owner)) {
		// The owner has ended, as far as this process has tried to reach it. This process then
		// answers in its place, as a kernel would, so that a peer that asks for a service or for
		// the end of a connection gets an answer. No surviving process knows the dead one's peers,
		// so none can be notified unasked.
		handle_management(packet.payload, packet.addresses);
	} else {
		++counters_.unowned;
	}
}

void Remotes::forward_to(
	transport::Outlet& outlet, std::span<const std::byte> payload, std::span<const std::byte> rest) {
	const auto length = static_cast<std::uint32_t>(payload.size() + rest.size());
	const auto reserved = outlet.slots.reserve(length, 0);
	if (!reserved.slot) {
		++counters_.forward_no_room;
		return;
	}
	std::ranges::copy(payload, reserved.payload);
	std::ranges::copy(rest, reserved.payload + payload.size());
	reserved.slot->set_bth(wire::forwarded_packet, {}, {}, 0);
	reserved.slot->payload_line = reserved.payload_line;
	adapter_.context().touch(outlet);
	outlet.slots.publish(reserved.slot, length);
	counters_.forwarded += {1, length - sizeof(wire::ForwardedPacket)};
}

// The attempt to connect to the owner has ended: its packets leave, or are handled or counted here.
void Remotes::release_held(Place owner, std::expected<transport::Outlet*, int> outlet) {
	std::vector<Held> released;
	for (Held& held : held_)
		if (held.owner == owner) released.push_back(std::move(held));
	std::erase_if(held_, [](const Held& held) { return held.payload.empty(); });
	for (const Held& held : released) {
		if (outlet) forward_to(**outlet, held.payload, {});
		else if (owner.is_service || outlet.error() == ECONNREFUSED) handle_forwarded(held.payload);
		else ++counters_.unowned;
	}
}

// A forwarded packet comes from another host and is as untrusted as if it had come directly.
void Remotes::take_forwarded(std::span<const std::byte> payload, std::optional<uid_t> stranger) {
	if (stranger && !comes_from_port_holder(payload, *stranger)) return;
	if (handle_forwarded(payload)) counters_.taken += {1, payload.size() - sizeof(wire::ForwardedPacket)};
}

// Other users could forge packets of other hosts in this way, faster than over a wire.
bool Remotes::comes_from_port_holder(std::span<const std::byte> payload, uid_t stranger) {
	wire::ForwardedPacket head;
	if (payload.size() < sizeof head) return false;
	std::memcpy(&head, payload.data(), sizeof head);
	return relay_.admits(Remote::family_of(head.addresses), stranger);
}

bool Remotes::handle_forwarded(std::span<const std::byte> payload) {
	wire::ForwardedPacket head;
	if (!udp_ || payload.size() < sizeof head) return false;
	std::memcpy(&head, payload.data(), sizeof head);
	wire::Flow flow{.source_port = head.source_port,
		.traffic_class = head.addresses.traffic_class,
		.hop_limit = head.addresses.hop_limit};
	std::ranges::copy(head.addresses.source, flow.source.begin());
	std::ranges::copy(head.addresses.destination, flow.destination.begin());
	const auto parsed = wire::parse(
		flow, payload.subspan(sizeof head), {.id = head.ip_id, .dont_fragment = head.ip_dont_fragment != 0});
	if (!parsed) return false;
	if (parsed->slot.destination() == wire::general_services_qpn) {
		handle_management(
			parsed->payload.first(std::min<std::size_t>(parsed->payload.size(), parsed->slot.length)), head.addresses);
		return true;
	}
	if (!adapter_.queue_pairs().owns(parsed->slot.destination())) {
		++counters_.unowned;
		return false;
	}
	handle(parsed->slot, parsed->payload.data(), head.addresses);
	count_flow(head.addresses, head.source_port);
	if (busy_) steer_busy_flow();
	return true;
}

void Remotes::count_flow(const wire::AddressPair& addresses, std::uint16_t source_port) {
	FlowKey key;
	std::memcpy(key.data(), addresses.source, 16);
	std::memcpy(key.data() + 16, addresses.destination, 16);
	std::memcpy(key.data() + 32, &source_port, 2);
	if (flows_.size() >= flows_counted_max) flows_.clear();
	if (++flows_[key] % busy_flow_packets == 0) busy_ = key;
}

void Remotes::steer_busy_flow() {
	wire::Gid peer, own;
	std::uint16_t source_port;
	std::memcpy(peer.data(), busy_->data(), 16);
	std::memcpy(own.data(), busy_->data() + 16, 16);
	std::memcpy(&source_port, busy_->data() + 32, 2);
	busy_.reset();
	udp_->steer(own, peer, source_port);
}

void Remotes::abandon_after_fork() {
	connector_.abandon_after_fork();
	udp_.reset();
}

}  // namespace verbena::engine
