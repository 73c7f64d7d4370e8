// SPDX-License-Identifier: Apache-2.0
// Fuzzes the adapter with a hostile peer. On a same-host link the peer may write anything into the
// rings that it shares with us, at any time and in any order. On another host it may send any
// packet, whose parsed form is a slot too.
//
// The adapter has queue pairs of each type in several states, with work posted. World reads the
// peer's ring for the adapter, as engine/link.cc does. The input chooses the peer's writes and the
// program's calls. Three things must hold: the adapter accesses only registered memory, and only as
// the peer's rights allow; only posted requests complete; every pass ends.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "fuzz/input.h"
#include "nic/adapter/channel_adapter.h"

namespace verbena::fuzz {
namespace {

using namespace transport;
using queues::ReceiveWqe;
using queues::Segment;
using queues::SendOpcode;
using queues::SendWqe;

constexpr std::uint32_t pair_count = 7;
constexpr std::uint32_t entries = 8;
constexpr std::uint32_t segments_max = 2;
constexpr std::uint32_t inline_max = 48;
constexpr std::uint64_t peer_token = 5;
constexpr std::uint32_t region_bytes = 16 * 1024;
constexpr std::byte poison{0xa5};

// A registered memory region of the program. The memory of each region is a separate allocation, so
// that the sanitizer notices accesses beside it.
struct Region {
	Region(memory::KeyTable& keys, std::uint64_t iova, std::uint8_t access)
		: bytes(region_bytes, poison),
		  iova(iova),
		  key(keys.register_region({.protection_domain = 1,
			  .iova = iova,
			  .address = reinterpret_cast<std::uintptr_t>(bytes.data()),
			  .length = region_bytes,
			  .access = access})) {}

	std::vector<std::byte> bytes;
	std::uint64_t iova;
	std::uint32_t key;
};

// The memory of the link with the peer. It is static, because mapping fresh pages for each input
// would take most of the time.
wire::Direction rings[2];

wire::Direction* cleared(wire::Direction& ring) {
	std::memset(static_cast<void*>(&ring), 0, sizeof ring);
	return &ring;
}

// One run: the adapter, the program that uses it, and its peer.
class World {
public:
	explicit World(Input& input) : input_(input), incoming_(cleared(rings[0])), outgoing_(cleared(rings[1])) {
		adapter_.queue_pairs().add_block(1, 99);
		outlet_.slots.attach(outgoing_);
		outlet_.acks.attach(outgoing_);
		outlet_.peer = peer_token;
		outlet_.lossless = !input.flag();
		slots_.attach(incoming_);
		acks_.attach(incoming_);
		shared_.shared = true;
		for (std::uint32_t i = 0; i < pair_count; ++i) {
			create(i);
			advance(i, i == 3 ? QpState::init : i == 4 ? QpState::rtr : QpState::rts);
		}
	}
	~World() {
		for (QueuePair* qp : pairs_) adapter_.destroy_qp(*qp);
	}

	// Makes one write of the peer or one call of the program.
	void step() {
		switch (input_.below(16)) {
			case 0: return publish(input_.take<RawSlot>().slot());
			case 1:
			case 2:
			case 3: return publish(likely_slot());
			case 4: return acknowledge(input_.take<std::uint64_t>());
			case 5: return acknowledge_likely();
			case 6: return hostile_words();
			case 7: return post_send(pick());
			case 8: return post_receive(pick());
			case 9: return change_state();
			case 10: return recreate();
			case 11: return pass();
			case 12: now_ += Nanoseconds{1} << input_.below(34); return;
			case 13: return poll();
			case 14: return write_arena();
			default: return lose_peer();
		}
	}

	// Runs the last two passes, 60 s of virtual time apart, and checks the result of the run.
	void finish() {
		pass();
		now_ += 60'000'000'000;
		pass();
		poll();
		check(sent_ <= sends_posted_, "no more sends complete than were posted");
		check(received_ <= receives_posted_, "no more receives complete than were posted");
		check(std::ranges::all_of(sealed_.bytes, [](std::byte b) { return b == poison; }),
			"memory that the peer may only read stays as it was");
	}

private:
	// The bytes of a slot, for Input::take().
	struct RawSlot {
		std::uint32_t words[6];
		std::byte tail[40];
		wire::Slot slot() const {
			wire::Slot slot;
			std::memcpy(static_cast<void*>(&slot), this, sizeof slot);
			return slot;
		}
	};
	static_assert(sizeof(RawSlot) == sizeof(wire::Slot));

