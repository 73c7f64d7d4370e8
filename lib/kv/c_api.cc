// SPDX-License-Identifier: Apache-2.0
// The functions of verbena/kv.h: they check arguments, take the lock of this thread's lane and call
// its Handle.
#include "lib/include/verbena/kv.h"

#include <algorithm>
#include <cstring>

#include "lib/kv/lanes.h"

namespace verbena::kv {
namespace {

thread_local std::string open_error;  // for kv_last_error(NULL)

// Sets the text of kv_last_error(NULL) and returns `result`.
int fail_open(int result, std::string sentence) {
	open_error = std::move(sentence);
	return result;
}

Lanes& lanes_of(void* handle) { return *static_cast<Lanes*>(handle); }

// Runs `work` on this lane, under its lock.
template <class Work> int on(Handle& of, Work work) {
	const std::lock_guard guard(of.core->lock);
	// The deadlines of what begins now count from now, and not from the last call.
	of.core->session->loop().update_now();
	const int result = work(of);
	of.arm();
	return result;
}
int fail(Handle& handle, const char* sentence) {
	handle.last_error = sentence;
	return KV_INVALID;
}
// The same for this thread's lane of the handle; for kv_last_error(NULL) if the handle is NULL.
int refuse(void* handle, const char* sentence) {
	if (handle == nullptr) return fail_open(KV_INVALID, sentence);
	Handle& mine = lanes_of(handle).mine();
	const std::lock_guard guard(mine.core->lock);
	return fail(mine, sentence);
}

// Runs `work` on this thread's lane of the handle.
template <class Work> int on(void* handle, Work work) {
	return handle == nullptr ? refuse(handle, "the handle is NULL") : on(lanes_of(handle).mine(), work);
}

Bytes bytes_at(const void* at, std::size_t length) { return {static_cast<const std::byte*>(at), length}; }
std::string_view text_at(const void* at, std::size_t length) { return {static_cast<const char*>(at), length}; }
std::string_view text_at(const char* at) { return at; }

}  // namespace
}  // namespace verbena::kv

using namespace verbena::kv;

