// SPDX-License-Identifier: Apache-2.0
// The functions of verbena/kv.h: they check arguments, take the handle's lock and call the Handle.
#include "lib/include/verbena/kv.h"

#include <algorithm>
#include <cstring>

#include "lib/kv/handle.h"

namespace verbena::kv {
namespace {

thread_local std::string open_error;  // for kv_last_error(NULL)

// Sets the text of kv_last_error(NULL) and returns `result`.
int fail_open(int result, std::string sentence) {
	open_error = std::move(sentence);
	return result;
}

int open(const char* server, const kv_options& wanted, void** handle) {
	const auto text = [](const char* given, const char* otherwise = "") {
		return std::string(given == nullptr ? otherwise : given);
	};
	ClientOptions client{.eager_max = static_cast<std::uint32_t>(std::min<std::size_t>(wanted.eager_max, value_max)),
		.headroom = headroom,
		.one_sided = wanted.one_sided != 0};
	const std::string transport = text(wanted.transport, "rdma"), protocol = text(wanted.protocol, "auto"),
					  form = text(wanted.rendezvous, "read");
	if (transport != "rdma" && transport != "tcp")
		return fail_open(KV_INVALID, "the transport is rdma or tcp, not " + transport);
	if (protocol == "eager") client.protocol = Protocol::eager;
	else if (protocol == "rndv") client.protocol = Protocol::rendezvous;
	else if (protocol != "auto") return fail_open(KV_INVALID, "the protocol is auto, eager or rndv, not " + protocol);
	if (form == "write") client.form = Form::write;
	else if (form != "read") return fail_open(KV_INVALID, "the form of rendezvous is read or write, not " + form);

	const auto trust = channel::choose_trust({.ca = text(wanted.ca),
												 .certificate = text(wanted.certificate),
												 .key = text(wanted.key),
												 .insecure = wanted.insecure != 0},
		channel::trust_environment());
	if (!trust) return fail_open(KV_INVALID, trust.error());
	auto protection = channel::make_client_protection(*trust);
	if (!protection) return fail_open(KV_INVALID, protection.error());
	const RouterOptions usual;
	const Nanoseconds timeout = wanted.timeout_ms == 0 ? usual.timeout
		: wanted.timeout_ms < 0                        ? never
													   : static_cast<Nanoseconds>(wanted.timeout_ms) * 1'000'000;
	auto core = std::make_shared<Core>();
	auto session = Session::open({.host = server,
		.port = port_default,
		.protection = std::move(*protection),
		.device = text(wanted.device),
		.tcp = transport == "tcp",
		.settings = {.rx_depth = 128,
			.tx_depth = 64,
			.eager_max = client.eager_max > 0 ? client.eager_max : eager_max_default}});
	if (!session) return fail_open(KV_UNREACHABLE, session.error());
	core->session = std::move(*session);
	auto router = Router::open_now(*core->session, client, {.timeout = timeout, .retry = wanted.no_retry == 0});
	if (!router) return fail_open(KV_UNREACHABLE, router.error());
	*handle = std::make_unique<Handle>(std::move(core), std::move(*router)).release();
	return KV_OK;
}

// Runs `work` under the handle's lock.
template <class Work> int on(void* handle, Work work) {
	if (handle == nullptr) return KV_INVALID;
	auto& of = *static_cast<Handle*>(handle);
	const std::lock_guard guard(of.core->lock);
	return work(of);
}

Bytes bytes_at(const void* at, std::size_t length) { return {static_cast<const std::byte*>(at), length}; }
std::string_view text_at(const void* at, std::size_t length) { return {static_cast<const char*>(at), length}; }
std::string_view text_at(const char* at) { return at; }

}  // namespace
}  // namespace verbena::kv

using namespace verbena::kv;

extern "C" {

int kv_open(char* servername, void** kv_handle) { return kv_open_with(servername, nullptr, kv_handle); }

int kv_open_with(char* servername, const kv_options* options, void** kv_handle) {
	if (servername == nullptr || kv_handle == nullptr) return KV_INVALID;
	*kv_handle = nullptr;
	kv_options wanted{};
	if (options != nullptr) {
		if (options->size < sizeof options->size || options->size > sizeof wanted)
			return fail_open(
				KV_INVALID, "kv_options.size is not sizeof(struct kv_options) of this version or an earlier one");
		std::memcpy(&wanted, options, options->size);
	}
	return open(servername, wanted, kv_handle);
}

int kv_set(void* kv_handle, const char* key, const char* value) {
	if (key == nullptr || value == nullptr) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) { return handle.set(text_at(key), bytes_of(text_at(value))); });
}

