// Messages out of datagrams (mode UD-seg). A message counts only when all of its fragments have come.
//
// Fragments carry a header of 16 bytes: the message's stamp, the fragment's index, how many there are, and where its
// payload goes. Memory is fixed: twice the window of messages can be in pieces at a time; a newer one takes the place
// of an older that never became whole. A fragment that contradicts its message or the run's shape is refused.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "bench/rcud/stamps.h"

namespace verbena::rcud {

struct FragmentHeader {
	std::uint64_t stamp;
	std::uint16_t index;
	std::uint16_t count;
	std::uint32_t offset;
};
static_assert(sizeof(FragmentHeader) == 16);

class Reassembly {
public:
	Reassembly(std::uint32_t window, std::uint32_t message_bytes, std::uint32_t fragments)
		: message_bytes_(message_bytes), fragments_(fragments), slots_(std::size_t{window} * 2) {
		for (Slot& slot : slots_) slot.message.resize(message_bytes);
	}

	enum class Result : std::uint8_t { more, whole, refused };

	// `message` is set when the result is whole, and valid until the next call.
	Result accept(std::span<const std::byte> datagram, std::span<const std::byte>& message) {
		if (datagram.size() < sizeof(FragmentHeader)) return Result::refused;
		FragmentHeader header;
		std::memcpy(&header, datagram.data(), sizeof header);
		const auto payload = datagram.subspan(sizeof header);
		if (header.count != fragments_ || header.index >= fragments_ || payload.empty() ||
			header.offset > message_bytes_ || payload.size() > message_bytes_ - header.offset)
			return Result::refused;

		Slot& slot = slots_[sequence_of(header.stamp) % slots_.size()];
		if (slot.stamp != header.stamp) slot.stamp = header.stamp, slot.have = 0;
		std::memcpy(slot.message.data() + header.offset, payload.data(), payload.size());
		const std::uint64_t all = fragments_ == 64 ? UINT64_MAX : (std::uint64_t{1} << fragments_) - 1;
		if (slot.have == all)
			slot.have = 0;  // whole before: the account will call it a duplicate once it is whole again
		slot.have |= std::uint64_t{1} << header.index;
		if (slot.have != all) return Result::more;
		message = slot.message;
		return Result::whole;
	}

private:
	struct Slot {
		std::uint64_t stamp = UINT64_MAX;
		std::uint64_t have = 0;
		std::vector<std::byte> message;
	};
	std::uint32_t message_bytes_;
	std::uint32_t fragments_;  // 1 to 64
	std::vector<Slot> slots_;
};

}  // namespace verbena::rcud