	std::uint32_t pick() { return input_.below(pair_count); }

	// Queue pairs 0 to 4 are RC; at first 3 is in INIT and 4 in RTR, and 2 has a shared receive
	// queue. Queue pair 5 is UC, and 6 is UD.
	static QpType type_of(std::uint32_t index) {
		return index == 5 ? QpType::uc : index == 6 ? QpType::ud : QpType::rc;
	}

	void create(std::uint32_t index) {
		pairs_[index] = adapter_.create_qp({.type = type_of(index),
			.protection_domain = 1,
			.send_cq = &send_cq_,
			.recv_cq = &receive_cq_,
			.shared_receive_queue = index == 2 ? &shared_ : nullptr,
			.send_entries = entries,
			.receive_entries = entries,
			.send_segments = segments_max,
			.receive_segments = segments_max,
			.inline_bytes = inline_max,
			.signal_all = index % 2 == 0});
	}

	void modify(std::uint32_t index, QpState to, std::uint32_t mask) {
		QueuePairAttributes attributes;
		attributes.access =
			index == 1 ? memory::remote_read : memory::remote_write | memory::remote_read | memory::remote_atomic;
		attributes.path_mtu = static_cast<std::uint8_t>(1 + index % 5);
		attributes.timeout = 8;
		attributes.retry_count = attributes.rnr_retry = 3;
		attributes.min_rnr_timer = 1;
		attributes.max_rd_atomic = attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(index % 3);
		attributes.q_key = 7;
		const adapter::QpChange change{.mask = qp_state | mask,
			.state = to,
			.attributes = attributes,
			.receive_psn = 0xfffff0,
			.send_psn = 0xfffff8,
			.destination_qpn = 0x777,
			.outlet = &outlet_};
		adapter_.begin_pass(now_);
		const bool done = adapter_.modify_qp(*pairs_[index], change);
		adapter_.finish_pass();
		// Sets the MTU of a UD queue pair, which has no attribute for it, as nic/verbs does.
		if (!done || to != QpState::init || type_of(index) != QpType::ud) return;
		pairs_[index]->mtu_code = 3;
		pairs_[index]->mtu_shift = 10;
	}

	// Modifies the queue pair from RESET to the state `to`, through the states in between.
	void advance(std::uint32_t index, QpState to) {
		const QpType type = type_of(index);
		const bool connected = type != QpType::ud, reliable = type == QpType::rc;
		modify(index, QpState::init, qp_pkey_index | qp_port | (connected ? qp_access_flags : qp_qkey));
		if (to == QpState::init) return;
		modify(index, QpState::rtr,
			(connected ? qp_av | qp_path_mtu | qp_destination_qpn | qp_rq_psn : 0) |
				(reliable ? qp_max_dest_rd_atomic | qp_min_rnr_timer : 0));
		if (to == QpState::rtr) return;
		modify(index, QpState::rts,
			qp_sq_psn | (reliable ? qp_timeout | qp_retry_count | qp_rnr_retry | qp_max_rd_atomic : 0));
	}

	void change_state() {
		const std::uint32_t index = pick();
		switch (input_.below(5)) {
			case 0: return modify(index, QpState::reset, 0);
			case 1: return advance(index, QpState::rts);
			case 2: return modify(index, QpState::error, 0);
			case 3: return modify(index, QpState::sqd, input_.flag() ? std::uint32_t{qp_sqd_notify} : 0);
			default: return modify(index, QpState::rts, 0);
		}
	}

	void recreate() {
		const std::uint32_t index = pick();
		adapter_.destroy_qp(*pairs_[index]);
		create(index);
		advance(index, QpState::rts);
	}

	// ---- the peer

