// One end of one cell: its queue pair, completion queue and buffers. Each repetition makes a new
// one, before the measured time, so that no state of one measurement reaches the next.
//
// Threads: one thread.
// Lifetime: `device` and, if given, the rdma_cm connection must outlive it.
// Invariants: message buffers begin on a cache line; a UD receive has 40 more bytes before it, for
//   the GRH.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/rcud/cell.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::rcud {

enum class Role : std::uint8_t { sender, receiver };

// Everything that the other side needs to reach this end.
struct Address {
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint32_t qkey = 0;
	std::uint32_t lid = 0;
	std::uint32_t mtu = 0;
	std::uint32_t reads = 1;  // RDMA READs in flight that this end can answer
	std::string gid;
	std::uint64_t data = 0;  // WRITE and READ: the ring of message slots
	std::uint32_t data_rkey = 0;
	std::uint64_t credit_word = 0;  // the address that RC credits are written to
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, qpn, psn, qkey, lid, mtu, reads, gid, data, data_rkey, credit_word)

// Anonymous memory, zeroed and so touched; of huge pages if the kernel grants them.
class Buffer {
public:
	explicit Buffer(std::size_t bytes);
	~Buffer();
	Buffer(const Buffer&) = delete;
	Buffer& operator=(const Buffer&) = delete;
	std::byte* data() const { return data_; }
	std::size_t size() const { return size_; }

private:
	std::byte* data_;
	std::size_t size_;
};

struct Endpoint {
	// With `connection` the queue pair is made on that rdma_cm connection, which connects it
	// (managed.h); `device` must then be the connection's. Throws a Failure.
	Endpoint(const lib::OpenDevice& device, const Cell& cell, const Shape& shape, Role role,
		std::uint32_t inline_wanted, std::uint32_t qkey = default_qkey, rdma_cm_id* connection = nullptr);

	static constexpr std::uint32_t default_qkey = 0x1111'1111;

	Address address() const;
	// Moves an RC queue pair to RTS; makes the address handle of a UD one, which is in RTS already.
	// Not for an endpoint that rdma_cm connects.
	void connect(const Address& remote);

	bool is_ud() const { return cell.mode != Mode::rc; }

	const lib::OpenDevice& device;
	const Cell cell;
	const Shape shape;
	const Role role;
	const std::uint32_t qkey;
	const std::uint32_t psn = lib::random_psn();

	// The payload of receive i begins at receive_at(i), its buffer at receive_at(i) - grh_bytes().
	std::uint32_t receive_count;
	std::uint32_t receive_payload;  // bytes
	std::uint32_t receive_stride;
	std::uint32_t send_depth;
	std::byte* receive_at(std::uint32_t i) const {
		return receives_ + std::size_t{i} * receive_stride + (is_ud() ? 64 : 0);
	}
	std::uint32_t grh_bytes() const { return is_ud() ? 40 : 0; }

	// Message slots: the sender sends from them (READ: reads into them); of a receiver they are the
	// ring that is the target of WRITE and READ.
	std::uint32_t slot_count;
	std::byte* slot_at(std::uint32_t i) const { return slots_ + std::size_t{i} * shape.stride; }
	// UD-seg: a header of 16 bytes for each fragment of each slot.
	std::byte* headers = nullptr;
	// The words that credits are written to (sender) or sent from (receiver).
	std::uint64_t* words = nullptr;
	static constexpr std::uint32_t word_count = 64;

private:
	std::size_t receive_bytes_, slot_bytes_, header_bytes_;
	Buffer memory_;
	std::byte* receives_ = nullptr;
	std::byte* slots_ = nullptr;

public:
	lib::CompletionQueue cq;
	lib::MemoryRegion memory;
	lib::AddressHandle ah;
	lib::QueuePair qp;
	std::uint32_t inline_max = 0;
	Address remote;
};

}  // namespace verbena::rcud
