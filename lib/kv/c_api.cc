// The C interface (verbena/kv.h): each handle has one Session and its Shards.
//
// Threads: a call holds its handle's lock and runs the session's loop until its operation is done.
// Owns: a Core belongs to its handle and to all values in registered memory that are not released.
#include "lib/include/verbena/kv.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <unordered_set>

#include "lib/kv/shards.h"

namespace verbena::kv {
namespace {

// The part of a handle that outlives it: values that are not released lie in the session's memory.
struct Core {
	std::mutex lock;
	std::unique_ptr<Session> session;
	// The caller's values in registered memory, by the address at which the value begins.
	std::unordered_map<const void*, channel::Buffer> registered;
};

// Precedes each value that the caller owns, in its headroom. kv_release() finds it there.
struct ValueHeader {
	static constexpr std::uint64_t magic_number = 0x7665'7262'656e'6176;
	std::uint64_t magic = magic_number;
	std::shared_ptr<Core> core;  // null: the value lies on the heap
};
constexpr std::size_t headroom = 64;
static_assert(sizeof(ValueHeader) <= headroom);

char* as_text(std::byte* at) { return reinterpret_cast<char*>(at); }

thread_local std::string open_error;  // for kv_last_error(NULL)

// The object behind a kv_handle. Every method but the constructor needs the core's lock.
class Handle {
public:
	explicit Handle(std::shared_ptr<Core> of) : core(std::move(of)) {}

	// Sets last_error and returns the enum kv_result. A null client means that the key's server is
	// not reached.
	int fail(Error error, const Client* client) {
		last_error = sentence_of(error);
		if (client == nullptr) last_error += ": " + shards->unreachable_reason();
		else if (error == Error::lost && client->lost()) last_error += ": " + client->why_lost();
		switch (error) {
			case Error::missing: return KV_MISSING;
			case Error::empty_key: return KV_EMPTY_KEY;
			case Error::long_key: return KV_LONG_KEY;
			case Error::long_value: return KV_LONG_VALUE;
			case Error::full: return KV_FULL;
			case Error::unsupported: return KV_UNSUPPORTED;
			case Error::no_memory: return KV_NO_MEMORY;
			case Error::lost: return KV_LOST;
		}
		return KV_INVALID;
	}

	int set(std::string_view key, Bytes value);
	int set_async(std::string_view key, Bytes value);
	int get(std::string_view key, char** value, std::size_t* length);
	int remove(std::string_view key);
	int flush();
	char* alloc(std::size_t size);
	// Makes the caller the owner of a value until kv_release(); an empty Fetched yields "".
	char* give(Fetched fetched);
	static Fetched copy_to_heap(const Fetched& fetched);
	int close();

	std::shared_ptr<Core> core;
	std::unique_ptr<Shards> shards;
	std::string last_error;

private:
	friend class verbena::kv::Running;
	static constexpr std::size_t bytes_under_way_max = 256 << 20, operations_under_way_max = 1024;

	async::Loop& loop() { return core->session->loop(); }
	// Returns the client of the key's server, or null if that is not reached. Adapts to a change of
	// the members first.
	Client* client_of(std::string_view key) {
		if (shards->changed()) loop().complete(shards->settle());
		return shards->at(key);
	}
	int result_of(const std::expected<void, Error>& done, const Client* client) {
		return done ? KV_OK : fail(done.error(), client);
	}
	channel::Place place_of(Bytes value) const;
	void wait_for(std::string_view key);
	Running set_later(Client& client, std::string key, Bytes value, std::vector<std::byte> copy);

