// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/frame.h"

namespace verbena::rpc {
namespace {

template <class T> T load(const std::byte* at) {
	static_assert(std::endian::native == std::endian::little);
	T value;
	std::memcpy(&value, at, sizeof value);
	return value;
}
template <class T> void store(std::byte* at, T value) { std::memcpy(at, &value, sizeof value); }

std::unexpected<FrameFault> fault(std::string_view text, errc code = errc::protocol_error, std::uint32_t sequence = 0) {
	return std::unexpected(FrameFault{.code = code, .text = text, .sequence = sequence});
}

}  // namespace

void FrameHeader::write(std::span<std::byte, bytes> out) const {
	std::byte* const at = out.data();
	store(at, magic);
	store(at + 1, version);
	store(at + 2, kind);
	store(at + 3, serialization);
	store(at + 4, sequence);
	store(at + 8, kind == FrameKind::response ? std::uint32_t{code} : kind == FrameKind::window ? granted : function);
	store(at + 12, body_length);
	store(at + 16, attachment_length);
	store(at + 20, patience_us);
}

// Reserved fields must be 0, so that a later version can give them a meaning. The lengths are
// summed in 64 bits: two 32-bit lengths could add up to a small number.
std::expected<Frame, FrameFault> FrameReader::next() {
	if (rest_.size() < FrameHeader::bytes) return fault("a message ends within a frame's header");
	const std::byte* const at = rest_.data();
	if (load<std::uint8_t>(at) != FrameHeader::magic)
		return fault("a frame does not begin with the magic byte: the peer speaks another protocol");
	if (load<std::uint8_t>(at + 1) != FrameHeader::version)
		return fault("the peer's frames have another version: update the older side", errc::unknown_protocol_version);
	FrameHeader header{.kind = load<FrameKind>(at + 2),
		.serialization = load<Serialization>(at + 3),
		.sequence = load<std::uint32_t>(at + 4),
		.body_length = load<std::uint32_t>(at + 12),
		.attachment_length = load<std::uint32_t>(at + 16),
		.patience_us = load<std::uint32_t>(at + 20)};
	if (header.kind < FrameKind::request || header.kind > FrameKind::done)
		return fault("a frame of this kind does not exist");
	if (header.serialization > Serialization::msgpack)
		return fault("a frame's serialization is unknown to this version");
	const bool asks = header.kind == FrameKind::request || header.kind == FrameKind::open;
	const bool carries_both = asks || header.kind == FrameKind::response;
	const bool carries_body = carries_both || header.kind == FrameKind::item;
	if ((!carries_body && header.body_length != 0) || (!carries_both && header.attachment_length != 0))
		return fault("a frame has a body or an attachment that its kind does not allow");
	if (header.kind == FrameKind::item && header.body_length == 0) return fault("an item must have a body");
	if (header.body_length > 0 && header.serialization == Serialization::none)
		return fault("a frame has a body but no serialization");
	if (asks) {
		header.function = load<std::uint32_t>(at + 8);
	} else if (header.kind == FrameKind::window) {
		header.granted = load<std::uint32_t>(at + 8);
		if (header.granted == 0 || header.patience_us != 0)
			return fault("a window frame must grant more than 0 bytes and has no timeout");
	} else {
		header.code = load<std::uint16_t>(at + 8);
		if (load<std::uint16_t>(at + 10) != 0) return fault("reserved bytes of a frame are not 0");
		if (header.kind != FrameKind::response && header.code != 0) return fault("reserved bytes of a frame are not 0");
		if (header.patience_us != 0) return fault("reserved bytes of a frame are not 0");
	}
	const auto rest = rest_.subspan(FrameHeader::bytes);
	const std::uint64_t length = std::uint64_t{header.body_length} + header.attachment_length;
	if (length > rest.size()) return fault("a frame is longer than its message");
	rest_ = rest.subspan(length);
	if (header.body_length > limits_.body_max || header.attachment_length > limits_.attachment_max)
		return fault("the body or the attachment is larger than the limit", errc::message_too_large, header.sequence);
	return Frame{.header = header,
		.body = rest.first(header.body_length),
		.attachment = rest.subspan(header.body_length, header.attachment_length)};
}

}  // namespace verbena::rpc
