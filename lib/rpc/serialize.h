// SPDX-License-Identifier: Apache-2.0
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
//   present, and against a budget, before memory is allocated for it.
#pragma once

#define MSGPACK_NO_BOOST
#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// Parses bodies, one at a time. The values of a body are valid until the next begin() or release(),
// and refer to the body.
class Unpacker {
public:
	// The memory that one element of an array or half a pair of a map is assumed to take: 24 bytes
	// in msgpack's tree, and some in the value that the program gets.
	static constexpr std::size_t element_cost = 32;

	Unpacker() = default;
	// `decoded_max`: the values of a body may take this many bytes, or as many as the body has if
	// that is more.
	explicit Unpacker(std::size_t decoded_max) : decoded_max_(decoded_max) {}

	// Begins to read a body, value by value.
	void begin(std::span<const std::byte> body);
	bool done() const { return rest_.empty(); }
	// Reads the next value. Null: the bytes do not begin with a MessagePack value, or it claims
	// more elements than there are bytes, or more than the budget allows.
	const msgpack::object* next();
	// Reads the header of an array, and returns the number of its elements. False: it is none.
	bool array(std::uint32_t& elements);
	// Reads a number, without allocating. False: it is none, or it does not fit.
	template <class T> bool number(T& into);
	// Reads an array of numbers straight into the vector.
	template <class T> bool numbers(std::vector<T>& into);
	// Reads a body that is one value. Null: it is not.
	const msgpack::object* unpack(std::span<const std::byte> body);

	// Whether a value was refused only because of the budget.
	bool exceeded() const { return exceeded_; }
	// Bytes that the values of the present body take, without the body: an estimate.
	std::size_t cost() const { return cost_; }
	// Frees what the values take.
	void release();

private:
	bool charge(std::uint64_t bytes);
	// Reads the next number as a double or a 64-bit integer; false: it is none.
	struct Number {
		enum class Kind : std::uint8_t { positive, negative, real } kind;
		std::uint64_t positive;
		std::int64_t negative;
		double real;
	};
	bool read_number(Number& into);

	std::size_t decoded_max_ = std::size_t{256} << 20;
	std::span<const std::byte> rest_;
	std::size_t allowed_ = 0, cost_ = 0;
	bool exceeded_ = false;
	msgpack::zone zone_;
	msgpack::object object_;
};

namespace detail {
// Whether Unpacker::number() reads a T. MessagePack has types of its own for bytes and for truth
// values; the types of characters are left to it, too.
template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T> && sizeof(T) > 1 && !std::is_same_v<T, wchar_t> &&
	!std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;
template <class T> inline constexpr bool is_numbers = false;
template <class T> inline constexpr bool is_numbers<std::vector<T>> = is_number<T>;
}  // namespace detail

template <class T> bool Unpacker::number(T& into) {
	Number read{};
	if (!read_number(read)) return false;
	if constexpr (std::is_floating_point_v<T>) {
		into = read.kind == Number::Kind::real    ? static_cast<T>(read.real)
			: read.kind == Number::Kind::positive ? static_cast<T>(read.positive)
												  : static_cast<T>(read.negative);
	} else if (read.kind == Number::Kind::positive) {
		if (!std::in_range<T>(read.positive)) return false;
		into = static_cast<T>(read.positive);
	} else {
		if (read.kind == Number::Kind::real || !std::in_range<T>(read.negative)) return false;
		into = static_cast<T>(read.negative);
	}
	return true;
}

template <class T> bool Unpacker::numbers(std::vector<T>& into) {
	std::uint32_t elements = 0;
	if (!array(elements) || elements > rest_.size() || !charge(std::uint64_t{elements} * sizeof(T))) return false;
	into.resize(elements);
	return std::ranges::all_of(into, [this](T& each) { return number(each); });
}

// Reads the next value of the body that `unpacker` is reading. False: it is not a T, and `into` is
// unspecified.
template <class T> bool unpack_next(Unpacker& unpacker, T& into) {
	if constexpr (detail::is_number<T>) {
		return unpacker.number(into);
	} else if constexpr (detail::is_numbers<T>) {
		return unpacker.numbers(into);
	} else {
		const msgpack::object* const object = unpacker.next();
		if (object == nullptr) return false;
		try {
			object->convert(into);
		} catch (const std::exception&) {
			return false;
		}
		return true;
	}
}

// Reads one value. False: the body is not a T, and `into` is unspecified.
template <class T> bool unpack_value(Unpacker& unpacker, std::span<const std::byte> body, T& into) {
	unpacker.begin(body);
	return unpack_next(unpacker, into) && unpacker.done();
}

// Reads the arguments of a request. False: their number or a type is wrong. For no parameters an
// empty array (0x90) is accepted as well as no body.
template <class... Parameters>
bool unpack_arguments(Unpacker& unpacker, std::span<const std::byte> body, std::tuple<Parameters...>& into) {
	if constexpr (sizeof...(Parameters) == 0) {
		return body.empty() || (body.size() == 1 && body[0] == std::byte{0x90});
	} else {
		std::uint32_t elements = 0;
		unpacker.begin(body);
		if (!unpacker.array(elements) || elements != sizeof...(Parameters)) return false;
		const auto read = [&](Parameters&... each) { return (unpack_next(unpacker, each) && ...); };
		return std::apply(read, into) && unpacker.done();
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