	std::unordered_set<std::string> setting_;  // keys of asynchronous SETs under way
	std::size_t bytes_under_way_ = 0;  // the length of their values
	// The first asynchronous SET that failed since the last flush(): code and sentence.
	std::optional<std::pair<int, std::string>> first_error_;
	Coroutines coroutines_;
};

// Returns the value's place if it begins a block of kv_alloc() or kv_getn(); else an empty place.
channel::Place Handle::place_of(Bytes value) const {
	const auto found = core->registered.find(value.data());
	if (found == core->registered.end() || headroom + value.size() > found->second.size()) return {};
	return {found->second, headroom, value.size()};
}

int Handle::set(std::string_view key, Bytes value) {
	wait_for(key);
	Client* const client = client_of(key);
	if (client == nullptr) return fail(Error::lost, client);
	std::expected<void, Error> done;
	loop().complete([](Client& client, std::string_view key, Bytes value, channel::Place place,
						std::expected<void, Error>& done) -> async::Task<void> {
		if (place.buffer) done = co_await client.set(key, std::move(place));
		else done = co_await client.set(key, value);
	}(*client, key, value, place_of(value), done));
	return result_of(done, client);
}

int Handle::set_async(std::string_view key, Bytes value) {
	wait_for(key);
	Client* const client = client_of(key);
	if (client == nullptr || client->lost()) return fail(Error::lost, client);
	const auto crowded = [&] {
		return setting_.size() >= operations_under_way_max ||
			(bytes_under_way_ > 0 && bytes_under_way_ + value.size() > bytes_under_way_max);
	};
	if (crowded()) loop().run_until([&] { return !crowded(); });
	// The caller may reuse its memory when this returns. A value that goes by rendezvous is copied
	// to registered memory before set_later() first suspends; an eager one is copied here.
	std::vector<std::byte> copy;
	if (client->is_eager(key.size(), value.size())) copy.assign(value.begin(), value.end());
	set_later(*client, std::string(key), value, std::move(copy));
	return KV_OK;
}

Running Handle::set_later(Client& client, std::string key, Bytes value, std::vector<std::byte> copy) {
	if (!copy.empty()) value = copy;
	const auto [entry, fresh] = setting_.insert(key);
	check(fresh, "the SETs of one key wait for each other");
	const std::size_t size = value.size();
	bytes_under_way_ += size;
	const auto done = co_await client.set(key, value);
	if (!done && !first_error_) {
		const int code = fail(done.error(), &client);
		first_error_ = {code, last_error};
	}
	bytes_under_way_ -= size;
	setting_.erase(key);
}

// Waits for an asynchronous SET of this key, so that operations on one key keep their order.
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

int Handle::get(std::string_view key, char** value, std::size_t* length) {
	wait_for(key);
	Client* const client = client_of(key);
	if (client == nullptr) return fail(Error::lost, client);
	std::expected<Fetched, Error> fetched;
	loop().complete(
		[](Client& client, std::string_view key, std::expected<Fetched, Error>& fetched) -> async::Task<void> {
			fetched = co_await client.get(key);
		}(*client, key, fetched));
	if (!fetched) return fail(fetched.error(), client);
	// The caller may keep the value for long. A small one must not hold a block of registered
	// memory, which has 4 KiB at least.
	if (fetched->buffer && fetched->size <= inside_max) {
		*fetched = copy_to_heap(*fetched);
		if (!fetched->heap) return fail(Error::no_memory, client);
	}
	if (length != nullptr) *length = fetched->size;
	*value = give(std::move(*fetched));
	return *value == nullptr ? fail(Error::no_memory, client) : KV_OK;
}

int Handle::remove(std::string_view key) {
	wait_for(key);
	Client* const client = client_of(key);
	if (client == nullptr) return fail(Error::lost, client);
	std::expected<void, Error> done;
	loop().complete([](Client& client, std::string_view key, std::expected<void, Error>& done) -> async::Task<void> {
		done = co_await client.remove(key);
	}(*client, key, done));
	return result_of(done, client);
}

Fetched Handle::copy_to_heap(const Fetched& fetched) {
	Fetched copy{
		.heap = channel::make_heap_block(headroom + fetched.size + 1), .offset = headroom, .size = fetched.size};
	if (copy.heap) std::memcpy(copy.data(), fetched.data(), fetched.size + 1);
	return copy;
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
	shards->close();
	loop().complete(shards->until_closed());
	shards.reset();
	return result;
}

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
	auto opened = std::make_unique<Handle>(core);
	std::expected<std::unique_ptr<Shards>, std::string> connected;
	core->session->loop().complete(
		[](Session& session, ClientOptions options,
			std::expected<std::unique_ptr<Shards>, std::string>& connected) -> async::Task<void> {
			connected = co_await Shards::open(session, options);
		}(*core->session, client, connected));
	if (!connected) return fail_open(KV_UNREACHABLE, connected.error());
	opened->shards = std::move(*connected);
	*handle = opened.release();
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
		case KV_INVALID: return "an argument is not valid";
		default: return "not a result of this library";
	}
}

int kv_read_counters(void* kv_handle, kv_counters* counters) {
	if (counters == nullptr || counters->size < sizeof counters->size) return KV_INVALID;
	return on(kv_handle, [&](Handle& handle) {
		const ClientCounters of = handle.shards->counters();
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
			.one_sided = of.one_sided};
		const std::size_t known = std::min(counters->size, sizeof all);
		std::memcpy(counters, &all, known);
		std::memset(reinterpret_cast<std::byte*>(counters) + known, 0, all.size - known);
		return int{KV_OK};
	});
}

}  // extern "C"