	// Writes the slot to the ring with the right lap, unless the ring is full.
	void publish(const wire::Slot& slot) {
		if (produced_ - slots_.consumed() >= wire::Direction::slot_count) return;
		wire::Slot& place = incoming_->slots[produced_ % wire::Direction::slot_count];
		place = slot;
		place.lap_source = (slot.lap_source & 0xffffff) | wire::lap_of(produced_++, wire::Direction::slot_count) << 24;
	}

	const Region& some_region() { return input_.flag() ? open_ : sealed_; }
	std::uint32_t some_key() {
		switch (input_.below(4)) {
			case 0: return input_.take<std::uint32_t>();
			case 1: return sealed_.key;
			default: return open_.key;
		}
	}
	std::uint64_t some_address() {
		return some_region().iova + static_cast<std::uint64_t>(std::int64_t{input_.take<std::int16_t>()});
	}
	std::uint32_t some_length(std::uint32_t mtu) {
		switch (input_.below(8)) {
			case 0: return 0;
			case 1: return mtu;
			case 2: return 2 * mtu;
			case 3: return wire::Direction::run_bytes_max;
			case 4: return input_.take<std::uint16_t>();
			case 5: return input_.take<std::uint32_t>();
			default: return input_.byte();
		}
	}

	// A slot that is likely to pass the adapter's first checks.
	wire::Slot likely_slot() {
		QueuePair& qp = *pairs_[pick()];
		wire::Slot slot;
		const wire::Opcode opcode{input_.byte()};
		const wire::OpcodeFacts& facts = wire::facts(opcode);
		const auto delta = static_cast<std::uint32_t>(std::int32_t{input_.take<std::int8_t>()} / 8);
		const std::uint32_t psn =
			(static_cast<std::uint32_t>(facts.response ? qp.una : qp.expected_psn) + delta) & 0xffffff;
		slot.lap_source = 0x777;
		slot.set_bth(opcode, {qp.qpn}, {psn}, input_.byte());
		slot.length = some_length(qp.path_mtu());
		slot.payload_line = slot.length + wire::extension_bytes(facts) <= wire::Slot::inline_bytes_max && input_.flag()
			? wire::Slot::inline_payload
			: input_.take<std::uint16_t>() % wire::Direction::arena_lines;
		if (facts.aeth) slot.set_aeth(some_syndrome(), input_.byte());
		else slot.word = some_key();
		if (facts.reth)
			slot.reth = {some_address(), {some_key()}, input_.flag() ? slot.length : some_length(qp.path_mtu())};
		else if (facts.atomic_eth)
			slot.atomic = {some_address() & ~std::uint64_t{7}, {some_key()}, 0, input_.byte(), input_.byte()};
		else if (facts.deth)
			slot.deth = {input_.flag() ? 7 : input_.take<std::uint32_t>(), input_.take<std::uint32_t>()};
		return slot;
	}

	std::uint8_t some_syndrome() {
		using namespace wire::syndrome;
		static constexpr std::uint8_t list[] = {ack, 0, rnr_nak | 1, nak_sequence_error, nak_invalid_request,
			nak_remote_access, nak_remote_operation, 0x64};
		return input_.flag() ? input_.one_of(list) : input_.byte();
	}

	// Writes an acknowledgement record with these bits and the right lap.
	void acknowledge(std::uint64_t bits) {
		const std::uint64_t lap = wire::lap_of(acknowledged_, wire::Direction::ack_count);
		incoming_->acks[acknowledged_++ % wire::Direction::ack_count].store((bits & 0xffffffffffffff) | lap << 56);
	}
	void acknowledge_likely() {
		const QueuePair& qp = *pairs_[pick()];
		const std::uint64_t code = some_syndrome();
		const auto delta = static_cast<std::uint32_t>(std::int32_t{input_.take<std::int8_t>()} / 8);
		acknowledge(code << 48 | std::uint64_t{(static_cast<std::uint32_t>(qp.una) + delta) & 0xffffff} << 24 | qp.qpn);
	}

