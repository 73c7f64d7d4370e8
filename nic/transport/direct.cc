// SPDX-License-Identifier: Apache-2.0
#include "nic/transport/direct.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "nic/memory/guarded_copy.h"
#include "nic/transport/peer_memory.h"
#include "nic/transport/responder_checks.h"

namespace verbena::transport {

using memory::Backing;
using memory::KeyRights;
using memory::QueuePairRights;
using memory::Seen;
using queues::Segment;
using queues::SendOpcode;
using queues::SendWqe;
using queues::Status;
using Kind = DirectResult::Kind;

namespace {

// The local memory of a part of a request.
struct Pieces {
	std::array<iovec, queues::segments_max> list;
	std::size_t count = 0;
	std::span<const iovec> all() const { return {list.data(), count}; }
};

// Finds bytes [offset, offset + length) of the request's local memory. False: the queue pair lacks
// the right to a segment, or the segments are too many or too short.
bool find_pieces(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t offset, std::uint32_t length,
	std::uint8_t access, Pieces& pieces) {
	if (wqe.has(queues::send_inline)) {
		if (length) pieces.list[pieces.count++] = {wqe.inline_data() + offset, length};
		return true;
	}
	for (std::uint8_t i = 0; length && i < wqe.segment_count; ++i) {
		const Segment& segment = wqe.segments()[i];
		if (offset >= segment.length) {
			offset -= segment.length;
			continue;
		}
		const std::uint32_t n = std::min(length, segment.length - offset);
		std::byte* const at =
			context.keys.resolve(qp.send_cache, segment.lkey, segment.address + offset, n, access, qp);
		if (!at || pieces.count == queues::segments_max) return false;
		pieces.list[pieces.count++] = {at, n};
		length -= n;
		offset = 0;
	}
	return length == 0;
}

bool gather(const Pieces& pieces, std::byte* to) {
	for (const iovec& piece : pieces.all()) {
		if (!memory::guarded_copy(to, piece.iov_base, piece.iov_len)) return false;
		to += piece.iov_len;
	}
	return true;
}

bool scatter(const Pieces& pieces, const std::byte* from) {
	for (const iovec& piece : pieces.all()) {
		if (!memory::guarded_copy(piece.iov_base, from, piece.iov_len)) return false;
		from += piece.iov_len;
	}
	return true;
}

// The rights on which a direct operation relies. The peer's reader keeps them until it looks for
// others.
struct Rights {
	const Seen<QueuePairRights>* queue_pair = nullptr;
	const Seen<KeyRights>* key = nullptr;

