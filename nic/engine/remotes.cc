#include "nic/engine/remotes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <utility>

#include "nic/engine/engine.h"
#include "nic/engine/progress.h"

namespace verbena::engine {

namespace {

constexpr std::size_t datagrams_a_pass = 8;
// Without a path nobody waits for an answer, and the progress thread sees what comes in.
constexpr std::uint32_t passes_between_listening = 64;
// Few: while a flow has no socket of its own, the end of another process can take packets of it with it.
constexpr std::uint32_t busy_flow_packets = 8;
constexpr std::size_t flows_counted_max = 1024;
constexpr std::size_t wanted_max = 64;
constexpr std::size_t held_max = 256;
constexpr Nanoseconds connect_again_after = 1'000'000'000;

}  // namespace

Remotes::~Remotes() {
	if (!connector_.joinable()) return;
	{
		const std::lock_guard lock(mutex_);
		stopping_ = true;
	}
	wanted_changed_.notify_one();
	connector_.join();
}

void Remotes::open() {
	if (udp_) return;
	udp_ = std::make_unique<link::UdpLink>(link::UdpOptions{});
	engine_.progress_->watch(*udp_);
}

void Remotes::listen() { open(); }

std::expected<transport::Outlet*, int> Remotes::outlet_to(const wire::AddressPair& addresses) {
	std::uint64_t peer = 0;
	for (auto& remote : remotes_) {
		if (remote->leads_to(addresses)) return &remote->outlet;
		if (remote->joins(addresses)) peer = remote->outlet.peer;
	}
	open();
	const auto family = Remote::family_of(addresses);
	if (!udp_->reopen(family)) return std::unexpected(udp_->error(family));
	remotes_.push_back(std::make_unique<Remote>(*udp_, addresses, peer ? peer : ++pairs_));
	return &remotes_.back()->outlet;
}

int Remotes::join(const wire::Gid& group, std::uint32_t interface_index) {
	open();
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
	if (!udp_) return false;
	if (remotes_.empty() && ++idle_passes_ % passes_between_listening != 0) return false;
	const std::size_t datagrams = udp_->receive(datagrams_a_pass, [this](const link::UdpPacket& packet) {
		const wire::Qpn destination = packet.slot.destination();
		if (destination == wire::general_services_qpn) [[unlikely]] {
			if (const auto owner = owner_elsewhere(packet)) return forward(*owner, packet);
			return handle_management(packet.payload, packet.addresses);
		}
		if (destination == wire::multicast_qpn) [[unlikely]]
			return handle(packet.slot, packet.payload.data(), packet.addresses);  // every process gets its own
		if (!engine_.adapter_.queue_pairs().owns(destination))
			return forward(Place::block(block_of(destination)), packet);
		if (!packet.steered) count_flow(packet.addresses, packet.source_port);
		handle(packet.slot, packet.payload.data(), packet.addresses);
	});
	if (busy_) [[unlikely]]
		steer_busy_flow();
	for (const link::Refusal& refusal : udp_->take_refusals())
		engine_.adapter_.connections().handle_refusal(
			engine_.adapter_.context().now, refusal.by, refusal.transaction_id);
	bool moved = datagrams != 0;
	for (auto& remote : remotes_) {
		if (remote->blocked() && remote->transmit()) moved = true;
		if (remote->outlet.waiting_first && !remote->blocked()) engine_.adapter_.resume(remote->outlet);
	}
	return moved;
}

bool Remotes::blocked() const {
	return std::ranges::any_of(remotes_, [](const auto& remote) { return remote->blocked(); });
}

Remote* Remotes::from(const wire::AddressPair& addresses) {
	if (last_from_ && last_from_->comes_from(addresses)) [[likely]]
		return last_from_;
	for (auto& remote : remotes_)
		if (remote->comes_from(addresses)) return last_from_ = remote.get();
	return nullptr;
}

void Remotes::handle(const wire::Slot& slot, const std::byte* payload, const wire::AddressPair& addresses) {
	if (Remote* remote = from(addresses)) return engine_.adapter_.handle_slot(remote->outlet, slot, payload, addresses);
	if (!wire::facts(slot.opcode()).deth) return;
	// A datagram from where we have never sent to: it needs no way back.
	static transport::Outlet nowhere{.lossless = false};
	engine_.adapter_.handle_slot(nowhere, slot, payload, addresses);
}

// Who of this host's processes a management datagram is for, if that is not this one.
std::optional<Place> Remotes::owner_elsewhere(const link::UdpPacket& packet) const {
	if (packet.payload.size() != wire::mad_size) return std::nullopt;
	const auto envelope = cm::read_message(packet.payload.first<wire::mad_size>());
	if (!envelope) return std::nullopt;
	const cm::Addressee addressee = cm::addressee_of(envelope->message);
	if (addressee.service) {
		if (engine_.adapter_.connections().listens(*addressee.service)) return std::nullopt;
		return Place::service(addressee.service->value);
	}
	const std::uint32_t block = cm::block_of(addressee.connection);
	if (block == 0 || engine_.adapter_.queue_pairs().owns({block << block_index_bits})) return std::nullopt;
	return Place::block(block);
}

void Remotes::handle_management(std::span<const std::byte> datagram, const wire::AddressPair& addresses) {
	wire::AddressPair back = addresses;
	std::swap(back.source, back.destination);
	back.traffic_class = 0;
	back.hop_limit = 64;
	if (const auto outlet = outlet_to(back)) engine_.adapter_.handle_management(**outlet, datagram, addresses);
}

void Remotes::forward(Place owner, const link::UdpPacket& packet) {
	const wire::ForwardedPacket head{
		.addresses = packet.addresses, .source_port = packet.source_port, .ip_id = packet.ip_id};
	const auto at = owner.is_service ? engine_.link_by_block_.end()
									 : engine_.link_by_block_.find(static_cast<std::uint32_t>(owner.value));
	if (at != engine_.link_by_block_.end() && !at->second->outlet.closed) {
		forward_to(at->second->outlet, std::as_bytes(std::span(&head, 1)), packet.datagram);
	} else if (held_.size() < held_max && want(owner)) {
		Held& held = held_.emplace_back(owner);
		held.payload.resize(sizeof head + packet.datagram.size());
		std::memcpy(held.payload.data(), &head, sizeof head);
		std::ranges::copy(packet.datagram, held.payload.begin() + sizeof head);
	} else if (packet.slot.destination() == wire::general_services_qpn && is_nobodys(owner)) {
		handle_management(packet.payload, packet.addresses);
	} else {
		++counters_.nobodys;
	}
}

// The process has ended, as far as this one has tried to reach it. Then it answers for it, as a kernel would: who asks
// for the end of what is not there any more, or for a service, hears it from here. (Whom the dead was connected to,
// nobody knows who could tell them unasked.)
bool Remotes::is_nobodys(Place place) {
	const std::lock_guard lock(mutex_);
	const auto at = failed_.find(place);
	return at != failed_.end() && at->second.error == ECONNREFUSED;
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
	engine_.adapter_.context().touch(outlet);
	outlet.slots.publish(reserved.slot, length);
	++counters_.forwarded;
}

// The attempt to reach the owner is over.
void Remotes::release_held(Place owner, std::expected<transport::Outlet*, int> outlet) {
	std::vector<Held> released;
	for (Held& held : held_)
		if (held.owner == owner) released.push_back(std::move(held));
	std::erase_if(held_, [](const Held& held) { return held.payload.empty(); });
	for (const Held& held : released) {
		if (outlet) forward_to(**outlet, held.payload, {});
		else if (owner.is_service || outlet.error() == ECONNREFUSED) take_forwarded(held.payload);
		else ++counters_.nobodys;
	}
}

// The process at the other end is one of ours, but what it forwards is another host's: it is parsed and checked here as
// if it had come straight. It is never forwarded again.
void Remotes::take_forwarded(std::span<const std::byte> payload) {
	wire::ForwardedPacket head;
	if (!udp_ || payload.size() < sizeof head) return;
	std::memcpy(&head, payload.data(), sizeof head);
	wire::Flow flow{.source_port = head.source_port,
		.traffic_class = head.addresses.traffic_class,
		.hop_limit = head.addresses.hop_limit};
	std::ranges::copy(head.addresses.source, flow.source.begin());
	std::ranges::copy(head.addresses.destination, flow.destination.begin());
	const auto parsed = wire::parse(flow, payload.subspan(sizeof head), head.ip_id);
	if (!parsed) return;
	if (parsed->slot.destination() == wire::general_services_qpn) {
		++counters_.taken;
		return handle_management(
			parsed->payload.first(std::min<std::size_t>(parsed->payload.size(), parsed->slot.length)), head.addresses);
	}
	if (!engine_.adapter_.queue_pairs().owns(parsed->slot.destination())) {
		++counters_.nobodys;
		return;
	}
	++counters_.taken;
	handle(parsed->slot, parsed->payload.data(), head.addresses);
	count_flow(head.addresses, head.source_port);
	if (busy_) steer_busy_flow();
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

// False: there is no hope.
bool Remotes::want(Place place) {
	const Nanoseconds now = engine_.adapter_.context().now;
	const std::lock_guard lock(mutex_);
	if (std::ranges::find(wanted_, place) != wanted_.end()) return true;
	if (const auto at = failed_.find(place);
		!place.is_service && at != failed_.end() && now < at->second.when + connect_again_after)
		return false;
	if (wanted_.size() >= wanted_max) return false;
	wanted_.push_back(place);
	if (!connector_.joinable()) {
		sigset_t all, before;
		sigfillset(&all);
		sigdelset(&all, SIGSEGV);
		sigdelset(&all, SIGBUS);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		connector_ = std::thread([this] { connect_wanted(); });
		pthread_sigmask(SIG_SETMASK, &before, nullptr);
		pthread_setname_np(connector_.native_handle(), "verbena-connect");
	}
	wanted_changed_.notify_one();
	return true;
}

void Remotes::connect_wanted() {
	std::unique_lock lock(mutex_);
	for (;;) {
		wanted_changed_.wait(lock, [this] { return stopping_ || !wanted_.empty(); });
		if (stopping_) return;
		const Place place = wanted_.front();
		lock.unlock();
		const auto outlet = engine_.local_outlet(place);
		engine_.control([&](adapter::ChannelAdapter&) {
			const std::lock_guard relock(mutex_);
			std::erase(wanted_, place);
			if (failed_.size() >= wanted_max) failed_.clear();
			if (outlet) failed_.erase(place);
			else failed_[place] = {monotonic_now(), outlet.error()};
			release_held(place, outlet);
			return 0;
		});
		lock.lock();
	}
}

void Remotes::abandon_after_fork() {
	if (connector_.joinable()) connector_.detach();
	udp_.reset();
}

}  // namespace verbena::engine