	// Overwrites a word that the two ends of a ring share, any slot, or any entry of the addresses.
	// Case 1 is what an honest peer writes after it has read all slots.
	void hostile_words() {
		switch (input_.below(6)) {
			case 0: outgoing_->slots_consumed.store(input_.take<std::uint64_t>()); return;
			case 1: outgoing_->slots_consumed.store(outlet_.slots.published()); return;
			case 2: outgoing_->acks_consumed.store(input_.take<std::uint64_t>()); return;
			case 3: incoming_->producer_waits.store(input_.take<std::uint32_t>()); return;
			case 4: incoming_->slots[input_.byte()] = input_.take<RawSlot>().slot(); return;
			default: incoming_->addresses[input_.byte()] = input_.take<wire::AddressPair>(); return;
		}
	}

	void write_arena() {
		const std::uint32_t at = input_.take<std::uint32_t>() % wire::Direction::arena_bytes;
		const auto bytes = input_.bytes(std::min<std::size_t>(input_.byte(), wire::Direction::arena_bytes - at));
		std::ranges::copy(bytes, incoming_->arena + at);
	}

	void lose_peer() {
		if (input_.below(8) != 0) return;
		adapter_.begin_pass(now_);
		adapter_.fail_outlet(outlet_);
		adapter_.finish_pass();
	}

	// ---- the program

	// May reach beyond the end of its region.
	Segment some_segment() {
		const std::uint32_t length = input_.take<std::uint16_t>() % (region_bytes + 512);
		const bool receives = input_.flag();
		const Region& region = receives ? open_ : sealed_;
		return {region.iova + input_.below(64), length, region.key};
	}

	void post_send(std::uint32_t index) {
		QueuePair& qp = *pairs_[index];
		if (qp.state != QpState::rts && qp.state != QpState::sqd && qp.state != QpState::sqe &&
			qp.state != QpState::error)
			return;
		const std::uint32_t head = qp.sq_head.load();
		if (head - qp.sq_tail.load() > qp.sq_mask) return;
		SendWqe& wqe = qp.wqe(head);
		wqe = SendWqe{};
		wqe.wr_id = ++sends_posted_;
		wqe.opcode = SendOpcode{static_cast<std::uint8_t>(input_.below(10))};
		if (qp.type == QpType::ud && wqe.opcode != SendOpcode::send_imm) wqe.opcode = SendOpcode::send;
		if (qp.type == QpType::uc && wqe.opcode > SendOpcode::send_imm) wqe.opcode = SendOpcode::rdma_write;
		wqe.flags = static_cast<std::uint8_t>(input_.below(8));
		wqe.immediate = some_key();
		const bool atomic = wqe.opcode == SendOpcode::compare_swap || wqe.opcode == SendOpcode::fetch_add;
		if (!wqe.reads() && !wqe.local() && input_.flag()) {
			wqe.flags |= queues::send_inline;
			wqe.length = input_.below(inline_max + 1);
		} else if (!wqe.local()) {
			wqe.segment_count = static_cast<std::uint8_t>(atomic ? 1 : input_.below(segments_max + 1));
			for (std::uint32_t i = 0; i < wqe.segment_count; ++i) {
				Segment& segment = wqe.segments()[i] = some_segment();
				// A response goes to open_, because sealed_ does not permit local writes.
				if (wqe.reads()) segment = {open_.iova + input_.below(64), atomic ? 8 : segment.length, open_.key};
				wqe.length += segment.length;
			}
		}
		if (qp.type == QpType::ud)
			wqe.datagram = {.outlet = &outlet_, .qpn = input_.byte(), .q_key = 7, .address_index = input_.byte()};
		else if (atomic) wqe.atomic = {some_address(), some_key(), 0, 1, 2};
		else if (wqe.opcode == SendOpcode::bind_window)
			wqe.bind = {some_address(), input_.take<std::uint16_t>(), window_key_,
				(window_key_ & ~0xffu) | input_.byte(), open_.key, memory::remote_write | memory::remote_read, false};
		else wqe.rdma = {some_address(), some_key()};
		qp.sq_head.store(head + 1);
		adapter_.begin_pass(now_);
		adapter_.transmit(qp);
		adapter_.finish_pass();
	}

