// SPDX-License-Identifier: Apache-2.0
// The memory of one end of a cell: receive buffers, message slots, and the words for credits. It
// knows nothing of verbs, so that the measured loops can be tested without a device.
//
// Threads: one thread.
// Owns: the memory.
// Invariants: message buffers begin on a cache line; a UD receive has 40 more bytes before it, for
//   the GRH.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/rcud/cell.h"

namespace verbena::rcud {

enum class Side : std::uint8_t { sender, receiver };

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

struct Buffers {
	// Throws a Failure if there is no memory.
	Buffers(const Cell& cell, const Shape& shape, Side role);

	bool is_ud() const { return cell.mode != Mode::rc; }

	const Cell cell;
	const Shape shape;
	const Side role;

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

	std::uint32_t inline_max = 0;  // bytes that the queue pair sends inline
	Address remote;  // the other end

private:
	std::size_t receive_bytes_, slot_bytes_, header_bytes_;

protected:
	Buffer memory_;

private:
	std::byte* receives_ = nullptr;
	std::byte* slots_ = nullptr;
};

}  // namespace verbena::rcud
