#include "nic/engine/remotes.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <pthread.h>

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

bool Remotes::pass() {
	if (!udp_) return false;
	if (remotes_.empty() && ++idle_passes_ % passes_between_listening != 0) return false;
	const std::size_t datagrams = udp_->receive(datagrams_a_pass, [this](const link::UdpPacket& packet) {
		if (!engine_.adapter_.queue_pairs().owns(packet.slot.destination())) return forward(packet);
		if (!packet.steered) count_flow(packet.addresses, packet.source_port);
		handle(packet.slot, packet.payload.data(), packet.addresses);
	});
	if (busy_) [[unlikely]]
		steer_busy_flow();
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

void Remotes::forward(const link::UdpPacket& packet) {
	const wire::Qpn destination = packet.slot.destination();
	const wire::ForwardedPacket head{.addresses = packet.addresses, .source_port = packet.source_port, .ip_id = packet.ip_id};
	const auto at = engine_.link_by_block_.find(block_of(destination));
	if (at != engine_.link_by_block_.end() && !at->second->outlet.closed) {
		forward_to(*at->second, destination, std::as_bytes(std::span(&head, 1)), packet.datagram);
	} else if (want(block_of(destination)) && held_.size() < held_max) {
		Held& held = held_.emplace_back(destination);
		held.payload.resize(sizeof head + packet.datagram.size());
		std::memcpy(held.payload.data(), &head, sizeof head);
		std::ranges::copy(packet.datagram, held.payload.begin() + sizeof head);
	} else {
		++counters_.nobodys;
	}
}

void Remotes::forward_to(Link& link, wire::Qpn destination, std::span<const std::byte> payload, std::span<const std::byte> rest) {
	transport::Outlet& outlet = link.outlet;
	const auto length = static_cast<std::uint32_t>(payload.size() + rest.size());
	const auto reserved = outlet.slots.reserve(length, 0);
	if (!reserved.slot) {
		++counters_.forward_no_room;
		return;
	}
	std::ranges::copy(payload, reserved.payload);
	std::ranges::copy(rest, reserved.payload + payload.size());
	reserved.slot->set_bth(wire::forwarded_packet, destination, {}, 0);
	reserved.slot->payload_line = reserved.payload_line;
	engine_.adapter_.context().touch(outlet);
	outlet.slots.publish(reserved.slot, length);
	++counters_.forwarded;
}

// The attempt to reach the owner of `block` is over.
void Remotes::release_held(std::uint32_t block) {
	const auto at = engine_.link_by_block_.find(block);
	for (const Held& held : held_) {
		if (block_of(held.destination) != block) continue;
		if (at != engine_.link_by_block_.end()) forward_to(*at->second, held.destination, held.payload, {});
		else ++counters_.nobodys;
	}
	std::erase_if(held_, [block](const Held& held) { return block_of(held.destination) == block; });
}

// The process at the other end is one of ours, but what it forwards is another host's: it is parsed and checked here as if it had come
// straight. It is never forwarded again.
void Remotes::take_forwarded(std::span<const std::byte> payload) {
	wire::ForwardedPacket head;
	if (!udp_ || payload.size() < sizeof head) return;
	std::memcpy(&head, payload.data(), sizeof head);
	wire::Flow flow{.source_port = head.source_port, .traffic_class = head.addresses.traffic_class, .hop_limit = head.addresses.hop_limit};
	std::ranges::copy(head.addresses.source, flow.source.begin());
	std::ranges::copy(head.addresses.destination, flow.destination.begin());
	const auto parsed = wire::parse(flow, payload.subspan(sizeof head), head.ip_id);
	if (!parsed || !engine_.adapter_.queue_pairs().owns(parsed->slot.destination())) return;
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
bool Remotes::want(std::uint32_t block) {
	const Nanoseconds now = engine_.adapter_.context().now;
	const std::lock_guard lock(mutex_);
	if (std::ranges::find(wanted_, block) != wanted_.end()) return true;
	if (const auto at = failed_.find(block); at != failed_.end() && now < at->second + connect_again_after) return false;
	if (wanted_.size() >= wanted_max) return false;
	wanted_.push_back(block);
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
		const std::uint32_t block = wanted_.front();
		lock.unlock();
		const bool connected = engine_.local_outlet({block << block_index_bits}).has_value();
		engine_.control([&](adapter::ChannelAdapter&) {
			const std::lock_guard relock(mutex_);
			std::erase(wanted_, block);
			if (failed_.size() >= wanted_max) failed_.clear();
			if (connected) failed_.erase(block);
			else failed_[block] = monotonic_now();
			release_held(block);
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
