// Arguments and results as bytes: MessagePack (msgpack-cxx, https://msgpack.org).
//
//     the body of a request     an array with one element for each parameter; no body for none
//     the body of a response    the result; no body for void. With an error code: its text
//
// A program's own types need MSGPACK_DEFINE(a, b, c) in the class, which writes an array, or an
// adaptor as msgpack-cxx's documentation describes it. Strings and byte spans are read as views
// into the message, without a copy.
//
// Threads: an Unpacker belongs to one thread; the functions are thread-safe.
// Lifetime: values that are views dangle when the message is freed.
// Errors: packing throws what the type's adaptor or std::vector throws. Reading returns false: the
//   bytes come from an untrusted peer, and each length that they claim is checked against the bytes
//   present before memory is allocated for it.
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

// The output of msgpack's packer: appends to a Buffer.
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

// Appends one value.
template <class T> void pack_value(Buffer& into, const T& value) {
	BufferStream stream(into);
	msgpack::pack(stream, value);
}

// Appends an array of the arguments, or nothing if there are none.
template <class... Arguments> void pack_arguments(Buffer& into, const Arguments&... arguments) {
	if constexpr (sizeof...(Arguments) > 0) {
		BufferStream stream(into);
		msgpack::packer<BufferStream> packer(stream);
		packer.pack_array(sizeof...(Arguments));
		(packer.pack(arguments), ...);
	}
}

// Parses bodies, one at a time, and reuses its memory.
class Unpacker {
public:
	// Returns the value, which is valid until the next call and refers to `body`. Null: the bytes
	// are not exactly one MessagePack value, or claim more elements than there are bytes.
	const msgpack::object* unpack(std::span<const std::byte> body);

private:
	msgpack::zone zone_;
	msgpack::object object_;
};

// Reads one value. False: the body is not a T, and `into` is unspecified.
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

// Reads the arguments of a request. False: their number or a type is wrong. For no parameters an
// empty array (0x90) is accepted as well as no body.
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

// Owned<T>: the type of a value that outlives its message: for a view, one that owns the bytes.
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