	void post_receive(std::uint32_t index) {
		QueuePair& qp = *pairs_[index];
		if (qp.state == QpState::reset || qp.state == QpState::error) return;
		ReceiveWqe* wqe = qp.receive_queue->prepare(0);
		if (!wqe) return;
		wqe->wr_id = ++receives_posted_;
		wqe->length = 0;
		wqe->segment_count = input_.below(segments_max + 1);
		for (std::uint32_t i = 0; i < wqe->segment_count; ++i) {
			wqe->segments()[i] = some_segment();
			wqe->segments()[i].lkey = input_.below(16) ? open_.key : some_key();
			wqe->segments()[i].address = open_.iova + input_.below(64);
			wqe->length += wqe->segments()[i].length;
		}
		qp.receive_queue->commit(1);
	}

	// A pass as the engine makes it (Link::receive in engine/link.cc), but without a budget, and
	// without shared payloads, management datagrams and forwarded packets.
	void pass() {
		adapter_.begin_pass(now_);
		wire::AckRecord record;
		for (std::uint32_t i = 0; i < wire::Direction::ack_count && acks_.read(record); ++i)
			adapter_.handle_ack(outlet_, record);
		wire::Slot image;
		for (std::uint32_t i = 0; i < wire::Direction::slot_count && slots_.read(image); ++i) {
			const wire::OpcodeFacts& facts = wire::facts(image.opcode());
			const std::byte* payload = slots_.payload(image, wire::extension_bytes(facts));
			if (!payload) {
				// The engine would retire the link. Here the slot is skipped, so that the run
				// continues.
				slots_.advance();
				continue;
			}
			if (image.opcode() != wire::forwarded_packet)
				adapter_.handle_slot(
					outlet_, image, payload, incoming_->addresses[facts.deth ? image.deth.address_index() : 0]);
			slots_.advance();
		}
		slots_.release();
		// hostile_words() may have published slots that publish() does not know.
		produced_ = std::max(produced_, slots_.consumed());
		if (adapter_.poll_timeout() <= now_) adapter_.handle_timeouts();
		adapter_.resume(outlet_);
		adapter_.finish_pass();
		for (Outlet* outlet = adapter_.context().take_touched(); outlet; outlet = outlet->next_touched)
			outlet->touched = false;
		adapter_.context().raised_events.clear();
		while (adapter_.context().raised_queues.take()) {}
		poll();
	}

	void poll() {
		sent_ += static_cast<std::uint64_t>(send_cq_.drain(1 << 20, [&](const queues::Completion& done, int) {
			check(done.wr_id >= 1 && done.wr_id <= sends_posted_, "a send that completes was posted");
		}));
		received_ += static_cast<std::uint64_t>(receive_cq_.drain(1 << 20, [&](const queues::Completion& done, int) {
			check(done.wr_id >= 1 && done.wr_id <= receives_posted_, "a receive that completes was posted");
		}));
	}

	Input& input_;
	wire::Direction *const incoming_, *const outgoing_;  // seen from the adapter
	adapter::ChannelAdapter adapter_{1};
	Nanoseconds now_ = 1'000'000;
	Outlet outlet_;
	wire::SlotReader slots_;
	wire::AckReader acks_;
	std::uint64_t produced_ = 0, acknowledged_ = 0;  // slots and records that the peer has written
	queues::CompletionQueue send_cq_{256}, receive_cq_{256};
	queues::ReceiveQueue shared_{entries, segments_max};
	// The peer has all rights to open_, and may only read sealed_.
	Region open_{adapter_.context().keys, 0x10000,
		memory::local_write | memory::remote_write | memory::remote_read | memory::remote_atomic | memory::window_bind};
	Region sealed_{adapter_.context().keys, 0x80000, memory::remote_read};
	std::uint32_t window_key_ = adapter_.context().keys.allocate_window(1);
	QueuePair* pairs_[pair_count] = {};
	// Counts of posted requests, whose wr_ids are 1, 2, ..., and of completions.
	std::uint64_t sends_posted_ = 0, receives_posted_ = 0, sent_ = 0, received_ = 0;
};

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	verbena::fuzz::Input input(data, size);
	verbena::fuzz::World world(input);
	while (!input.ended()) world.step();
	world.finish();
	return 0;
}