extern "C" {

int kv_open(const char* servername, void** kv_handle) { return kv_open_with(servername, nullptr, kv_handle); }

int kv_open_with(const char* servername, const kv_options* options, void** kv_handle) {
	if (servername == nullptr || kv_handle == nullptr)
		return refuse(nullptr, "kv_open: servername or kv_handle is NULL");
	*kv_handle = nullptr;
	kv_options wanted{};
	if (options != nullptr) {
		if (options->size < sizeof options->size || options->size > sizeof wanted)
			return fail_open(
				KV_INVALID, "kv_options.size is not sizeof(struct kv_options) of this version or an earlier one");
		std::memcpy(&wanted, options, options->size);
	}
	auto opened = Lanes::open(servername, wanted);
	if (!opened) return fail_open(opened.error().result, std::move(opened.error().sentence));
	*kv_handle = opened->release();
	return KV_OK;
}

int kv_set(void* kv_handle, const char* key, const char* value) {
	if (key == nullptr || value == nullptr) return refuse(kv_handle, "kv_set: key or value is NULL");
	return on(kv_handle, [&](Handle& handle) { return handle.set(text_at(key), bytes_of(text_at(value))); });
}

int kv_get(void* kv_handle, const char* key, char** value) {
	if (key == nullptr || value == nullptr) return refuse(kv_handle, "kv_get: key or value is NULL");
	*value = nullptr;
	return on(kv_handle, [&](Handle& handle) {
		const int result = handle.get(text_at(key), value, nullptr);
		if (result != KV_MISSING) return result;
		*value = handle.give({});
		return *value == nullptr ? int{KV_NO_MEMORY} : int{KV_OK};
	});
}

void kv_release(char* value) {
	if (value == nullptr) return;
	auto* const header = reinterpret_cast<ValueHeader*>(value - headroom);
	verbena::check(header->magic == ValueHeader::magic_number,
		"kv_release: the pointer is no value of kv_get, kv_getn or kv_alloc, or was released before");
	header->magic = 0;
	const std::shared_ptr<Core> core = std::move(header->core);
	header->~ValueHeader();
	if (!core) return std::free(header);
	const std::lock_guard guard(core->lock);
	core->registered.erase(value);
}

int kv_close(void* kv_handle) {
	if (kv_handle == nullptr) return refuse(nullptr, "kv_close: the handle is NULL");
	const std::unique_ptr<Lanes> lanes(&lanes_of(kv_handle));
	int result = KV_OK;
	for (const auto& lane : lanes->all()) {
		const std::lock_guard guard(lane->core->lock);
		const int closed = lane->close();
		if (result == KV_OK) result = closed;
	}
	return result;
}

int kv_setn(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length) {
	if (key == nullptr || (value == nullptr && value_length > 0))
		return refuse(kv_handle, "kv_setn: key or value is NULL");
	return on(
		kv_handle, [&](Handle& handle) { return handle.set(text_at(key, key_length), bytes_at(value, value_length)); });
}

int kv_getn(void* kv_handle, const void* key, size_t key_length, char** value, size_t* value_length) {
	if (key == nullptr || value == nullptr || value_length == nullptr)
		return refuse(kv_handle, "kv_getn: key, value or value_length is NULL");
	*value = nullptr;
	*value_length = 0;
	return on(kv_handle, [&](Handle& handle) { return handle.get(text_at(key, key_length), value, value_length); });
}

int kv_get_version(void* kv_handle, const void* key, size_t key_length, char** value, size_t* value_length,
	unsigned long long* version) {
	if (key == nullptr || value == nullptr || value_length == nullptr || version == nullptr)
		return refuse(kv_handle, "kv_get_version: key, value, value_length or version is NULL");
	*value = nullptr;
	*value_length = 0;
	return on(
		kv_handle, [&](Handle& handle) { return handle.get(text_at(key, key_length), value, value_length, version); });
}

int kv_cas(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length,
	unsigned long long* version) {
	if (key == nullptr || (value == nullptr && value_length > 0) || version == nullptr)
		return refuse(kv_handle, "kv_cas: key, value or version is NULL");
	if (*version == any_version) return refuse(kv_handle, no_version);
	return on(kv_handle, [&](Handle& handle) {
		return handle.set_if(text_at(key, key_length), bytes_at(value, value_length), *version);
	});
}

int kv_del_if(void* kv_handle, const void* key, size_t key_length, unsigned long long* version) {
	if (key == nullptr || version == nullptr) return refuse(kv_handle, "kv_del_if: key or version is NULL");
	if (*version == any_version) return refuse(kv_handle, no_version);
	return on(kv_handle, [&](Handle& handle) { return handle.remove_if(text_at(key, key_length), *version); });
}

int kv_delete(void* kv_handle, const char* key) {
	if (key == nullptr) return refuse(kv_handle, "kv_delete: key is NULL");
	return on(kv_handle, [&](Handle& handle) { return handle.remove(text_at(key)); });
}

int kv_deleten(void* kv_handle, const void* key, size_t key_length) {
	if (key == nullptr) return refuse(kv_handle, "kv_deleten: key is NULL");
	return on(kv_handle, [&](Handle& handle) { return handle.remove(text_at(key, key_length)); });
}

int kv_set_async(void* kv_handle, const char* key, const char* value) {
	if (key == nullptr || value == nullptr) return refuse(kv_handle, "kv_set_async: key or value is NULL");
	return on(kv_handle, [&](Handle& handle) { return handle.set_async(text_at(key), bytes_of(text_at(value))); });
}

int kv_setn_async(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length) {
	if (key == nullptr || (value == nullptr && value_length > 0))
		return refuse(kv_handle, "kv_setn_async: key or value is NULL");
	return on(kv_handle,
		[&](Handle& handle) { return handle.set_async(text_at(key, key_length), bytes_at(value, value_length)); });
}

int kv_submit(void* kv_handle, kv_op* ops, int n) {
	return on(kv_handle, [&](Handle& handle) {
		const Ops all{.first = ops, .count = n};
		const char* const fault = all.fault();
		return fault == nullptr ? handle.submit(all) : fail(handle, fault);
	});
}

int kv_wait(void* kv_handle, kv_op** done, int max, int min, int timeout_ms) {
	if (max < 0 || min < 0 || (done == nullptr && max > 0))
		return refuse(kv_handle, "kv_wait: max or min is negative, or done is NULL");
	return on(kv_handle, [&](Handle& handle) { return handle.wait(done, max, min, timeout_ms); });
}

int kv_do(void* kv_handle, kv_op* ops, int n) {
	return on(kv_handle, [&](Handle& handle) {
		const Ops all{.first = ops, .count = n};
		const char* const fault = all.fault();
		return fault == nullptr ? handle.do_all(all) : fail(handle, fault);
	});
}

int kv_mget(void* kv_handle, kv_op* ops, int n) {
	const Ops all{.first = ops, .count = n};
	const int good = all.fault() == nullptr ? n : 0;
	for (int i = 0; i < good; ++i) all[i].kind = KV_OP_GET;
	return kv_do(kv_handle, ops, n);
}

int kv_fd(void* kv_handle) {
	return on(kv_handle, [](Handle& handle) { return handle.descriptor(); });
}

int kv_scan(void* kv_handle, kv_cursor* cursor, const void* prefix, size_t prefix_length, size_t keys_max,
	kv_key** keys, size_t* count) {
	if (cursor == nullptr || keys == nullptr || count == nullptr || (prefix == nullptr && prefix_length > 0))
		return refuse(kv_handle, "kv_scan: cursor, keys, count or prefix is NULL");
	*keys = nullptr;
	*count = 0;
	const auto most = static_cast<std::uint32_t>(std::min<std::size_t>(keys_max, UINT32_MAX));
	return on(kv_handle, [&](Handle& handle) {
		return cursor->done == 0 ? handle.scan(*cursor, text_at(prefix, prefix_length), most, keys, count)
								 : fail(handle, "the walk is done; a cursor of zeros begins another one");
	});
}

int kv_watch(void* kv_handle, const void* key, size_t key_length, unsigned flags, kv_watcher** watcher) {
	if (watcher == nullptr || (key == nullptr && key_length > 0))
		return refuse(kv_handle, "kv_watch: watcher or key is NULL");
	*watcher = nullptr;
	return on(kv_handle, [&](Handle& handle) {
		if ((flags & ~unsigned{KV_WATCH_PREFIX}) != 0)
			return fail(handle, "kv_watch: a flag that this version does not know");
		return handle.watch(
			text_at(key, key_length), (flags & KV_WATCH_PREFIX) != 0 ? Scope::prefix : Scope::key, watcher);
	});
}

int kv_next_events(kv_watcher* watcher, const kv_event** events, size_t* count, int timeout_ms) {
	if (watcher == nullptr || events == nullptr || count == nullptr)
		return refuse(nullptr, "kv_next_events: watcher, events or count is NULL");
	return on(watcher->handle, [&](Handle& handle) { return handle.next_events(*watcher, events, count, timeout_ms); });
}

int kv_unwatch(kv_watcher* watcher) {
	if (watcher == nullptr) return refuse(nullptr, "kv_unwatch: watcher is NULL");
	return on(watcher->handle, [&](Handle& handle) {
		handle.unwatch(*watcher);
		return int{KV_OK};
	});
}

int kv_flush(void* kv_handle) {
	return on(kv_handle, [](Handle& handle) { return handle.flush(); });
}

char* kv_alloc(void* kv_handle, size_t size) {
	if (kv_handle == nullptr || size > value_max) return nullptr;
	Handle& handle = lanes_of(kv_handle).mine();
	const std::lock_guard guard(handle.core->lock);
	return handle.alloc(size);
}

const char* kv_last_error(void* kv_handle) {
	if (kv_handle == nullptr) return open_error.c_str();
	// Each thread has its own copy, which a failing call of another thread does not change.
	thread_local std::string told;
	const Handle& of = lanes_of(kv_handle).mine();
	const std::lock_guard guard(of.core->lock);
	told = of.last_error;
	return told.c_str();
}

const char* kv_strerror(int result) {
	switch (result) {
		case KV_OK: return "done";
		case KV_MISSING: return "there is no such key";
		case KV_EMPTY_KEY: return "the key is empty";
		case KV_LONG_KEY: return "the key is longer than 4096 bytes";
		case KV_LONG_VALUE: return "the value is longer than the server takes";
		case KV_FULL: return "the store is full";
		case KV_UNSUPPORTED: return "rendezvous needs an RDMA connection";
		case KV_NO_MEMORY: return "this process has no memory left for the value";
		case KV_LOST: return "the connection is lost";
		case KV_UNREACHABLE: return "the server cannot be reached";
		case KV_UNAVAILABLE: return "the server could not be reached in time; nothing has changed";
		case KV_CHANGED: return "the key has another version";
		case KV_DISK: return "the server could not write the change to its disk";
		case KV_TIMEOUT: return "the server did not answer in time; a change may have been made";
		case KV_INVALID: return "an argument is not valid";
		default: return "not a result of this library";
	}
}

int kv_read_counters(void* kv_handle, kv_counters* counters) {
	if (kv_handle == nullptr || counters == nullptr || counters->size < sizeof counters->size)
		return refuse(kv_handle, "kv_read_counters: counters is NULL, or its size is too small");
	ClientCounters of;
	kv_counters all{.size = counters->size};
	for (const auto& lane : lanes_of(kv_handle).all()) {
		const std::lock_guard guard(lane->core->lock);
		of += lane->router->counters();
		const RouterCounters routes = lane->router->router_counters();
		all.connects += routes.connects;
		all.retries += routes.retries;
		if (auto* const transport = lane->core->session->transport(); transport != nullptr)
			all.registrations += transport->memory().counters().registrations;
	}
	all.operations = of.operations;
	all.messages = of.records_sent + of.records_received;
	all.eager = of.eager;
	all.reads = of.reads;
	all.writes = of.writes;
	all.leased = of.leased;
	all.copied = of.copied;
	all.one_sided = of.one_sided;
	const std::size_t known = std::min(counters->size, sizeof all);
	std::memcpy(counters, &all, known);
	std::memset(reinterpret_cast<std::byte*>(counters) + known, 0, all.size - known);
	return KV_OK;
}

}  // extern "C"