int kv_get(void* kv_handle, const char* key, char** value) {
	if (key == nullptr || value == nullptr) return KV_INVALID;
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
	if (kv_handle == nullptr) return KV_INVALID;
	const std::unique_ptr<Handle> handle(static_cast<Handle*>(kv_handle));
	const std::shared_ptr<Core> core = handle->core;
	const std::lock_guard guard(core->lock);
	return handle->close();
}

int kv_setn(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length) {
	if (key == nullptr || (value == nullptr && value_length > 0)) return KV_INVALID;
	return on(
		kv_handle, [&](Handle& handle) { return handle.set(text_at(key, key_length), bytes_at(value, value_length)); });
}

int kv_getn(void* kv_handle, const void* key, size_t key_length, char** value, size_t* value_length) {
	if (key == nullptr || value == nullptr || value_length == nullptr) return KV_INVALID;
	*value = nullptr;
	*value_length = 0;
	return on(kv_handle, [&](Handle& handle) { return handle.get(text_at(key, key_length), value, value_length); });
}

int kv_get_version(void* kv_handle, const void* key, size_t key_length, char** value, size_t* value_length,
	unsigned long long* version) {
	if (key == nullptr || value == nullptr || value_length == nullptr || version == nullptr) return KV_INVALID;
	*value = nullptr;
	*value_length = 0;
	return on(
		kv_handle, [&](Handle& handle) { return handle.get(text_at(key, key_length), value, value_length, version); });
}

int kv_cas(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length,
	unsigned long long* version) {
	if (key == nullptr || (value == nullptr && value_length > 0) || version == nullptr) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) {
		return handle.set_if(text_at(key, key_length), bytes_at(value, value_length), *version);
	});
}

int kv_del_if(void* kv_handle, const void* key, size_t key_length, unsigned long long* version) {
	if (key == nullptr || version == nullptr) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) { return handle.remove_if(text_at(key, key_length), *version); });
}

int kv_delete(void* kv_handle, const char* key) {
	if (key == nullptr) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) { return handle.remove(text_at(key)); });
}

int kv_deleten(void* kv_handle, const void* key, size_t key_length) {
	if (key == nullptr) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) { return handle.remove(text_at(key, key_length)); });
}

int kv_set_async(void* kv_handle, const char* key, const char* value) {
	if (key == nullptr || value == nullptr) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) { return handle.set_async(text_at(key), bytes_of(text_at(value))); });
}

int kv_setn_async(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length) {
	if (key == nullptr || (value == nullptr && value_length > 0)) return KV_INVALID;
	return on(kv_handle,
		[&](Handle& handle) { return handle.set_async(text_at(key, key_length), bytes_at(value, value_length)); });
}

int kv_flush(void* kv_handle) {
	return on(kv_handle, [](Handle& handle) { return handle.flush(); });
}

char* kv_alloc(void* kv_handle, size_t size) {
	if (kv_handle == nullptr || size > value_max) return nullptr;
	auto& handle = *static_cast<Handle*>(kv_handle);
	const std::lock_guard guard(handle.core->lock);
	return handle.alloc(size);
}

const char* kv_last_error(void* kv_handle) {
	if (kv_handle == nullptr) return open_error.c_str();
	// Each thread has its own copy, which a failing call of another thread does not change.
	thread_local std::string told;
	const auto& of = *static_cast<Handle*>(kv_handle);
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
	if (counters == nullptr || counters->size < sizeof counters->size) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) {
		const ClientCounters of = handle.router->counters();
		const RouterCounters routes = handle.router->router_counters();
		verbena::channel::RcTransport* const transport = handle.core->session->transport();
		const kv_counters all{.size = counters->size,
			.operations = of.operations,
			.messages = of.records_sent + of.records_received,
			.eager = of.eager,
			.reads = of.reads,
			.writes = of.writes,
			.leased = of.leased,
			.copied = of.copied,
			.registrations = transport == nullptr ? 0 : transport->memory().counters().registrations,
			.one_sided = of.one_sided,
			.connects = routes.connects,
			.retries = routes.retries};
		const std::size_t known = std::min(counters->size, sizeof all);
		std::memcpy(counters, &all, known);
		std::memset(reinterpret_cast<std::byte*>(counters) + known, 0, all.size - known);
		return int{KV_OK};
	});
}

}  // extern "C"
