// SPDX-License-Identifier: Apache-2.0
// Streams: functions that read and write items while they run.
//
//     Lazy<void> count(stream_writer<int> out, int from, int to);       // server streaming
//     Lazy<double> mean(stream_reader<double> in);                      // client streaming
//     Lazy<int> shout(stream<std::string, std::string> both, int loud); // reads and writes strings
//
//     auto numbers = co_await client.open_stream<count>(1, 10);         // client_stream<count>
//     while (true) {
//         auto next = co_await numbers->read();                         // std::optional<int>
//         if (!next || !*next) break;                                   // an error; the end
//     }
//     auto result = co_await numbers->finish();                         // the function's result
//
// Flow control: write() waits while the reader's window is full, so a slow reader slows down the
// writer. It also waits while the connection has `unsent_max` bytes unsent.
//
// Threads: any thread may use a stream, one read() and one write() at a time. A coroutine that
//   awaited one continues on the stream's I/O thread if it had to wait or came from elsewhere.
// Lifetime: the stream that a function received must not be used after that function has ended.
// Errors: rpc_result; once a stream has broken, read() still returns the items that arrived before.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "lib/rpc/stream_end.h"

namespace verbena::rpc {

namespace detail {

// The awaitable of read().
template <class T> class Reading : public StreamEnd::Wait {
public:
	explicit Reading(StreamEnd& end) : Wait(end, For::reading) {}
	rpc_result<std::optional<T>> await_resume() { return end_.read<T>(); }
};

// The awaitable of write(). It holds text as a view and any other item by reference.
template <class Given> class Writing : public StreamEnd::Wait {
public:
	Writing(StreamEnd& end, Given value) : Wait(end, For::writing), value_(value) {}
	rpc_result<void> await_resume() { return end_.write(value_); }

private:
	Given value_;
};

struct NoItems {};  // the item type of a direction that does not exist
// The parameter type of write(): text as a view, the rest by reference.
template <class T>
using GivenItem = std::conditional_t<std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>,
	std::string_view, const std::conditional_t<std::is_void_v<T>, NoItems, T>&>;

}  // namespace detail

// One end of a stream: read() returns items of type In, write() takes items of type Out. void: no
// items in that direction.
template <class In, class Out> class stream {
public:
	explicit stream(std::shared_ptr<StreamEnd> end) : end_(std::move(end)) {}

	// Returns the next item, or nothing if the other end writes no more, or the error that ended
	// the stream. An item that is a view by its type is returned as the type that owns the bytes.
	detail::Reading<Owned<In>> read()
		requires(!std::is_void_v<In>)
	{
		return detail::Reading<Owned<In>>(*end_);
	}
	// Queues an item; it waits for room first. The value is referenced until the wait is over and
	// may be changed then. Errors: the stream has ended, or the item is above the limit
	// (errc::message_too_large) or cannot be packed (errc::invalid_rpc_arguments).
	detail::Writing<detail::GivenItem<Out>> write(detail::GivenItem<Out> value)
		requires(!std::is_void_v<Out>)
	{
		return {*end_, value};
	}

protected:
	std::shared_ptr<StreamEnd> end_;
};
template <class In> using stream_reader = stream<In, void>;
template <class Out> using stream_writer = stream<void, Out>;

}  // namespace verbena::rpc
