#include "lib/rpc/serialize.h"

namespace verbena::rpc {
namespace {

constexpr std::size_t depth_max = 64;  // values nested in values
// A body of up to this size is parsed at once: its claims are bounded by unpack_limit, and cannot
// take much memory together. A larger one is first walked by ClaimCheck.
constexpr std::size_t small_body = 1024;

// Sums the numbers of elements that arrays and maps of a body claim to have. An element takes at
// least one byte, so a sum above the body's size is refused. The parser must not see such a body:
// it allocates memory for each claim before it reads the elements.
struct ClaimCheck : msgpack::null_visitor {
	explicit ClaimCheck(std::size_t bytes) : left(bytes) {}
	bool claim(std::uint64_t elements) {
		if (elements > left || ++depth > depth_max) return false;
		left -= elements;
		return true;
	}
	bool start_array(std::uint32_t elements) { return claim(elements); }
	bool start_map(std::uint32_t pairs) { return claim(std::uint64_t{2} * pairs); }
	bool end_array() { return --depth, true; }
	bool end_map() { return --depth, true; }
	void parse_error(std::size_t, std::size_t) {}
	void insufficient_bytes(std::size_t, std::size_t) {}

	std::uint64_t left;
	std::size_t depth = 0;
};

// msgpack's question whether a string or binary may refer to the message instead of being copied.
bool in_message(msgpack::type::object_type, std::size_t, void*) { return true; }

}  // namespace

const msgpack::object* Unpacker::unpack(std::span<const std::byte> body) {
	if (body.empty()) return nullptr;
	const auto* const data = reinterpret_cast<const char*>(body.data());
	try {
		if (body.size() > small_body) {
			ClaimCheck check(body.size());
			std::size_t offset = 0;
			if (!msgpack::parse(data, body.size(), offset, check) || offset != body.size()) return nullptr;
		}
		zone_.clear();
		bool referenced = false;
		std::size_t offset = 0;
		const std::size_t limit = body.size();
		object_ = msgpack::unpack(zone_, data, body.size(), offset, referenced, in_message, nullptr,
			msgpack::unpack_limit(limit, limit, limit, limit, limit, depth_max));
		return offset == body.size() ? &object_ : nullptr;
	} catch (const std::exception&) {
		return nullptr;
	}
}

}  // namespace verbena::rpc
