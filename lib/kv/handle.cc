// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/handle.h"

#include <cstring>
#include <new>

namespace verbena::kv {
namespace {

constexpr std::size_t bytes_under_way_max = 256 << 20, operations_under_way_max = 1024;

char* as_text(std::byte* at) { return reinterpret_cast<char*>(at); }

Fetched copy_to_heap(const Fetched& fetched) {
	Fetched copy{
		.heap = channel::make_heap_block(headroom + fetched.size + 1), .offset = headroom, .size = fetched.size};
	if (copy.heap) std::memcpy(copy.data(), fetched.data(), fetched.size + 1);
	return copy;
}

}  // namespace

bool Handle::Load::takes(std::size_t more) const {
	return operations < operations_under_way_max && (bytes == 0 || bytes + more <= bytes_under_way_max);
}

int Handle::fail(Error error, std::string_view key) {
	last_error = sentence_of(error);
	const bool of_server = error == Error::lost || error == Error::unavailable || error == Error::timeout;
	if (const std::string reason = of_server ? router->reason(key) : ""; !reason.empty()) last_error += ": " + reason;
	switch (error) {
		case Error::missing: return KV_MISSING;
		case Error::empty_key: return KV_EMPTY_KEY;
		case Error::long_key: return KV_LONG_KEY;
		case Error::long_value: return KV_LONG_VALUE;
		case Error::full: return KV_FULL;
		case Error::changed: return KV_CHANGED;
		case Error::disk: return KV_DISK;
		case Error::unsupported:
		case Error::member:
		case Error::old_server: return KV_UNSUPPORTED;
		case Error::no_memory: return KV_NO_MEMORY;
		case Error::many_watches: return KV_INVALID;
		case Error::lost: return KV_LOST;
		case Error::unavailable: return KV_UNAVAILABLE;
		case Error::timeout: return KV_TIMEOUT;
	}
	return KV_INVALID;
}

// The deadline of a call that begins now; `never`: none. It includes the time in which the call
// waits for an asynchronous SET of the same key or server. 0: there is none to wait for, and the
// router's own deadline is the same, which costs no timer.
Nanoseconds Handle::deadline() const {
	if (setting_.empty()) return 0;
	const Nanoseconds timeout = router->how().timeout;
	return timeout == never ? never : monotonic_now() + timeout;
}

// Returns the value's place if it begins a block of kv_alloc() or kv_getn(); else an empty place.
channel::Place Handle::place_of(Bytes value) const {
	const auto found = core->registered.find(value.data());
	if (found == core->registered.end() || headroom + value.size() > found->second.size()) return {};
	return {found->second, headroom, value.size()};
}

// Does one operation to its end.
Result<void> Handle::run(Submission& operation, Nanoseconds by) {
	Batch batch;
	operation.by(by);
	batch.begin(operation);
	loop().run_until([&] { return batch.under_way() == 0; });
	return operation.outcome();
}

// `version` is null, or gets the version of the change or, if that is not made because of its
// condition, the present one. After any other error it stays, for another attempt.
int Handle::change(Submission::Request request, unsigned long long* version) {
	const Nanoseconds by = deadline();
	wait_for(request.key);
	request.place = place_of(request.value);
	Submission operation(*router, std::move(request));
	const Result<void> done = run(operation, by);
	if (version != nullptr && (done || done.error() == Error::changed)) *version = operation.version();
	return result_of(done, operation.key());
}

int Handle::set(std::string_view key, Bytes value) {
	return change({.kind = Call::Kind::set, .key = key, .value = value});
}

int Handle::remove(std::string_view key) { return change({.kind = Call::Kind::remove, .key = key}); }

int Handle::set_if(std::string_view key, Bytes value, unsigned long long& version) {
	return change(
		{.kind = Call::Kind::set, .key = key, .value = value, .versioned = true, .expected = version}, &version);
}

int Handle::remove_if(std::string_view key, unsigned long long& version) {
	return change({.kind = Call::Kind::remove, .key = key, .versioned = true, .expected = version}, &version);
}

int Handle::set_async(std::string_view key, Bytes value) {
	const Nanoseconds by = deadline();
	wait_for(key);
	Load& load = loads_[std::string(router->server_of(key))];
	// The oldest SET that is waited for has an earlier deadline than this one.
	if (!load.takes(value.size())) loop().run_until([&] { return load.takes(value.size()); });
	// The caller may reuse its memory when this returns.
	channel::Place place;
	if (router->leaves_registered(key, value.size())) place = copy_to_registered(value);
	std::vector<std::byte> copy;
	if (!place.buffer) copy.assign(value.begin(), value.end());
	set_later(std::string(key), std::move(place), std::move(copy), by);
	return KV_OK;
}

channel::Place Handle::copy_to_registered(Bytes value) {
	channel::Buffer buffer = core->session->transport()->memory().take(value.size());
	if (!buffer) return {};
	std::memcpy(buffer.data(), value.data(), value.size());
	return {std::move(buffer), 0, value.size()};
}

Running Handle::set_later(std::string key, channel::Place place, std::vector<std::byte> copy, Nanoseconds by) {
	const auto [entry, fresh] = setting_.insert(key);
	check(fresh, "the SETs of one key wait for each other");
	const std::size_t size = place.buffer ? place.length : copy.size();
	Load& load = loads_[std::string(router->server_of(key))];
	++load.operations;
	load.bytes += size;
	const Bytes value = copy;
	Call call = place.buffer ? router->set(key, std::move(place)) : router->set(key, value);
	call.by(by);
	const auto done = co_await call;
	if (!done && !first_error_) {
		const int code = fail(done.error(), key);
		first_error_ = {code, last_error};
	}
	--load.operations;
	load.bytes -= size;
	setting_.erase(key);
}

// Waits for an asynchronous SET of this key, so that operations on one key keep their order. It has
// a deadline of its own.
void Handle::wait_for(std::string_view key) {
	if (setting_.empty()) return;
	const std::string name(key);
	loop().run_until([&] { return !setting_.contains(name); });
}

int Handle::flush() {
	loop().run_until([&] { return setting_.empty(); });
	const auto error = std::exchange(first_error_, std::nullopt);
	if (!error) return KV_OK;
	last_error = error->second;
	return error->first;
}

int Handle::get(std::string_view key, char** value, std::size_t* length, unsigned long long* version) {
	const Nanoseconds by = deadline();
	wait_for(key);
	Submission operation(*router, {.key = key, .versioned = version != nullptr});
	const Result<void> done = run(operation, by);
	if (version != nullptr) *version = done ? operation.version() : 0;
	return done ? take_value(operation, value, length) : fail(done.error(), key);
}

// Gives the caller the value of a GET.
int Handle::take_value(Submission& operation, char** value, std::size_t* length) {
	Fetched fetched = std::move(operation.fetched());
	const std::size_t size = fetched.size;
	// The caller may keep the value for long. A small one must not hold a block of registered
	// memory, which has 4 KiB at least.
	if (fetched.buffer && size <= inside_max) {
		fetched = copy_to_heap(fetched);
		if (!fetched.heap) return fail(Error::no_memory, operation.key());
	}
	*value = give(std::move(fetched));
	if (*value == nullptr) return fail(Error::no_memory, operation.key());
	if (length != nullptr) *length = size;
	return KV_OK;
}

char* Handle::give(Fetched fetched) {
	if (fetched.buffer) {
		std::byte* const at = fetched.data();
		new (fetched.buffer.data()) ValueHeader{.core = core};
		core->registered.emplace(at, std::move(fetched.buffer));
		return as_text(at);
	}
	if (!fetched.heap) {
		fetched.heap = channel::make_heap_block(headroom + 1);
		if (!fetched.heap) return nullptr;
		fetched.offset = headroom;
		fetched.heap.get()[headroom] = std::byte{0};
	}
	new (fetched.heap.get()) ValueHeader;
	std::byte* const at = fetched.data();
	(void)fetched.heap.release();
	return as_text(at);
}

char* Handle::alloc(std::size_t size) {
	Fetched block{.offset = headroom, .size = size};
	if (channel::RcTransport* const transport = core->session->transport(); transport != nullptr) {
		block.buffer = transport->memory().take(headroom + size + 1);
	} else {
		block.heap = channel::make_heap_block(headroom + size + 1);
	}
	if (!block.buffer && !block.heap) {
		last_error = sentence_of(Error::no_memory);
		return nullptr;
	}
	return give(std::move(block));
}

int Handle::close() {
	const int result = flush();
	loop().run_until([&] { return submitted_.under_way() == 0; });
	while (Submission* const each = submitted_.take()) finish(*each);
	watchers_.clear();
	router->close();
	loop().complete(router->until_closed());
	router.reset();
	return result;
}

}  // namespace verbena::kv
