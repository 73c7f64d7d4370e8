// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/serialize.h"

#include <bit>

namespace verbena::rpc {
namespace {

constexpr std::size_t depth_max = 64;  // values nested in values
// A value of up to this size is parsed at once: its claims are bounded by unpack_limit, and cannot
// take much memory together. A larger one is first walked by ClaimCheck.
constexpr std::size_t small_value = 1024;
// The first byte of an array or map of up to 15 elements, and of a small number.
constexpr unsigned fixed_map = 0x80, fixed_array = 0x90, fixed_negative = 0xe0;

// Sums the numbers of elements that arrays and maps of a value claim to have. An element takes at
// least one byte, so a sum above the number of bytes is refused. The parser must not see such a
// value: it allocates memory for each claim before it reads the elements.
struct ClaimCheck : msgpack::null_visitor {
	explicit ClaimCheck(std::size_t bytes) : most(bytes) {}
	bool claim(std::uint64_t elements) {
		claimed += elements;
		return claimed <= most && ++depth <= depth_max;
	}
	bool start_array(std::uint32_t elements) { return claim(elements); }
	bool start_map(std::uint32_t pairs) { return claim(std::uint64_t{2} * pairs); }
	bool end_array() { return --depth, true; }
	bool end_map() { return --depth, true; }
	void parse_error(std::size_t, std::size_t) {}
	void insufficient_bytes(std::size_t, std::size_t) {}

	std::uint64_t most, claimed = 0;
	std::size_t depth = 0;
};

// msgpack's question whether a string or binary may refer to the message instead of being copied.
bool in_message(msgpack::type::object_type, std::size_t, void*) { return true; }

std::uint64_t big_endian(std::span<const std::byte> bytes) {
	std::uint64_t value = 0;
	for (const std::byte each : bytes) value = value << 8 | std::to_integer<std::uint64_t>(each);
	return value;
}

}  // namespace

void Unpacker::begin(std::span<const std::byte> body) {
	zone_.clear();
	rest_ = body;
	cost_ = 0;
	exceeded_ = false;
	allowed_ = std::max(decoded_max_, body.size());
}

bool Unpacker::charge(std::uint64_t bytes) {
	if (bytes > allowed_ - cost_) {
		exceeded_ = true;
		return false;
	}
	cost_ += bytes;
	return true;
}

bool Unpacker::array(std::uint32_t& elements) {
	if (rest_.empty()) return false;
	const auto first = std::to_integer<unsigned>(rest_[0]);
	const std::size_t size = first == 0xdc ? 2 : first == 0xdd ? 4 : 0;
	if (size == 0 && (first & 0xf0) != fixed_array) return false;
	if (rest_.size() < 1 + size) return false;
	elements = size == 0 ? first & 15 : static_cast<std::uint32_t>(big_endian(rest_.subspan(1, size)));
	rest_ = rest_.subspan(1 + size);
	return true;
}

bool Unpacker::read_number(Number& into) {
	if (rest_.empty()) return false;
	const auto first = std::to_integer<unsigned>(rest_[0]);
	if (first < fixed_map || first >= fixed_negative) {
		rest_ = rest_.subspan(1);
		if (first < fixed_map) into = {.kind = Number::Kind::positive, .positive = first};
		else into = {.kind = Number::Kind::negative, .negative = static_cast<std::int8_t>(first)};
		return true;
	}
	// float 32 and 64, uint 8 to 64, int 8 to 64
	if (first < 0xca || first > 0xd3) return false;
	const bool real = first < 0xcc, is_signed = first >= 0xd0;
	const std::size_t size = real ? std::size_t{4} << (first - 0xca) : std::size_t{1} << (first & 3);
	if (rest_.size() < 1 + size) return false;
	const std::uint64_t bits = big_endian(rest_.subspan(1, size));
	rest_ = rest_.subspan(1 + size);
	const auto sign_extended = static_cast<std::int64_t>(bits << (64 - 8 * size)) >> (64 - 8 * size);
	if (real)
		into = {.kind = Number::Kind::real,
			.real = size == 4 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits)};
	else if (is_signed && sign_extended < 0) into = {.kind = Number::Kind::negative, .negative = sign_extended};
	else into = {.kind = Number::Kind::positive, .positive = bits};
	return true;
}

const msgpack::object* Unpacker::next() {
	if (rest_.empty()) return nullptr;
	const auto* const data = reinterpret_cast<const char*>(rest_.data());
	std::size_t size = rest_.size();
	try {
		if (size > small_value) {
			ClaimCheck check(size);
			std::size_t offset = 0;
			if (!msgpack::parse(data, size, offset, check) || !charge(check.claimed * element_cost)) return nullptr;
			size = offset;
		}
		bool referenced = false;
		std::size_t offset = 0;
		object_ = msgpack::unpack(zone_, data, size, offset, referenced, in_message, nullptr,
			msgpack::unpack_limit(size, size, size, size, size, depth_max));
		rest_ = rest_.subspan(offset);
		return &object_;
	} catch (const std::exception&) {
		return nullptr;
	}
}

const msgpack::object* Unpacker::unpack(std::span<const std::byte> body) {
	begin(body);
	const msgpack::object* const object = next();
	return object != nullptr && done() ? object : nullptr;
}

void Unpacker::release() {
	object_ = {};
	rest_ = {};
	zone_.clear();
}

}  // namespace verbena::rpc
