// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/link.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "base/random.h"
#include "nic/engine/affinity.h"
#include "nic/engine/eventfd.h"
#include "nic/transport/in_flight.h"

namespace verbena::engine {

namespace {

// If slots stay unread and the peer makes no pass for this long, the peer's program does not poll
// (kick_if_stuck). The program may be busy only for a moment, so the limit approximately equals the
// time that it takes to wake the peer's progress thread.
constexpr Nanoseconds stuck_after = 20'000;
constexpr Nanoseconds kick_again_after = 1'000'000;
// A number of slots or of acknowledgements. Handling this many takes about as long as a cache miss.
constexpr std::uint32_t prefetch_distance = 4;

}  // namespace

Link::Link(Peer peer)
	: peer_(std::move(peer)),
	  progress_(peer_.progress.get()),
	  doorbell_(peer_.doorbell.get()),
	  files_(peer_.is_stranger ? 0 : peer_.pid) {
	outlet.slots.attach(peer_.outgoing.get());
	if (peer_.is_stranger) outlet.slots.never_share();
	outlet.acks.attach(peer_.outgoing.get());
	// A stranger could have sent the token of another process.
	outlet.peer = peer_.is_stranger ? secure_random<std::uint64_t>() : peer_.token;
	outlet.user = this;
	slots_.attach(peer_.incoming.get());
	acks_.attach(peer_.incoming.get());
	slots_.announce_mapping(files_.reachable());
}

std::expected<std::unique_ptr<Link>, int> Link::to_self(std::uint64_t token, const OwnProgress& own) {
	void* memory = mmap(nullptr, sizeof(wire::Direction), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) return std::unexpected(errno);
	madvise(memory, sizeof(wire::Direction), MADV_DONTFORK);
	std::unique_ptr<Link> link(new Link(getpid()));
	link->progress_ = &own.page();
	link->doorbell_ = own.doorbell();
	link->self_.reset(static_cast<wire::Direction*>(memory));
	link->outlet.slots.attach(link->self_.get());
	link->outlet.acks.attach(link->self_.get());
	link->outlet.peer = token;
	link->outlet.user = link.get();
	link->slots_.attach(link->self_.get());
	link->acks_.attach(link->self_.get());
	link->slots_.announce_mapping(link->files_.reachable());
	return link;
}

std::expected<std::unique_ptr<Link>, int> Link::to_dead_end(const OwnProgress& own) {
	auto link = to_self(0, own);
	if (!link) return link;
	(*link)->is_dead_end_ = true;
	(*link)->outlet.closed = true;
	return link;
}

// Receives at the dead end: fails the queue pairs of this process that sent RC requests there, and
// discards everything else. True: there was something.
bool Link::refuse(adapter::ChannelAdapter& adapter) {
	bool any = false;
	for (wire::Slot image; slots_.read(image); slots_.advance()) {
		any = true;
		const wire::OpcodeFacts& facts = wire::facts(image.opcode());
		if (facts.transport != wire::Transport::rc || facts.response) continue;
		transport::QueuePair* qp = adapter.queue_pairs().find(image.source());
		if (!qp || qp->outlet != &outlet || qp->state == transport::QpState::error) continue;
		transport::fail_send_queue(adapter.context(), *qp, queues::Status::retry_exceeded);
	}
	slots_.release();
	return any;
}

bool Link::receive(adapter::ChannelAdapter& adapter, ForwardedPackets& forwarded) {
	if (is_dead_end_) [[unlikely]]
		return refuse(adapter);
	bool any = false;
	wire::AckRecord record;
	// At most as many as the ring holds: a peer that writes without an end must not hold this pass.
	std::uint32_t acks_left = wire::Direction::ack_count;
	for (; acks_left && acks_.read(record); --acks_left) {
		adapter.expect(acks_.destination(prefetch_distance));
		adapter.handle_ack(outlet, record);
		any = true;
	}
	if (!acks_left) [[unlikely]]
		return true;  // slots come after the records that were written before them
	wire::Slot image;
	wire::Traffic traffic;
	std::uint32_t slots = 0, bytes = 0, shared_payloads = 0;
	while (slots < slots_a_pass && bytes < bytes_a_pass && shared_payloads < shared_payloads_a_pass && !broken_ &&
		slots_.read(image)) {
		adapter.expect(slots_.destination(prefetch_distance));
		const wire::OpcodeFacts& facts = wire::facts(image.opcode());
		if (image.payload_line == wire::Slot::shared_payload && facts.operation == wire::Operation::read_response &&
			image.length <= wire::Direction::shared_payload_bytes_max) {
			receive_shared(adapter, image);
			slots_.advance();
			++slots;
			++shared_payloads;
			traffic += wire::traffic_of(image, image.length);
			continue;
		}
		const std::byte* payload = slots_.payload(image, extension_bytes(facts));
		if (!payload) [[unlikely]] {
			broken_ = true;
			break;
		}
		if (image.opcode() == wire::management_datagram) [[unlikely]] {
			wire::AddressPair addresses;
			if (image.length >= sizeof addresses) {
				std::memcpy(&addresses, payload, sizeof addresses);
				adapter.handle_management(
					outlet, {payload + sizeof addresses, image.length - sizeof addresses}, addresses);
			}
		} else if (image.opcode() == wire::forwarded_packet) [[unlikely]] {
			forwarded.take_forwarded(
				{payload, image.length}, peer_.is_stranger ? std::optional(peer_.user) : std::nullopt);
		} else if (facts.deth) {
			const wire::AddressPair addresses = slots_.direction()->addresses[image.deth.address_index()];
			adapter.handle_slot(outlet, image, payload, addresses);
		} else {
			static constexpr wire::AddressPair none{};
			adapter.handle_slot(outlet, image, payload, none);
		}
		slots_.advance();
		++slots;
		bytes += image.length;
		traffic += wire::traffic_of(image, image.length);
	}
	if (slots) slots_traffic_ += traffic;
	if (outlet.peer_needs_kicks) [[unlikely]] {
		peer_needs_kicks_.expire(adapter.context().now);
		outlet.peer_needs_kicks = peer_needs_kicks_.active();
	}
	if (slots_.release()) kick_if_armed();
	return any || slots;
}

void Link::use_direct(const OwnProgress& own) {
	const memory::RightsTable* const rights = is_self() ? own.rights() : peer_.rights.get();
	if (peer_.is_stranger || !rights) return;
	// Within the process a right is withdrawn under the lock under which an operation runs, so no
	// verb waits for one. Ordinary memory takes the ring.
	wire::Direction& written = is_self() ? *self_ : *peer_.outgoing;
	direct_.emplace(
		*rights, written.direct_access, own.identity().token, is_self() ? getpid() : peer_.pid, peer_.pidfd.get());
	if (direct_->reachable()) outlet.peer_memory = &*direct_;
}

wire::Traffic Link::sent() const {
	wire::Traffic sum = outlet.slots.traffic();
	if (direct_) sum += direct_->sent;
	return sum += outlet.acks.written() * wire::traffic_of_ack;
}

wire::Traffic Link::received() const {
	wire::Traffic sum = slots_traffic_;
	if (direct_) sum += direct_->received;
	return sum += acks_.consumed() * wire::traffic_of_ack;
}

void Link::receive_shared(adapter::ChannelAdapter& adapter, const wire::Slot& image) {
	const std::byte* const payload = files_.find(image.shared, image.length);
	if (!payload) slots_.announce_mapping(false);  // the peer sends copies from now on
	adapter.handle_shared(outlet, image, payload, slots_);
}

// Moves the peer's progress thread to this processor and wakes it through the doorbell. Waking a
// thread on a distant idle core takes five times as long as on the caller's core
// (docs/decisions/0008). The thread is moved only if both processes are in one pid namespace, where
// the pid on the page equals the one that the kernel reported; a thread id of another namespace
// means nothing here. A thread whose processors the user chose is not moved (affinity.h).
void Link::kick() {
	if (peer_.is_stranger) {
		const char byte = 0;
		syscall(SYS_sendto, peer_.socket.get(), &byte, sizeof byte, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
		return;
	}
	const int cpu = sched_getcpu();
	bool moved = false;
	if (cpu != moved_to_) {
		moved = move_progress_thread(peer_.pid, *progress_, cpu);
		moved_to_ = cpu;  // if it may not move, it wakes where it is
	}
	signal_eventfd(doorbell_, moved ? ring_after_move : 1);
}

// The epochs are those of progress_page.h. One kick for each is enough. Returns whether the peer is
// ARMED.
bool Link::kick_if_armed() {
	const std::uint32_t epoch = progress_->armed_epoch.load(std::memory_order_relaxed);
	if (!(epoch & 1)) return false;
	if (std::exchange(kicked_epoch_, epoch) != epoch) kick();
	return true;
}

// Learns that the peer did not poll when it had a request to take in.
void Link::note_needed_kick(Nanoseconds now) {
	if (is_self()) return;
	if (needed_kicks_.add(now) && !peer_needs_kicks_.active()) peer_needs_kicks_.begin(now);
	outlet.peer_needs_kicks = peer_needs_kicks_.active();
}

void Link::kick_if_wanted(Nanoseconds now, bool polls) {
	// Slots are requests or responses; acknowledgements are records.
	const std::uint64_t published = outlet.slots.published();
	const bool requests = std::exchange(published_seen_, published) != published;
	const bool acknowledged = std::exchange(outlet.acknowledged, false);
	if (kick_if_armed() || !requests || (acknowledged && polls)) return;
	const std::uint32_t epoch = progress_->request_epoch.load(std::memory_order_relaxed);
	if ((epoch & 1) && std::exchange(kicked_request_epoch_, epoch) != epoch) [[unlikely]] {
		note_needed_kick(now);
		kick();
	}
}

bool Link::peer_is_gone() const {
	// A stranger's socket may also hold kicks.
	const short end = peer_.is_stranger ? POLLRDHUP : POLLIN;
	pollfd ends[] = {{peer_.socket.get(), end, 0}, {peer_.pidfd.get(), POLLIN, 0}};
	return !is_self() && poll(ends, 2, 0) > 0;
}

Link::Heard Link::hear(Nanoseconds now) {
	constexpr int kicks_max = 16;
	char bytes[8];
	std::uint32_t kicks = 0;
	for (; kicks < kicks_max; ++kicks) {
		const ssize_t got = recv(peer_.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
		if (got <= 0 && peer_is_gone()) return Heard::end;  // an empty message is a kick
	}
	// A kick after which nothing was read may have been late; many are an attempt to keep this
	// process awake.
	const std::uint64_t consumed = slots_.consumed() + acks_.consumed();
	const bool was_needed = consumed != consumed_at_kick_ || slots_.ready();
	consumed_at_kick_ = consumed;
	return kick_guard_.pause_after(was_needed ? 0 : kicks, 0, now) ? Heard::noise : Heard::kick;
}

void Link::abandon_after_fork() {
	peer_.socket = Descriptor();
	peer_.pidfd = Descriptor();
	peer_.doorbell = Descriptor();
	forget_mapping(peer_.outgoing);
	forget_mapping(peer_.incoming);
	forget_mapping(peer_.progress);
	forget_mapping(peer_.rights);
	stop_direct();
	if (direct_) direct_->abandon_after_fork();
	forget_mapping(self_);
	files_.abandon_after_fork();
}

// `kick_at_` is the time of the next kick unless the peer makes a pass or has read all slots.
void Link::kick_if_stuck(Nanoseconds now) {
	if (is_self() || outlet.closed) return;
	if (outlet.slots.drained()) {
		kick_at_ = never;
		return;
	}
	const std::uint64_t passes = peer_.progress->passes.load(std::memory_order_relaxed);
	if (kick_at_ == never || passes != stuck_at_pass_) {
		stuck_at_pass_ = passes;
		kick_at_ = now + stuck_after;
		return;
	}
	if (now < kick_at_) return;
	note_needed_kick(now);
	kick();
	kick_at_ = now + kick_again_after;
}

}  // namespace verbena::engine
