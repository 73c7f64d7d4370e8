// One end of one cell: its queue pair, completion queue and buffers. Made fresh for every repetition, so that nothing
// of one measurement reaches the next; never part of the measured time.
//
// Message buffers begin on a cache line. A UD receive buffer has the 40 bytes of the GRH before that line. Owned by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/rcud/cell.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::rcud {

enum class Role : std::uint8_t { sender, receiver };

// What the other side must know to reach this end.
struct Address {
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint32_t qkey = 0;
	std::uint32_t lid = 0;
	std::uint32_t mtu = 0;
	std::uint32_t reads = 1;  // READs in flight that this end answers
	std::string gid;
	std::uint64_t data = 0;  // WRITE and READ: the ring of message slots
	std::uint32_t data_rkey = 0;
	std::uint64_t credit_word = 0;  // where RC credits are written
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, qpn, psn, qkey, lid, mtu, reads, gid, data, data_rkey, credit_word)

// Anonymous pages, zeroed and touched, huge ones where the kernel gives them.
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
	// With `connection` the queue pair is made on that rdma_cm connection, which connects it (managed.h); `device` is
	// the connection's.
	Endpoint(const lib::OpenDevice& device, const Cell& cell, const Shape& shape, Role role,
		std::uint32_t inline_wanted, std::uint32_t qkey = default_qkey, rdma_cm_id* connection = nullptr);

	static constexpr std::uint32_t default_qkey = 0x1111'1111;

	Address address() const;
	// RC: to RTS. UD: an address handle (the queue pair is in RTS already).
	void connect(const Address& remote);

	bool is_ud() const { return cell.mode != Mode::rc; }

	const lib::OpenDevice& device;
	const Cell cell;
	const Shape shape;
	const Role role;
	const std::uint32_t qkey;
	const std::uint32_t psn = lib::random_psn();

	// Receive buffer i: what the sender sent begins at receive_at(i), the receive itself at receive_at(i) -
	// grh_bytes().
	std::uint32_t receive_count;
	std::uint32_t receive_payload;  // bytes
	std::uint32_t receive_stride;
	std::uint32_t send_depth;
	std::byte* receive_at(std::uint32_t i) const {
		return receives_ + std::size_t{i} * receive_stride + (is_ud() ? 64 : 0);
	}
	std::uint32_t grh_bytes() const { return is_ud() ? 40 : 0; }

	// Message slots: what the sender sends from (READ: reads into), or the receiver's ring for WRITE and READ.
	std::uint32_t slot_count;
	std::byte* slot_at(std::uint32_t i) const { return slots_ + std::size_t{i} * shape.stride; }
	// UD-seg: one header of 16 bytes a fragment and slot.
	std::byte* headers = nullptr;
	// Sender: where credits land. Receiver: the words that credits are sent from.
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
