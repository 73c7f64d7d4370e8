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

// After any other error the caller's version stays, for another attempt.
Result<void> take_version(const Result<std::uint64_t>& done, const Conditional& call, unsigned long long& version) {
	if (done || done.error() == Error::changed) version = call.version();
	if (!done) return std::unexpected(done.error());
	return {};
}

}  // namespace

bool Handle::Load::takes(std::size_t more) const {
	return operations < operations_under_way_max && (bytes == 0 || bytes + more <= bytes_under_way_max);
}

int Handle::fail(Error error, std::string_view key) {
	last_error = sentence_of(error);
	const bool of_server = error == Error::lost || error == Error::unavailable || error == Error::timeout;
	if (of_server && !router->reason(key).empty()) last_error += ": " + router->reason(key);
	switch (error) {
		case Error::missing: return KV_MISSING;
		case Error::empty_key: return KV_EMPTY_KEY;
		case Error::long_key: return KV_LONG_KEY;
		case Error::long_value: return KV_LONG_VALUE;
		case Error::full: return KV_FULL;
		case Error::changed: return KV_CHANGED;
		case Error::disk: return KV_DISK;
		case Error::unsupported:
		case Error::old_server: return KV_UNSUPPORTED;
		case Error::no_memory: return KV_NO_MEMORY;
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

int Handle::set(std::string_view key, Bytes value) {
	const Nanoseconds by = deadline();
	wait_for(key);
	Result<void> done;
	loop().complete([](Router& router, std::string_view key, Bytes value, channel::Place place, Nanoseconds by,
						Result<void>& done) -> async::Task<void> {
		if (place.buffer) {
			Call call = router.set(key, std::move(place));
			call.by(by);
			done = co_await call;
		} else {
			Call call = router.set(key, value);
			call.by(by);
			done = co_await call;
		}
	}(*router, key, value, place_of(value), by, done));
	return result_of(done, key);
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
	Result<Fetched> fetched;
	loop().complete([](Router& router, std::string_view key, bool versioned, Nanoseconds by,
						Result<Fetched>& fetched) -> async::Task<void> {
		Getting call = versioned ? router.get_versioned(key) : router.get(key);
		call.by(by);
		fetched = co_await call;
	}(*router, key, version != nullptr, by, fetched));
	if (version != nullptr) *version = fetched ? fetched->version : 0;
	if (!fetched) return fail(fetched.error(), key);
	// The caller may keep the value for long. A small one must not hold a block of registered
	// memory, which has 4 KiB at least.
	if (fetched->buffer && fetched->size <= inside_max) {
		*fetched = copy_to_heap(*fetched);
		if (!fetched->heap) return fail(Error::no_memory, key);
	}
	if (length != nullptr) *length = fetched->size;
	*value = give(std::move(*fetched));
	return *value == nullptr ? fail(Error::no_memory, key) : KV_OK;
}

int Handle::remove(std::string_view key) {
	const Nanoseconds by = deadline();
	wait_for(key);
	Result<void> done;
	loop().complete([](Router& router, std::string_view key, Nanoseconds by, Result<void>& done) -> async::Task<void> {
		Call call = router.remove(key);
		call.by(by);
		done = co_await call;
	}(*router, key, by, done));
	return result_of(done, key);
}

int Handle::set_if(std::string_view key, Bytes value, unsigned long long& version) {
	const Nanoseconds by = deadline();
	wait_for(key);
	Result<void> done;
	loop().complete([](Router& router, std::string_view key, Bytes value, channel::Place place, Nanoseconds by,
						unsigned long long& version, Result<void>& done) -> async::Task<void> {
		Conditional call =
			place.buffer ? router.set_if(key, std::move(place), version) : router.set_if(key, value, version);
		call.by(by);
		const auto made = co_await call;
		done = take_version(made, call, version);
	}(*router, key, value, place_of(value), by, version, done));
	return result_of(done, key);
}

int Handle::remove_if(std::string_view key, unsigned long long& version) {
	const Nanoseconds by = deadline();
	wait_for(key);
	Result<void> done;
	loop().complete([](Router& router, std::string_view key, Nanoseconds by, unsigned long long& version,
						Result<void>& done) -> async::Task<void> {
		Conditional call = router.remove_if(key, version);
		call.by(by);
		const auto made = co_await call;
		done = take_version(made, call, version);
	}(*router, key, by, version, done));
	return result_of(done, key);
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
	router->close();
	loop().complete(router->until_closed());
	router.reset();
	return result;
}

}  // namespace verbena::kv
