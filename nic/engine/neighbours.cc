// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/neighbours.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "nic/engine/stranger_share.h"
#include "nic/transport/in_flight.h"

namespace verbena::engine {

using transport::Outlet;
using transport::QueuePair;

namespace {

// Requests to a process that has ended fail this much later. On a wire it would take some ACK
// timeouts, and programs rely on it: many exit as soon as they have all they wait for, while their
// peer's last requests are still in flight.
constexpr Nanoseconds mourning = 100'000'000;
// Datagrams to a process that gave no answer are dropped this long, and ten times as long as the
// caller waited for it.
constexpr Nanoseconds silence = 1'000'000'000;

}  // namespace

Neighbours::Neighbours(
	adapter::ChannelAdapter& adapter, EpollSet& epoll, const OwnProgress& own, ForwardedPackets& forwarded)
	: adapter_(adapter), epoll_(epoll), own_(own), forwarded_(forwarded) {}

// Names.

std::expected<void, int> Neighbours::watch(const Directory::Listeners& listeners) {
	for (const Descriptor& each : listeners)
		if (!epoll_.add(each.get())) return std::unexpected(errno);  // the caller closes them all
	return {};
}

std::expected<void, int> Neighbours::add_block(BlockName name) {
	if (auto watched = watch(name.listeners); !watched) return watched;
	blocks_.push_back(std::move(name));
	return {};
}

std::expected<void, int> Neighbours::add_service(cm::ServiceId service, Directory::Listeners listeners) {
	if (auto watched = watch(listeners); !watched) return watched;
	services_[service] = std::move(listeners);
	return {};
}

void Neighbours::remove_service(cm::ServiceId service) {
	// Counted before another process can claim the name, so that no peer takes the old owner for
	// the new one.
	own_.page().services_released.fetch_add(1, std::memory_order_release);
	services_.erase(service);
}

std::optional<std::uint32_t> Neighbours::first_block() const {
	if (blocks_.empty()) return std::nullopt;
	return blocks_.front().block;
}

bool Neighbours::listens_at(int fd) const {
	const auto has = [fd](const Directory::Listeners& listeners) {
		return std::ranges::find(listeners, fd, &Descriptor::get) != listeners.end();
	};
	return std::ranges::any_of(blocks_, [&](const BlockName& name) { return has(name.listeners); }) ||
		std::ranges::any_of(services_, [&](const auto& service) { return has(service.second); });
}

// Links.

Outlet* Neighbours::find(Place place) {
	Link* link = nullptr;
	if (place.is_service) {
		const auto at = served_by_.find(cm::ServiceId{place.value});
		if (at != served_by_.end() && at->second.services_released == at->second.link->services_released())
			link = at->second.link;
	} else {
		const auto at = link_by_block_.find(static_cast<std::uint32_t>(place.value));
		if (at != link_by_block_.end()) link = at->second;
	}
	// A new process may own the place of one that has just ended.
	return link && !link->outlet.closed && !link->peer_is_gone() ? &link->outlet : nullptr;
}

Outlet* Neighbours::find_block(std::uint32_t block) const {
	const auto at = link_by_block_.find(block);
	return at != link_by_block_.end() && !at->second->outlet.closed ? &at->second->outlet : nullptr;
}

void Neighbours::add(Peer peer) {
	const PeerKey key{peer.user, peer.token};
	keep(std::make_unique<Link>(std::move(peer)), key);
}

bool Neighbours::has_room_for(uid_t user) const {
	Taken taken{};
	for (const auto& link : links_)
		if (link->peer().is_stranger) ++(link->peer().user == user ? taken.by_the_user : taken.by_others);
	return has_room_for_stranger(taken, strangers_max);
}

Link* Neighbours::keep(std::unique_ptr<Link> link, PeerKey key) {
	Link& kept = *link;
	// A descriptor leaves the set when the link is destroyed on an early return.
	if (!kept.is_self() && !epoll_.add(kept.peer().socket.get())) return nullptr;
	if (!kept.is_self() && kept.peer().pidfd) epoll_.add(kept.peer().pidfd.get());
	links_.reserve(links_.size() + 1);
	const auto [same, is_first] = link_by_token_.try_emplace(key, &kept);
	// A queue pair takes packets from each link to its peer's process (finish_connect()). A token
	// is enough to recognise the process, because its user is certain.
	if (!is_first) kept.outlet.peer = same->second->outlet.peer;
	links_.push_back(std::move(link));
	if (uses_direct_) kept.use_direct(own_);
	return &kept;
}

std::expected<Neighbours::Attempt, int> Neighbours::begin_connect(Place place, bool patient) {
	Attempt attempt{.place = place, .start = monotonic_now(), .links_retired = links_retired()};
	if (const auto silent = silent_until_.find(place); silent != silent_until_.end()) {
		if (!patient && attempt.start < silent->second) return std::unexpected(ETIMEDOUT);
		silent_until_.erase(silent);
	}
	if (!place.is_service) return attempt;
	if (const auto at = served_by_.find(cm::ServiceId{place.value}); at != served_by_.end()) {
		attempt.served_by = at->second.link;
		attempt.services_released = at->second.link->services_released();
	}
	return attempt;
}

std::expected<Outlet*, int> Neighbours::finish_connect(const Attempt& attempt, std::expected<Peer, int> peer) {
	if (!peer) {
		const Nanoseconds now = monotonic_now();
		if (peer.error() == ETIMEDOUT)
			silent_until_[attempt.place] = now + std::max(silence, 10 * (now - attempt.start));
		return std::unexpected(peer.error());
	}
	Link* link = nullptr;
	const PeerKey key{peer->user, peer->token};
	if (peer->is_self || peer->already_linked) {
		if (const auto at = link_by_token_.find(key); at != link_by_token_.end()) link = at->second;
		// The peer still has a link that we have just retired.
		else if (peer->already_linked) return std::unexpected(ECONNRESET);
		else if (auto self = Link::to_self(peer->token, own_)) link = keep(std::move(*self), key);
		else return std::unexpected(self.error());
	} else if (peer->is_stranger && !has_room_for(peer->user)) {
		return std::unexpected(EUSERS);
	} else {
		// Two processes that connect to each other at one moment get two links. The peer counts on
		// both, so none may be dropped.
		link = keep(std::make_unique<Link>(std::move(*peer)), key);
		if (!link) return std::unexpected(errno);
	}
	if (attempt.place.is_service) {
		const bool found_twice = link == attempt.served_by && links_retired() == attempt.links_retired;
		served_by_[cm::ServiceId{attempt.place.value}] = {link, found_twice ? attempt.services_released : std::nullopt};
	} else {
		link_by_block_[static_cast<std::uint32_t>(attempt.place.value)] = link;
	}
	return &link->outlet;
}

bool Neighbours::receive() {
	bool moved = false;
	for (auto& link : links_) {
		moved |= link->receive(adapter_, forwarded_);
		if (link->outlet.waiting_first) moved |= adapter_.resume(link->outlet);
	}
	return moved;
}

bool Neighbours::wait_for_room() const {
	return std::ranges::any_of(links_, [](const auto& link) { return link->outlet.waiting_first != nullptr; });
}

bool Neighbours::kick_stuck(Nanoseconds now, std::uint32_t cpu) {
	bool shares_cpu = false;
	for (auto& link : links_) {
		link->kick_if_stuck(now);
		shares_cpu |= link->shares_cpu(cpu);
	}
	return shares_cpu;
}

bool Neighbours::announces(const std::function<bool(wire::DirectAccess)>& match) const {
	// The rights were withdrawn before: a peer that does not announce yet sees that.
	std::atomic_thread_fence(std::memory_order_seq_cst);
	return std::ranges::any_of(links_, [&](const auto& link) {
		const wire::DirectAccess access = link->direct_access();
		return access && match(access) && !link->peer_is_gone();
	});
}

// The end of links.

// A neighbour of this user has nothing more to send on its socket, so its readability is its end.
// peer_is_gone() asks again, because the number may belong to another descriptor since epoll
// reported it.
bool Neighbours::handle_readable(int fd, Nanoseconds now) {
	const auto at = std::ranges::find_if(
		links_, [fd](const auto& link) { return link->peer().socket.get() == fd || link->peer().pidfd.get() == fd; });
	if (at == links_.end()) return true;
	Link& link = **at;
	if (link.peer().is_stranger && link.peer().socket.get() == fd) {
		const Link::Heard heard = link.hear(now);
		if (heard != Link::Heard::end) return heard == Link::Heard::kick;
	}
	if (!link.peer_is_gone()) return true;
	dying_.push_back({&link, now + mourning});
	link.stop_direct();
	unwatch(link);
	return true;
}

bool Neighbours::hears_stranger_at(int fd) const {
	return std::ranges::any_of(links_, [&](const auto& link) {
		return link->peer().is_stranger && link->peer().socket.get() == fd &&
			std::ranges::find(dying_, link.get(), &Dying::link) == dying_.end();
	});
}

void Neighbours::unwatch(const Link& link) {
	for (const Descriptor* fd : {&link.peer().socket, &link.peer().pidfd})
		if (*fd) epoll_.remove(fd->get());
}

bool Neighbours::retire_due(Nanoseconds now) {
	std::vector<Link*> due;
	for (const auto& link : links_) {
		const auto dying = std::ranges::find(dying_, link.get(), &Dying::link);
		if (link->broken() || (dying != dying_.end() && dying->due <= now && link->peer_is_gone()))
			due.push_back(link.get());
	}
	std::erase_if(dying_,
		[&](const Dying& dying) { return dying.due <= now && std::ranges::find(due, dying.link) == due.end(); });
	for (Link* link : due) retire(*link);
	return !due.empty();
}

// A retired link may be freed when nothing points at its outlet. Queue pairs are moved to the dead
// end at once. Datagrams are harder, because address handles remember outlets, and a poster reads
// them under its send queue's lock alone. So links_retired_ counts first, which makes every address
// handle look up its destination again; then free_unreferenced() takes each datagram QP's lock
// once: a thread that held it has finished its post by then, and the request that it posted is
// visible in the queue.
void Neighbours::retire(Link& link) {
	// The steps that need memory come first: without it, the link stays as it is and is due again.
	Link& moved_to = dead_end();
	retired_.reserve(retired_.size() + 1);
	unwatch(link);
	// Takes in everything that the peer had published before its end.
	while (link.receive(adapter_, forwarded_)) {}
	adapter_.finish_pass();
	link.stop_direct();
	adapter_.fail_outlet(link.outlet);

	adapter_.queue_pairs().for_each([&](QueuePair& qp) {
		if (qp.outlet != &link.outlet) return;
		qp.outlet = &moved_to.outlet;
		adapter_.context().rights.withdraw_queue_pair(qp.qpn);
	});
	std::erase(adapter_.context().sharing_outlets, &link.outlet);
	std::erase_if(dying_, [&](const Dying& dying) { return dying.link == &link; });
	std::erase_if(link_by_token_, [&](const auto& entry) { return entry.second == &link; });
	std::erase_if(link_by_block_, [&](const auto& entry) { return entry.second == &link; });
	std::erase_if(served_by_, [&](const auto& entry) { return entry.second.link == &link; });
	past_.receive_errors += link.broken();
	const auto at = std::ranges::find(links_, &link, &std::unique_ptr<Link>::get);
	retired_.push_back(std::move(*at));
	links_.erase(at);
	links_retired_.fetch_add(1, std::memory_order_release);
}

Link& Neighbours::dead_end() {
	if (!dead_end_) {
		auto made = Link::to_dead_end(own_);
		if (!made) throw std::bad_alloc();
		links_.push_back(std::move(*made));
		dead_end_ = links_.back().get();
	}
	return *dead_end_;
}

std::optional<std::vector<const void*>> Neighbours::outlets_of_datagrams() {
	bool complete = true;
	std::vector<const void*> referenced;  // by datagrams that have not been sent yet
	adapter_.queue_pairs().for_each([&](QueuePair& qp) {
		if (qp.type != transport::QpType::ud || !complete) return;
		if (!qp.sq_lock.try_lock()) {
			complete = false;
			return;
		}
		const std::uint32_t head = qp.sq_head.load(std::memory_order_relaxed);
		for (std::uint32_t i = qp.sq_tail.load(std::memory_order_relaxed); i != head; ++i)
			referenced.push_back(qp.wqe(i).datagram.outlet);
		qp.sq_lock.unlock();
	});
	if (!complete) return std::nullopt;
	return referenced;
}

void Neighbours::free_unreferenced(const std::function<void(const Outlet&)>& freed) {
	if (retired_.empty()) return;
	const auto referenced = outlets_of_datagrams();
	if (!referenced) return;
	std::erase_if(retired_, [&](const std::unique_ptr<Link>& link) {
		if (std::ranges::find(*referenced, &link->outlet) != referenced->end()) return false;
		count(*link, past_);
		freed(link->outlet);
		return true;
	});
}

void Neighbours::abandon_after_fork() {
	for (auto* list : {&links_, &retired_})
		for (auto& link : *list) link->abandon_after_fork();
	links_.clear();
	retired_.clear();
	dying_.clear();
	dead_end_ = nullptr;
	link_by_token_.clear();
	link_by_block_.clear();
	served_by_.clear();
	blocks_.clear();
	services_.clear();
}

}  // namespace verbena::engine
