// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/buffers.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace verbena::rcud {
namespace {

constexpr std::size_t huge_page = 2u << 20;

std::uint32_t lines(std::uint64_t bytes) { return static_cast<std::uint32_t>((bytes + 63) & ~std::uint64_t{63}); }

}  // namespace

Buffer::Buffer(std::size_t bytes) : size_((bytes + huge_page - 1) / huge_page * huge_page) {
	void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) throw Failure(std::string("mmap: ") + std::strerror(errno));
	madvise(at, size_, MADV_HUGEPAGE);
	data_ = static_cast<std::byte*>(at);
	std::memset(data_, 0, bytes);
}

Buffer::~Buffer() { munmap(data_, size_); }

Buffers::Buffers(const Cell& cell_, const Shape& shape_, Side role_)
	: cell(cell_),
	  shape(shape_),
	  role(role_),
	  // A sender receives only UD credits and reports.
	  receive_count(role_ == Side::receiver ? shape_.receive_depth : 64 + cell_.window / shape_.credit_every),
	  receive_payload(role_ == Side::receiver && cell_.op == Op::send
			  ? shape_.fragments == 1 ? cell_.msg : shape_.fragment_bytes + fragment_header_bytes
			  : 64),
	  receive_stride(lines(receive_payload) + (is_ud() ? 64 : 0)),
	  // More than the window: a run that ended early may leave unsignaled requests in the send
      // queue.
	  send_depth(role_ == Side::sender ? (cell_.window + shape_.signal_every) * shape_.fragments : word_count),
	  slot_count(role_ == Side::sender ? cell_.window : shape_.ring_slots),
	  receive_bytes_(std::size_t{receive_count} * receive_stride),
	  slot_bytes_(std::size_t{slot_count} * shape_.stride),
	  header_bytes_(shape_.fragments > 1 && role_ == Side::sender
			  ? lines(std::size_t{slot_count} * shape_.fragments * fragment_header_bytes)
			  : 0),
	  memory_(receive_bytes_ + slot_bytes_ + header_bytes_ + word_count * sizeof(std::uint64_t)),
	  receives_(memory_.data()),
	  slots_(receives_ + receive_bytes_) {
	headers = slots_ + slot_bytes_;
	words = reinterpret_cast<std::uint64_t*>(headers + header_bytes_);
}

}  // namespace verbena::rcud
