// SPDX-License-Identifier: Apache-2.0
#include "nic/link/udp_path.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <sys/mman.h>

#include "base/check.h"
#include "nic/wire/mad.h"

namespace verbena::link {
namespace {

// A Direction takes 290 KiB. A private mapping instead of the heap makes an idle path use only the
// pages that it has touched.
wire::Direction* map_direction() {
	void* memory = mmap(nullptr, sizeof(wire::Direction), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) throw std::bad_alloc();
	return static_cast<wire::Direction*>(memory);  // zeroed memory is an empty ring
}

bool is_link_local(const wire::Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

void discard(void* from, void* to) {
	constexpr std::uintptr_t page = 4096;
	const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(from) + page - 1) & ~(page - 1);
	const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(to) & ~(page - 1);
	if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

void UdpPath::Unmap::operator()(wire::Direction* direction) const { munmap(direction, sizeof *direction); }

// A batch of packets under construction. Headers, trailers, short and inline payloads are written
// one after the other into `scratch_`; longer payloads stay in the arena, and an iovec refers to
// them.
class UdpPath::Batch {
public:
	explicit Batch(std::size_t limit) : limit_(limit) {}

	bool empty() const { return packets_ == 0; }
	std::size_t packets() const { return packets_; }

	// Whether the packet fits the batch: same flow, and segments of equal length of which only the
	// last may be shorter (UDP_SEGMENT).
	bool admits(const wire::Flow& flow, std::size_t wire_bytes) const {
		if (empty()) return true;
		return packets_ < limit_ && bytes_ + wire_bytes <= UdpBatch::bytes_max && last_bytes_ == segment_bytes_ &&
			wire_bytes <= segment_bytes_ && flow == flow_;
	}

	// `payload` must stay valid until send() unless the slot's payload is inline.
	void add(const wire::Slot& slot, const wire::Piece& piece, const std::byte* payload, const wire::Flow& flow) {
		if (empty()) {
			flow_ = flow;
			segment_bytes_ = piece.wire_bytes();
		}
		if (piece.wire_bytes() != last_bytes_) prefix_.emplace(flow_, piece.wire_bytes());
		const std::span<std::byte, wire::header_bytes_max> header(scratch_ + used_, wire::header_bytes_max);
		const std::size_t header_bytes = wire::write_header(slot, piece, header);
		const std::byte* lies_at = payload + piece.payload_offset;
		// An inline payload lies in the caller's copy of the slot, which dies before send().
		const bool copied = slot.payload_line == wire::Slot::inline_payload || piece.payload_bytes <= copied_bytes_max;
		if (copied) {
			std::memcpy(header.data() + header_bytes, lies_at, piece.payload_bytes);
			lies_at = header.data() + header_bytes;
		}
		append(header.data(), header_bytes);
		append(lies_at, piece.payload_bytes);
		used_ += header_bytes + (copied ? piece.payload_bytes : 0);

		const std::span<std::byte, wire::trailer_bytes_max> trailer(scratch_ + used_, wire::trailer_bytes_max);
		// The ICRC covers the IPv4 identification: the kernel numbers the segments of a batch from
		// 0, and a single packet has 0.
		const std::size_t trailer_bytes = wire::write_trailer(*prefix_, static_cast<std::uint16_t>(packets_),
			{.headers = header.first(header_bytes),
				.payload = {lies_at, piece.payload_bytes},
				.pad_count = piece.pad_count},
			trailer);
		append(trailer.data(), trailer_bytes);
		used_ += trailer_bytes;
		last_bytes_ = piece.wire_bytes();
		bytes_ += last_bytes_;
		++packets_;
	}

	const wire::Flow& flow() const { return flow_; }
	SendOutcome send(UdpLink& link, std::uint32_t interface_index) {
		return link.send({.flow = flow_,
			.interface_index = interface_index,
			.pieces = std::span(pieces_).first(piece_count_),
			.packets = packets_,
			.bytes = bytes_,
			.segment_bytes = segment_bytes_});
	}

private:
	// Extends the last iovec if the bytes follow it directly.
	void append(const std::byte* from, std::size_t size) {
		if (size == 0) return;
		if (piece_count_ != 0) {
			iovec& last = pieces_[piece_count_ - 1];
			if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == from) {
				last.iov_len += size;
				return;
			}
		}
		pieces_[piece_count_++] = {.iov_base = const_cast<std::byte*>(from), .iov_len = size};
	}

	// A short payload is copied, so that the packets of a batch lie in one piece: for the kernel a
	// piece costs more than the bytes. This was measured with 64; the limit is a guess above it.
	static constexpr std::size_t copied_bytes_max = 256;
	static constexpr std::size_t packet_scratch = wire::header_bytes_max +
		std::max<std::size_t>(wire::Slot::inline_bytes_max, copied_bytes_max) + wire::trailer_bytes_max;

	std::size_t limit_;
	std::size_t packets_ = 0, bytes_ = 0, segment_bytes_ = 0, last_bytes_ = 0;
	wire::Flow flow_;
	std::optional<wire::IcrcPrefix> prefix_;  // serves packets of last_bytes_
	std::size_t used_ = 0, piece_count_ = 0;
	std::byte scratch_[UdpBatch::packets_max * packet_scratch];
	iovec pieces_[UdpBatch::packets_max * 3];
};

UdpPath::UdpPath(UdpLink& link, const UdpPathOptions& options)
	: link_(link),
	  flow_{.source = options.source,
		  .destination = options.destination,
		  .destination_port = options.destination_port,
		  .traffic_class = options.traffic_class,
		  .hop_limit = options.hop_limit},
	  interface_index_(options.interface_index),
	  addressed_(options.addressed),
	  interface_of_(options.interface_of),
	  direction_(map_direction()) {
	check(wire::is_ipv4_mapped(options.source) == wire::is_ipv4_mapped(options.destination),
		"both ends of a path are of one family");
	flow_.source_port = link.source_port(flow_.is_ipv4() ? Family::ipv4 : Family::ipv6);
	cursor_.reader.attach(direction_.get());
}

// Datagrams take traffic class and hop limit from their address handle, and those to queue pair 1
// are sent from the management socket.
wire::Flow UdpPath::flow_of(const wire::Slot& slot) const {
	if (!wire::facts(slot.opcode()).deth) return flow_;
	const wire::AddressPair& pair = direction_->addresses[slot.deth.address_index()];
	wire::Flow flow = flow_;
	if (addressed_) {
		std::memcpy(flow.source.data(), pair.source, 16);
		std::memcpy(flow.destination.data(), pair.destination, 16);
	}
	if (slot.destination() == wire::general_services_qpn)
		flow.source_port = link_.management_port(flow.is_ipv4() ? Family::ipv4 : Family::ipv6);
	flow.traffic_class = pair.traffic_class;
	if (pair.hop_limit != 0) flow.hop_limit = pair.hop_limit;
	return flow;
}

// Adds packets to the batch until the next one does not fit or the ring is empty; the cursor stays
// on that packet.
void UdpPath::fill(Batch& batch) {
	wire::Slot slot;
	while (cursor_.reader.read(slot)) {
		const wire::OpcodeFacts& f = wire::facts(slot.opcode());
		check(f.known, "the adapter writes known opcodes");
		const std::byte* payload = cursor_.reader.payload(slot, wire::extension_bytes(f));
		check(payload != nullptr, "the adapter writes payloads within the arena");
		const wire::Flow flow = flow_of(slot);
		for (const std::uint32_t packets = wire::packet_count(slot); cursor_.index < packets; ++cursor_.index) {
			const wire::Piece piece = wire::piece_of(slot, cursor_.index);
			if (!batch.admits(flow, piece.wire_bytes())) return;
			batch.add(slot, piece, payload, flow);
		}
		cursor_.index = 0;
		cursor_.reader.advance();
	}
}

// A slot of zeros has a lap that was never written, so the reader does not take it for a new one.
void UdpPath::trim() {
	discard(std::begin(direction_->slots), std::end(direction_->slots));
	discard(std::begin(direction_->arena), std::end(direction_->arena));
}

std::uint32_t UdpPath::interface_for(const wire::Flow& flow) const {
	const bool needs_interface = addressed_ && interface_of_ && is_link_local(flow.destination);
	return needs_interface ? interface_of_(flow.source) : interface_index_;
}

SendOutcome UdpPath::send_packet(const wire::Flow& flow, std::span<std::byte> bytes) {
	iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
	return link_.send({.flow = flow,
		.interface_index = interface_for(flow),
		.pieces = {&piece, 1},
		.packets = 1,
		.bytes = bytes.size(),
		.segment_bytes = bytes.size()});
}

bool UdpPath::transmit() {
	while (cursor_.reader.ready()) {
		const Cursor start = cursor_;
		Batch batch(unbatched_left_ != 0 || !link_.segmentation() ? 1 : UdpBatch::packets_max);
		fill(batch);
		switch (batch.send(link_, interface_for(batch.flow()))) {
			case SendOutcome::blocked: cursor_ = start; return false;
			// Go back and send these packets one by one, so that only those above the route's MTU
			// are lost.
			case SendOutcome::unsegmentable:
				cursor_ = start;
				unbatched_left_ = batch.packets();
				continue;
			case SendOutcome::sent:
			case SendOutcome::refused:
				if (unbatched_left_ != 0) --unbatched_left_;
				cursor_.reader.release();
		}
	}
	return true;
}

}  // namespace verbena::link
