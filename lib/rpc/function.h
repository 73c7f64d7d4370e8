// SPDX-License-Identifier: Apache-2.0
// Function<f>: the facts about a function at compile time: its name, its id on the wire, its
// parameters and result, and its kind.
//
//     int add(int, int);                                    plain
//     Lazy<std::string> fetch(std::string_view key);        coroutine
//     void later(context<std::string>, int seconds);        callback
//     Lazy<void> count(stream_writer<int>, int from);       stream (stream.h)
//
// Member functions of a class have the same kinds. A function's id is the 32-bit FNV-1a hash of its
// qualified name: "add", "Shop::order". The name of an instance of a template has its arguments if
// GCC compiles it ("twice<int>"); Clang leaves them out, so such a function is called only by a
// client of the same compiler.
//
// Errors: check_handler() refuses a function that cannot be served, by a static_assert.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "lib/async/task.h"
#include "lib/rpc/serialize.h"

namespace verbena::rpc {

template <class T> class context;
template <class In, class Out> class stream;

// The id of a name: 32-bit FNV-1a.
constexpr std::uint32_t function_id(std::string_view name) {
	std::uint32_t hash = 0x811c9dc5;
	for (const char letter : name) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x01000193;
	return hash;
}

namespace detail {

// The qualified name of `f`, cut out of the compiler's description of this function.
template <auto f> constexpr std::string_view qualified_name_of() {
	// GCC: "... [with auto f = add; ...]", Clang: "... [f = &add]".
	std::string_view text = __PRETTY_FUNCTION__;
	text.remove_prefix(text.find("f = ") + 4);
	const std::size_t end = text.find(';');
	text = text.substr(0, end == std::string_view::npos ? text.rfind(']') : end);
	if (text.starts_with('(')) text = text.substr(1, text.size() - 2);
	while (text.starts_with('&') || text.starts_with(' ')) text.remove_prefix(1);
	return text;
}

// Result, class (void for a free function) and parameters of a pointer to a function or member.
template <class R, class C, class... P> struct SignatureOf {
	using Returned = R;
	using Class = C;
	using Parameters = std::tuple<P...>;
};
template <class F> struct Signature;
template <class R, class... P> struct Signature<R (*)(P...)> : SignatureOf<R, void, P...> {};
template <class R, class... P> struct Signature<R (*)(P...) noexcept> : SignatureOf<R, void, P...> {};
template <class R, class C, class... P> struct Signature<R (C::*)(P...)> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P> struct Signature<R (C::*)(P...) const> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P> struct Signature<R (C::*)(P...) noexcept> : SignatureOf<R, C, P...> {};
template <class R, class C, class... P> struct Signature<R (C::*)(P...) const noexcept> : SignatureOf<R, C, P...> {};

// The result of a coroutine's task; any other type is its own result.
template <class T> struct Awaited {
	using Type = T;
	static constexpr bool is_task = false;
};
template <class T> struct Awaited<async::Task<T>> {
	using Type = T;
	static constexpr bool is_task = true;
};

// Splits a signature into the result, the parameters that travel, and the items of a stream: the
// context of a callback and the stream are parameters that the server adds.
template <class Returned, class Parameters> struct Split {
	using Result = typename Awaited<Returned>::Type;
	using Declared = Parameters;
	using In = void;
	using Out = void;
	static constexpr bool is_callback = false, is_stream = false;
};
template <class T, class... P> struct Split<void, std::tuple<context<T>, P...>> {
	using Result = T;
	using Declared = std::tuple<P...>;
	using In = void;
	using Out = void;
	static constexpr bool is_callback = true, is_stream = false;
};
template <class Returned, class Read, class Written, class... P>
struct Split<Returned, std::tuple<stream<Read, Written>, P...>> {
	using Result = typename Awaited<Returned>::Type;
	using Declared = std::tuple<P...>;
	using In = Read;
	using Out = Written;
	static constexpr bool is_callback = false, is_stream = true;
};

// The parameters as values, into which arguments are read.
template <class Parameters> struct Decayed;
template <class... P> struct Decayed<std::tuple<P...>> {
	using Type = std::tuple<std::remove_cvref_t<P>...>;
	static constexpr bool writes_to_reference =
		((std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>) || ... || false);
	// True: a parameter by value owns memory, which is freed when the function returns.
	static constexpr bool owns_by_value =
		((!std::is_reference_v<P> && !is_view<P> && !std::is_trivially_copyable_v<P>) || ... || false);
};

}  // namespace detail

template <auto f> struct Function {
	using Signature = detail::Signature<std::remove_const_t<decltype(f)>>;
	using Split = detail::Split<typename Signature::Returned, typename Signature::Parameters>;
	using Class = typename Signature::Class;
	using Returned = typename Signature::Returned;
	using Result = typename Split::Result;  // as the function declares it
	using Declared = typename Split::Declared;  // without the context of a callback and the stream
	using Arguments = typename detail::Decayed<Declared>::Type;
	using In = typename Split::In;  // items that the function reads; void without a stream
	using Out = typename Split::Out;  // items that it writes

	static constexpr std::string_view name = detail::qualified_name_of<f>();
	static constexpr std::uint32_t id = function_id(name);
	static constexpr bool is_coroutine = detail::Awaited<Returned>::is_task;
	static constexpr bool is_callback = Split::is_callback;
	static constexpr bool is_stream = Split::is_stream;
	static constexpr bool is_member = !std::is_void_v<Class>;
	static constexpr std::size_t parameters = std::tuple_size_v<Arguments>;

	// Fails to compile for a function that cannot be registered.
	static constexpr void check_handler() {
		static_assert(!detail::Decayed<Declared>::writes_to_reference,
			"an RPC function cannot write to a parameter: take it by value, as a view, or as a reference to const, and "
			"return the new value");
		static_assert(!is_stream || is_coroutine,
			"an RPC function that has a stream must be a coroutine: let it return Lazy<...>");
		static_assert(is_coroutine || is_callback || !is_view<Result> || !detail::Decayed<Declared>::owns_by_value,
			"this RPC function returns a view (std::string_view, std::span) and takes a parameter by value that owns "
			"its memory: the view would dangle when the function returns. Take the parameter as a view "
			"(std::string_view echo(std::string_view)), or return a value that owns its bytes (std::string)");
	}
};

namespace detail {
// The class of one or several member functions.
template <auto first, auto...> struct ClassOf {
	using Type = typename Function<first>::Class;
};
}  // namespace detail

}  // namespace verbena::rpc
