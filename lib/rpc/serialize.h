// Arguments and results as bytes: MessagePack (msgpack-cxx, https://msgpack.org), which some fifty languages speak.
//
//     the body of a request     an array with one element for each parameter; no body at all for none
//     the body of a response    the result; no body for void. With an error code: its text, a string
//
// A program's own types: MSGPACK_DEFINE(a, b, c) in the class (an array), or an adaptor as msgpack-cxx's documentation
// has it. Strings and byte spans are read as views into the message, without a copy.
//
// Reading takes what a peer sent: every claim of a length is held against the bytes that are there before memory is
// taken for it.
#pragma once

#define MSGPACK_NO_BOOST
#include <cstddef>
#include <msgpack.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace verbena::rpc {

using Buffer = std::vector<std::byte>;

// What msgpack's packer writes to.
class BufferStream {
public:
	explicit BufferStream(Buffer& into) : into_(into) {}
	void write(const char* data, std::size_t size) {
		const auto* const bytes = reinterpret_cast<const std::byte*>(data);
		into_.insert(into_.end(), bytes, bytes + size);
	}

private:
	Buffer& into_;
};

template <class T> void pack_value(Buffer& into, const T& value) {
	BufferStream stream(into);
	msgpack::pack(stream, value);
}

template <class... Arguments> void pack_arguments(Buffer& into, const Arguments&... arguments) {
	if constexpr (sizeof...(Arguments) > 0) {
		BufferStream stream(into);
		msgpack::packer<BufferStream> packer(stream);
		packer.pack_array(sizeof...(Arguments));
		(packer.pack(arguments), ...);
	}
}

// Reads bodies, one at a time: what it returns is good until the next one. Of one thread.
class Unpacker {
public:
	// Null: the bytes are no single MessagePack value, or claim more than there is.
	const msgpack::object* unpack(std::span<const std::byte> body);

private:
	msgpack::zone zone_;
	msgpack::object object_;
};

// False: the body is no such value.
template <class T> bool unpack_value(Unpacker& unpacker, std::span<const std::byte> body, T& into) {
	const msgpack::object* const object = unpacker.unpack(body);
	if (object == nullptr) return false;
	try {
		object->convert(into);
	} catch (const std::exception&) {
		return false;
	}
	return true;
}

template <class... Parameters>
bool unpack_arguments(Unpacker& unpacker, std::span<const std::byte> body, std::tuple<Parameters...>& into) {
	if constexpr (sizeof...(Parameters) == 0) {
		return body.empty() || (body.size() == 1 && body[0] == std::byte{0x90});
	} else {
		const msgpack::object* const object = unpacker.unpack(body);
		if (object == nullptr || object->type != msgpack::type::ARRAY ||
			object->via.array.size != sizeof...(Parameters))
			return false;
		try {
			const msgpack::object* element = object->via.array.ptr;
			std::apply([&](Parameters&... each) { ((element++)->convert(each), ...); }, into);
		} catch (const std::exception&) {
			return false;
		}
		return true;
	}
}

// What a value becomes that must outlive the message it came in.
namespace detail {
template <class T> struct Owned {
	using Type = T;
};
template <> struct Owned<std::string_view> {
	using Type = std::string;
};
template <> struct Owned<const char*> {
	using Type = std::string;
};
template <class T> struct Owned<std::span<T>> {
	using Type = std::vector<std::remove_const_t<T>>;
};
}  // namespace detail
template <class T> using Owned = typename detail::Owned<std::remove_cvref_t<T>>::Type;
template <class T> inline constexpr bool is_view = !std::is_same_v<Owned<T>, std::remove_cvref_t<T>>;

}  // namespace verbena::rpc
