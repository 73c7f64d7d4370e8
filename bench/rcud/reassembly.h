// SPDX-License-Identifier: Apache-2.0
// Puts messages together from datagrams (mode UD-seg). A message counts when all of its fragments
// have arrived.
//
// Threads: one thread.
// Owns: buffers for twice the window of incomplete messages. A newer message evicts an older one
//   that never became complete.
// Errors: a fragment that contradicts its message or the shape of the run is refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "bench/rcud/stamps.h"

namespace verbena::rcud {

// In front of each fragment's payload, in host byte order.
struct FragmentHeader {
	std::uint64_t stamp;   // the message's
	std::uint16_t index;   // this fragment's, from 0
	std::uint16_t count;   // fragments of the message
	std::uint32_t offset;  // where the payload begins in the message, in bytes
};
static_assert(sizeof(FragmentHeader) == 16);

class Reassembly {
public:
	// All fragments but the last have `fragment_bytes` of payload.
	struct Shape {
		std::uint32_t message_bytes;
		std::uint32_t fragments;  // 1 to 64
		std::uint32_t fragment_bytes;
	};

	Reassembly(std::uint32_t window, const Shape& shape)
		: message_bytes_(shape.message_bytes),
		  fragments_(shape.fragments),
		  fragment_bytes_(shape.fragment_bytes),
		  slots_(std::size_t{window} * 2) {
		for (Slot& slot : slots_) slot.message.resize(message_bytes_);
	}

	enum class Result : std::uint8_t { more, whole, refused };

	// Takes one datagram. If the result is whole, `message` is the complete message; it is valid
	// until the next call.
	Result accept(std::span<const std::byte> datagram, std::span<const std::byte>& message) {
		if (datagram.size() < sizeof(FragmentHeader)) return Result::refused;
		FragmentHeader header;
		std::memcpy(&header, datagram.data(), sizeof header);
		const auto payload = datagram.subspan(sizeof header);
		// The place follows from the index, so fragments neither overlap nor leave a gap, in which
		// bytes of an earlier message would remain.
		if (header.count != fragments_ || header.index >= fragments_ ||
			header.offset != header.index * fragment_bytes_ || header.offset >= message_bytes_ ||
			payload.size() != std::min(fragment_bytes_, message_bytes_ - header.offset))
			return Result::refused;

		Slot& slot = slots_[sequence_of(header.stamp) % slots_.size()];
		if (slot.stamp != header.stamp) slot.stamp = header.stamp, slot.have = 0;
		std::memcpy(slot.message.data() + header.offset, payload.data(), payload.size());
		const std::uint64_t all = fragments_ == 64 ? UINT64_MAX : (std::uint64_t{1} << fragments_) - 1;
		// The message was complete before, so this is a duplicate. Collect it again: the account
		// counts it as one when it is complete again.
		if (slot.have == all) slot.have = 0;
		slot.have |= std::uint64_t{1} << header.index;
		if (slot.have != all) return Result::more;
		message = slot.message;
		return Result::whole;
	}

private:
	struct Slot {
		std::uint64_t stamp = UINT64_MAX;
		std::uint64_t have = 0;  // one bit for each fragment that has arrived
		std::vector<std::byte> message;
	};
	std::uint32_t message_bytes_;
	std::uint32_t fragments_;
	std::uint32_t fragment_bytes_;
	std::vector<Slot> slots_;
};

}  // namespace verbena::rcud
