// SPDX-License-Identifier: Apache-2.0
// The events of a trace, as records of fixed size, and the file that holds them.
//
// A process that is traced writes its records into a ring in a file that it has mapped
// (nic/trace/ring.h). The file stays when the process ends in any way. nic/trace/read turns the
// files of one or more processes into text, JSON lines and packets.
//
// An event is one record, and after it `more` records that hold bytes instead of fields: a text, or
// a packet. A field that an event does not need is 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbena::trace {

enum class Kind : std::uint8_t {
	none,
	// A control verb returned. Bytes: the verb, its arguments and its result, each ended by a NUL.
	// `number` is the errno, `address` the time that the call took, in nanoseconds.
	verb,
	// The reason for which the NIC refused a call of this thread, which ends soon. Bytes: the text.
	refusal,
	posted_send,  // `code` is an ibv_wr_opcode, `number` the place in the send queue
	posted_receive,  // to the queue pair, or to the shared receive queue `peer`, if qpn is 0
	sent,  // a packet, or a run of packets of one message; Bytes: see Packet below
	arrived,
	acknowledged,  // sent: an acknowledgement without a packet (8 bytes in shared memory)
	acknowledgement,  // the same, arrived
	finished,  // a send request has left the send queue; `psn` is its first packet's
	received,  // a receive request has completed
	polled,  // the program has got a completion; `code` is an ibv_wc_opcode
	waits,  // the requester waits; `code` is a Wait, `address` the pause in nanoseconds or 0
	why,  // an explanation. Bytes: the text
	asynchronous,  // an asynchronous event; `code` is an ibv_event_type
	// A packet has met a fault of `verbena run --faults`. `code` is a Fault, `status` the BTH
	// opcode, `key` and `number` are the queue pair and the packet, counted from the first of each,
	// and `id` says how often the packet was sent before.
	fault,
	// The adversary of `verbena run --adversary` holds something back. `code` is an Unkindness,
	// `length` the bytes or 0. It comes after `number` observations of the program or `address`
	// nanoseconds; both are 0 if it is lost, or if there is nothing that could come.
	unkind,
	count
};

enum class Wait : std::uint8_t {
	room,  // for room on the link
	not_ready,  // after an RNR NAK
	not_receiving,  // the peer has no queue pair that can receive
	again,  // it sends again from `psn` on, because a packet was lost or its answer was
	count
};

enum class Fault : std::uint8_t {
	lost,
	parted,  // lost in a partition
	duplicated,
	reordered,
	corrupted,
	line_full,  // lost, because too many packets waited for the line
	not_ready,  // a request that arrived was answered by an RNR NAK
	qp_error,  // its queue pair went to the error state
	count
};

enum class Unkindness : std::uint8_t {
	placement,  // bytes that have arrived
	gather,  // requests
	reads,  // the data of a READ, or its response
	atomics,  // the result of an atomic
	completions,
	events,
	datagrams,
	connections,  // messages that set up a connection or end it, and verbs
	receives,  // receive requests that another one goes before
	count
};

// Bits of Record::flags.
enum Flags : std::uint8_t {
	flag_local = 1,  // packets: between two processes of this host, by shared memory
	flag_direct = 2,  // finished: this process executed the request in the peer's memory
	flag_signaled = 4,
	flag_unasked = 8,  // finished: no completion was asked for
};

struct alignas(64) Record {
	std::uint64_t time = 0;  // CLOCK_MONOTONIC, in nanoseconds
	// The low half of the record's position in the trace, plus 1. Written last, so that a record
	// which the process did not finish is not taken for an event.
	std::uint32_t sequence = 0;
	std::uint32_t thread = 0;
	Kind kind = Kind::none;
	std::uint8_t code = 0;  // packets: the BTH opcode
	std::uint8_t status = 0;  // an ibv_wc_status; packets: the AETH syndrome
	std::uint8_t flags = 0;
	std::uint32_t qpn = 0;  // the queue pair of this process
	std::uint32_t peer = 0;  // the queue pair at the other end
	std::uint32_t psn = 0;  // 24 bits
	std::uint64_t id = 0;  // wr_id
	std::uint32_t length = 0;  // bytes of the message, or of the payload of a packet
	std::uint16_t count = 0;  // packets of a run, or segments of a request
	std::uint16_t more = 0;  // the records with bytes that follow
	std::uint64_t address = 0;  // remote address
	std::uint32_t key = 0;  // remote key
	std::uint32_t number = 0;  // verb: errno; posted_*, finished: the place in its queue
};
static_assert(sizeof(Record) == 64);

// The bytes of `sent` and `arrived` if packets are captured: this, then `captured` bytes of the
// payload.
struct Packet {
	std::uint8_t source[16];  // GIDs
	std::uint8_t destination[16];
	std::uint8_t slot[64];  // wire::Slot
	std::uint32_t captured;
	std::uint32_t reserved;
};

// The first page of the file.
struct FileHead {
	static constexpr std::uint64_t magic_value = 0x3145434152544256;  // "VBTRACE1"
	static constexpr std::size_t bytes = 4096;

	std::uint64_t magic;
	std::uint32_t pid;
	std::uint32_t packet_bytes;  // the most that is captured of a packet's payload
	std::uint64_t capacity;  // records in the ring
	// CLOCK_REALTIME minus CLOCK_MONOTONIC when the trace began, in nanoseconds.
	std::uint64_t epoch;
	std::uint64_t began;  // CLOCK_MONOTONIC
	char program[64];  // ended by a NUL
	// The records and the events written so far; the ring holds the last `capacity` records.
	alignas(64) std::atomic<std::uint64_t> records;
	alignas(64) std::atomic<std::uint64_t> events;
};
static_assert(sizeof(FileHead) <= FileHead::bytes);

}  // namespace verbena::trace
