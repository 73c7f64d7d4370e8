// Streams: functions that read and write items while they run.
//
//     Lazy<void> count(stream_writer<int> out, int from, int to);            // server streaming
//     Lazy<double> mean(stream_reader<double> in);                           // client streaming
//     Lazy<int> shout(stream<std::string, std::string> both, int volume);    // both ways: reads the first type, writes
//     the second
//
//     auto numbers = co_await client.open_stream<count>(1, 10);              // rpc_result<client_stream<count>>
//     while (true) {
//         auto next = co_await numbers->read();                              // rpc_result<std::optional<int>>
//         if (!next || !*next) break;                                        // an error; the end
//     }
//     auto result = co_await numbers->finish();                              // rpc_result<void>: how the function
//     ended
//
// A stream is held back by its reader: write() waits while the reader's window is full. One read() and one write() may
// be under way at a time. From any thread; what awaits goes on at the stream's I/O thread. The handle of a function is
// good until that has ended.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "lib/rpc/stream_end.h"

namespace verbena::rpc {

namespace detail {

template <class T> class Reading : public StreamEnd::Wait {
public:
	explicit Reading(StreamEnd& end) : Wait(end, For::reading) {}
	rpc_result<std::optional<T>> await_resume() { return end_.read<T>(); }
};

template <class Given> class Writing : public StreamEnd::Wait {
public:
	Writing(StreamEnd& end, Given value) : Wait(end, For::writing), value_(value) {}
	rpc_result<void> await_resume() { return end_.write(value_); }

private:
	Given value_;
};

struct NoItems {};
// How an item is given to write(): text as a view, the rest by reference.
template <class T>
using GivenItem = std::conditional_t<std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>,
	std::string_view, const std::conditional_t<std::is_void_v<T>, NoItems, T>&>;

}  // namespace detail

// `In`: what read() gives, `Out`: what write() takes; void: not in this direction.
template <class In, class Out> class stream {
public:
	explicit stream(std::shared_ptr<StreamEnd> end) : end_(std::move(end)) {}

	// The next item; nothing: the other end writes no more; or why the stream broke. Views become what owns its memory.
	detail::Reading<Owned<In>> read()
		requires(!std::is_void_v<In>)
	{
		return detail::Reading<Owned<In>>(*end_);
	}
	// Done when it is on its way: the value may be changed. Error: the stream has ended or broken.
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