	const KeyRights& region() const { return key->rights; }
	bool still_exist() const { return unchanged(*key) && unchanged(*queue_pair); }
	// Where the byte `address` of the key lies in the key's file.
	std::uint64_t offset_of(std::uint64_t address) const { return region().offset + (address - region().begin); }
};

// Whether the peer's queue pair is connected to this one and takes operations of this kind. One
// that takes fewer READs at a time than this side may send is left to the responder, which refuses
// those beyond.
bool accepts(PeerMemory& peer, const QueuePair& qp, std::uint8_t access, Rights& rights) {
	rights.queue_pair = peer.rights.queue_pair(qp.destination_qpn);
	if (!rights.queue_pair) return false;
	const QueuePairRights& other = rights.queue_pair->rights;
	if (access != memory::remote_write && qp.reads_max > other.reads_max) return false;
	return other.destination_qpn == qp.qpn && other.peer == peer.own_token && (other.access & access) &&
		other.first_psn == qp.cold->first_send_psn;
}

// Whether the key gives the right to all of [address, address + length). The checks are those of
// KeyTable::resolve().
bool permits(PeerMemory& peer, std::uint32_t key, std::uint64_t address, std::uint32_t length, std::uint8_t access,
	Rights& rights) {
	rights.key = peer.rights.key(key);
	if (!rights.key) return false;
	const KeyRights& region = rights.region();
	return region.protection_domain == rights.queue_pair->rights.protection_domain && (region.access & access) &&
		region.contains(address, length);
}

// The operation as far as it was executed; the rest follows.
DirectResult advance(QueuePair& qp, const SendWqe& wqe, std::uint32_t moved, std::uint32_t& bytes_left) {
	bytes_left -= std::min(bytes_left, moved);
	++qp.outlet->direct_steps;
	qp.cold->direct_offset += moved;
	if (qp.cold->direct_offset < wqe.length) return {Kind::partly};
	qp.cold->direct_offset = 0;
	return {Kind::done};
}

// Starts anew through the ring: the bytes that were moved before are moved again.
DirectResult give_up(QueuePair& qp) {
	qp.cold->direct_offset = 0;
	return {Kind::by_ring};
}

constexpr std::uint32_t reth_octets = 16, atomic_eth_octets = 28, aeth_octets = 4, atomic_ack_octets = 8;

DirectResult execute_write(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t& bytes_left) {
	PeerMemory& peer = *qp.outlet->peer_memory;
	Rights rights;
	if (wqe.length > dma_length_max || !accepts(peer, qp, memory::remote_write, rights)) return give_up(qp);
	if (wqe.length == 0) {  // the key of an empty WRITE is not checked (IBA 9.7.4)
		peer.sent += wire::traffic_of_message(0, qp.mtu_shift, reth_octets);
		return advance(qp, wqe, 0, bytes_left);
	}
	if (!permits(peer, wqe.rdma.rkey, wqe.rdma.address, wqe.length, memory::remote_write, rights) ||
		rights.region().backing != Backing::heap)
		return give_up(qp);
	if (bytes_left == 0) return {Kind::partly};
	const std::uint32_t offset = qp.cold->direct_offset;
	const std::uint32_t n = std::min(wqe.length - offset, bytes_left);
	Pieces pieces;
	if (!find_pieces(context, qp, wqe, offset, n, memory::local_use, pieces)) return give_up(qp);
	const KeyRights& region = rights.region();
	std::byte* const to =
		peer.map(region.file, region.descriptor, rights.offset_of(wqe.rdma.address + offset), n, true);
	if (!to) return give_up(qp);

	// The second look after the copy is needed because the peer does not wait for ever: it moves
	// its pages away from an operation that makes no progress, and the bytes may have gone to the
	// old pages.
	peer.announce(wqe.rdma.rkey, {qp.destination_qpn});
	const bool done = rights.still_exist() && gather(pieces, to) && rights.still_exist();
	peer.retract();
	if (!done) return give_up(qp);
	peer.sent += wire::traffic_of_message(n, qp.mtu_shift, offset == 0 ? reth_octets : 0);
	return advance(qp, wqe, n, bytes_left);
}

DirectResult execute_read(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t& bytes_left) {
	PeerMemory& peer = *qp.outlet->peer_memory;
	Rights rights;
	if (wqe.length > dma_length_max || !accepts(peer, qp, memory::remote_read, rights)) return give_up(qp);
	if (wqe.length == 0) {
		peer.sent += wire::traffic_of_message(0, qp.mtu_shift, reth_octets);
		peer.received += wire::traffic_of_message(0, qp.mtu_shift, aeth_octets);
		return advance(qp, wqe, 0, bytes_left);
	}
	if (!permits(peer, wqe.rdma.rkey, wqe.rdma.address, wqe.length, memory::remote_read, rights)) return give_up(qp);
	if (bytes_left == 0) return {Kind::partly};
	const std::uint32_t offset = qp.cold->direct_offset;
	const std::uint32_t n = std::min(wqe.length - offset, bytes_left);
	Pieces pieces;
	if (!find_pieces(context, qp, wqe, offset, n, context.read_sink_access, pieces)) return give_up(qp);
	const KeyRights& region = rights.region();
	const std::uint64_t address = wqe.rdma.address + offset;
	bool done;
	if (region.backing == Backing::none) {
		done = peer.read(address + region.delta, pieces.all(), n);
	} else {
		const std::byte* const from =
			peer.map(region.file, region.descriptor, rights.offset_of(address), n, region.backing == Backing::heap);
		done = from && scatter(pieces, from);
	}
	// After the copy the right must still exist, or the bytes may be those of something else. So
	// the peer need not wait for a READ, and the READ announces nothing.
	if (!done || !rights.still_exist()) return give_up(qp);
	if (offset == 0) peer.sent += wire::traffic_of_message(0, qp.mtu_shift, reth_octets);
	peer.received += wire::traffic_of_message(n, qp.mtu_shift, offset == 0 ? aeth_octets : 0);
	return advance(qp, wqe, n, bytes_left);
}

DirectResult execute_atomic(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t& bytes_left) {
	PeerMemory& peer = *qp.outlet->peer_memory;
	Rights rights;
	const std::uint64_t address = wqe.atomic.address;
	if (wqe.length != 8 || address % 8 || !accepts(peer, qp, memory::remote_atomic, rights)) return give_up(qp);
	if (!permits(peer, wqe.atomic.rkey, address, 8, memory::remote_atomic, rights)) return give_up(qp);
	const KeyRights& region = rights.region();
	if (region.backing != Backing::heap || (address + region.delta) % 8) return give_up(qp);
	Pieces pieces;
	if (!find_pieces(context, qp, wqe, 0, 8, memory::local_use | memory::local_write, pieces)) return give_up(qp);
	std::byte* const mapped = peer.map(region.file, region.descriptor, rights.offset_of(address), 8, true);
	if (!mapped || reinterpret_cast<std::uintptr_t>(mapped) % 8) return give_up(qp);
	auto* const at = reinterpret_cast<std::uint64_t*>(mapped);

	peer.announce(wqe.atomic.rkey, {qp.destination_qpn});
	std::uint64_t original = 0;
	const bool done = rights.still_exist() &&
		(wqe.opcode == SendOpcode::compare_swap
				? memory::guarded_compare_swap(at, wqe.atomic.compare_or_add, wqe.atomic.swap, original)
				: memory::guarded_fetch_add(at, wqe.atomic.compare_or_add, original));
	const bool too_late = done && !rights.still_exist();
	peer.retract();
	if (!done) return give_up(qp);
	// The right ended between the first look and the last. The operation may have met the old pages
	// or the new ones, so it must not be repeated.
	if (too_late) return {Kind::failed, Status::remote_access};
	if (!scatter(pieces, reinterpret_cast<const std::byte*>(&original)))
		return {Kind::failed, Status::local_protection};
	peer.sent += wire::traffic_of_message(0, qp.mtu_shift, atomic_eth_octets);
	peer.received += wire::traffic_of_message(0, qp.mtu_shift, aeth_octets + atomic_ack_octets);
	return advance(qp, wqe, 8, bytes_left);
}

// Address and key lie at the same place in all kinds of requests.
static_assert(offsetof(SendWqe, rdma.rkey) == offsetof(SendWqe, atomic.rkey));

bool same_kind(const SendWqe& a, const SendWqe& b) { return a.opcode == b.opcode && a.rdma.rkey == b.rdma.rkey; }

}  // namespace

bool should_await_ring(QueuePair& qp, const SendWqe& wqe) {
	const std::uint32_t tail = qp.sq_tail.load(std::memory_order_relaxed);
	if (tail == qp.sq_next || !same_kind(wqe, qp.wqe(tail)) || !same_kind(wqe, qp.wqe(qp.sq_next - 1))) return false;
	PeerMemory& peer = *qp.outlet->peer_memory;
	const std::uint8_t access = wqe.opcode == SendOpcode::rdma_write ? memory::remote_write
		: wqe.opcode == SendOpcode::rdma_read                        ? memory::remote_read
																	 : memory::remote_atomic;
	Rights rights;
	return accepts(peer, qp, access, rights) &&
		permits(peer, wqe.rdma.rkey, wqe.rdma.address, wqe.length, access, rights) &&
		(access == memory::remote_read || rights.region().backing == Backing::heap);
}

DirectResult execute_direct(Context& context, QueuePair& qp, SendWqe& wqe, std::uint32_t& bytes_left) {
	switch (wqe.opcode) {
		case SendOpcode::rdma_write: return execute_write(context, qp, wqe, bytes_left);
		case SendOpcode::rdma_read: return execute_read(context, qp, wqe, bytes_left);
		default: return execute_atomic(context, qp, wqe, bytes_left);
	}
}

void publish_rights(Context& context, const QueuePair& qp) {
	const Outlet* const outlet = qp.outlet;
	// In RTR the first request takes the ring, where it raises communication_established.
	const bool receives = qp.state == QpState::rts || (qp.state == QpState::rtr && qp.cold->communication_established);
	if (qp.type != QpType::rc || !receives || !outlet || !outlet->lossless || outlet->closed)
		return context.rights.withdraw_queue_pair(qp.qpn);
	context.rights.publish(QueuePairRights{.qpn = qp.qpn,
		.destination_qpn = qp.destination_qpn,
		.protection_domain = qp.cold->protection_domain,
		.access = qp.remote_access,
		.reads_max = qp.cold->attributes.max_dest_rd_atomic,
		.first_psn = qp.cold->first_receive_psn,
		.peer = outlet->peer});
}

}  // namespace verbena::transport
