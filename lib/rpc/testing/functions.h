// SPDX-License-Identifier: Apache-2.0
// The functions that the tests' server registers: some of each kind, and those that misbehave.
//
// Threads: counters are plain globals, so a server whose counters are read has one thread.
#pragma once

#include <algorithm>
#include <any>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lib/rpc/server.h"
#include "lib/rpc/sync_wait.h"

namespace rpc_test {

using namespace verbena::rpc;

struct Person {
	std::string name;
	int age = 0;
	std::vector<std::string> friends;
	MSGPACK_DEFINE(name, age, friends)
	bool operator==(const Person&) const = default;
};

inline std::string_view echo(std::string_view text) { return text; }
inline int add(int a, int b) { return a + b; }
inline int calls_of_nothing = 0;
inline void nothing() { ++calls_of_nothing; }
inline int count_of_nothing() { return calls_of_nothing; }
inline Person older(const Person& person, int years, bool alone) {
	return {
		.name = person.name, .age = person.age + years, .friends = alone ? std::vector<std::string>() : person.friends};
}
inline std::string own(std::string text) {
	text += '!';
	return text;
}

inline Lazy<int> wait_ms(int milliseconds) {
	co_await IoThread::current()->loop().sleep_for(static_cast<verbena::Nanoseconds>(milliseconds) * 1'000'000);
	co_return milliseconds;
}
inline Lazy<void> wait_and_throw(int code) {
	co_await IoThread::current()->loop().sleep_for(1'000'000);
	throw rpc_error(static_cast<std::uint16_t>(code), "thrown later");
}
inline Lazy<std::string_view> view_of_own_frame(std::string text) {
	co_await IoThread::current()->loop().sleep_for(1'000'000);
	co_return std::string_view(text);
}
inline void later(context<std::string> answer, std::string_view text) {
	std::thread([answer, copy = std::string(text)] { answer.response_msg("later: " + copy); }).detach();
}
inline void at_once(context<int> answer, int value) { answer.response_msg(value); }
inline void refuse(context<void> answer, std::string text) { answer.response_error(10'015, std::move(text)); }
inline void forget(context<void>) {}

inline void throw_code(int code, std::string text) {
	throw rpc_error(static_cast<std::uint16_t>(code), std::move(text));
}
inline void throw_exception() { throw std::runtime_error("the disk is on fire"); }
inline void throw_number() { throw 7; }
// Blocks its thread until release() was called on another one, or for 20 s. Returns whether it was
// released.
inline std::atomic<bool> blocking{false}, released{false};
inline bool block() {
	const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
	for (blocking = true; !released && std::chrono::steady_clock::now() < limit;)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	return released;
}
inline bool is_blocking() { return blocking; }
inline void release() { released = true; }

inline void attachment_back() { get_context()->set_response_attachment(get_context()->get_request_attachment()); }
inline Lazy<std::uint64_t> attachment_size_later() {
	context_info_t* const info = co_await get_context_in_coro();
	co_await IoThread::current()->loop().sleep_for(1'000'000);
	const std::uint64_t size = info->get_request_attachment().size();
	info->set_response_attachment("as text");
	co_return size;
}
inline void attachment_of(std::uint32_t bytes) { get_context()->set_response_attachment(std::string(bytes, 'v')); }
inline std::string text_beside_attachment(std::uint32_t bytes) {
	get_context()->set_response_attachment("as text");
	return std::string(bytes, 'b');
}
inline std::map<std::vector<int>, int> map_of_lists() { return {{{1, 2}, 3}}; }
// Answers with the request's attachment, copied into registered memory. False: there is none.
inline Lazy<bool> registered_attachment_back() {
	context_info_t* const info = co_await get_context_in_coro();
	const std::string_view request = info->get_request_attachment();
	if (info->memory() == nullptr) co_return false;
	verbena::channel::Place place(info->memory()->take(request.size()));
	std::ranges::copy(std::as_bytes(std::span(request)), place.bytes().begin());
	info->set_response_attachment(std::move(place));
	co_return true;
}
// Sets the connection's tag. Returns the tag before, the ids of the connection and of this call,
// the peer's address and the request's attachment.
inline std::vector<std::string> about_connection(std::string tag) {
	context_info_t* const info = get_context();
	const std::string* const before = std::any_cast<std::string>(&info->tag());
	std::vector<std::string> words{before != nullptr ? *before : "", std::to_string(info->get_connection_id()),
		std::to_string(info->get_request_id()), info->get_remote_endpoint(), info->release_request_attachment()};
	info->tag() = std::move(tag);
	return words;
}
inline void close_connection() { get_context()->close(); }
inline std::string who() {
	const context_info_t* const info = get_context();
	return std::string(info->get_rpc_function_name()) + " over " + std::string(info->get_transport());
}
inline bool has_deadline() { return get_context()->deadline() != verbena::never; }

// Waits until its caller cancels, and counts that.
inline int cancelled_calls = 0;
inline Lazy<void> until_cancelled() {
	context_info_t* const info = co_await get_context_in_coro();
	while (!info->cancelled() && !info->has_closed()) co_await IoThread::current()->loop().sleep_for(1'000'000);
	++cancelled_calls;
}
inline int count_of_cancelled() { return cancelled_calls; }

// Streams in each direction.
inline Lazy<int> count_up(stream_writer<int> out, int from, int to) {
	for (int i = from; i < to; ++i) {
		const auto written = co_await out.write(i);
		if (!written) throw written.error();
	}
	co_return to - from;
}
inline Lazy<double> mean(stream_reader<double> in) {
	double sum = 0;
	int count = 0;
	while (true) {
		const auto next = co_await in.read();
		if (!next) throw next.error();
		if (!*next) break;
		sum += **next;
		++count;
	}
	co_return count > 0 ? sum / count : 0;
}
inline Lazy<int> shout(stream<std::string, std::string> both, std::string mark) {
	int count = 0;
	while (true) {
		auto next = co_await both.read();
		if (!next || !*next) break;
		const std::string louder = **next + mark;
		const auto written = co_await both.write(louder);
		if (!written) break;
		++count;
	}
	co_return count;
}
inline Lazy<void> birthdays(stream<Person, Person> both) {
	while (true) {
		auto next = co_await both.read();
		if (!next || !*next) break;
		++(**next).age;
		co_await both.write(**next);
	}
}
inline Lazy<void> throw_after(stream_writer<int> out, int items) {
	for (int i = 0; i < items; ++i) co_await out.write(i);
	throw rpc_error(10'404, "no more pages");
}
// Writes items as fast as flow control allows. count_of_flooded() returns their number so far.
inline int flooded = 0;
inline Lazy<void> flood(stream_writer<std::string> out, int items, std::uint32_t size) {
	const std::string item(size, 'f');
	for (flooded = 0; flooded < items; ++flooded) {
		const auto written = co_await out.write(item);
		if (!written) break;
	}
}
inline int count_of_flooded() { return flooded; }
// Reads nothing until another call allows it.
inline bool told = false;
inline void tell(bool now) { told = now; }
inline Lazy<std::uint64_t> read_when_allowed(stream_reader<std::string> in) {
	const context_info_t* const info = co_await get_context_in_coro();
	while (!told && !info->cancelled()) co_await IoThread::current()->loop().sleep_for(1'000'000);
	std::uint64_t bytes = 0;
	while (true) {
		const auto next = co_await in.read();
		if (!next || !*next) break;
		bytes += (*next)->size();
	}
	co_return bytes;
}
// Reads until its stream breaks. why_broken() returns the error's code, 0 before.
inline std::uint16_t last_break = 0;
inline Lazy<void> until_broken(stream<int, int> both) {
	co_await both.write(1);
	while (true) {
		const auto next = co_await both.read();
		if (next && *next) continue;
		const auto written = co_await both.write(2);
		if (next && !*next && written) co_return;
		last_break = next ? std::uint16_t{0} : next.error().val();
		co_return;
	}
}
inline std::uint16_t why_broken() { return last_break; }

struct Counter {
	int value = 0;
	int increase(int by) { return value += by; }
	void increase_later(context<int> answer, int by) { answer.response_msg(value += by); }
	Lazy<int> read() const { co_return value; }
	Lazy<void> increase_by_each(stream_reader<int> in) {
		while (true) {
			const auto next = co_await in.read();
			if (!next || !*next) break;
			value += **next;
		}
	}
};

// The smaller of `bytes` and the environment variable VERBENA_TEST_LARGEST, for processors on which
// tens of megabytes take minutes.
inline std::size_t at_most_largest(std::size_t bytes) {
	const char* const largest = std::getenv("VERBENA_TEST_LARGEST");
	return largest != nullptr ? std::min(bytes, std::size_t{std::strtoul(largest, nullptr, 10)}) : bytes;
}

// RDMA on the software NIC, or on the device that VERBENA_TEST_DEVICE names.
inline ibv_config test_ibv() {
	const char* const name = std::getenv("VERBENA_TEST_DEVICE");
	return {.device = name != nullptr ? name : ""};
}

// Registers all functions, some of them a second time under a name or a key.
inline void register_all(Server& server, Counter& counter) {
	server.register_handler<echo, add, nothing, count_of_nothing, older, own>();
	server.register_handler<wait_ms, wait_and_throw, view_of_own_frame, later, at_once, refuse, forget>();
	server.register_handler<throw_code, throw_exception, throw_number>();
	server.register_handler<block, is_blocking, release>();
	server.register_handler<registered_attachment_back, about_connection, close_connection>();
	server.register_handler<attachment_back, attachment_size_later, attachment_of, text_beside_attachment, map_of_lists,
		who, has_deadline, until_cancelled, count_of_cancelled>();
	server.register_handler<count_up, mean, shout, birthdays, throw_after, flood, count_of_flooded, tell,
		read_when_allowed>();
	server.register_handler<until_broken, why_broken>();
	server.register_handler<&Counter::increase, &Counter::increase_later, &Counter::read, &Counter::increase_by_each>(
		&counter);
	server.register_handler<&Counter::read>(&counter, "how many");
	server.register_handler<add>("sum");
	server.register_handler<echo>("echo");
	server.register_handler<own>(4711u);
	server.register_handler<wait_ms>(4712u);
	server.register_handler<at_once>(4713u);
}

}  // namespace rpc_test
