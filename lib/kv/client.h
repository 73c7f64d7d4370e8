// Client: the client's side of the key-value store, on a channel of its own; as many operations under way as the caller
// likes.
//
//     auto client = co_await Client::open(std::move(channel), {});
//     auto done = co_await (*client)->set("key", bytes);        // std::expected<void, Error>; acknowledged by the
//     server auto value = co_await (*client)->get("key");              // std::expected<Fetched, Error>
//
// An operation belongs to the coroutine that awaits it and may be abandoned there (its effect on the store is then
// unknown). Key and value must stay as they are until it is done. Operations under way together have no order among
// themselves.
//
// How a value travels: with the message when key and value are together below `eager_max`, else by rendezvous: the
// server reads a SET's value from here or, by `write`, has it written to a place that it lends; a GET's value is read
// from the server. set() of a Place sends registered memory without a copy; set() of any other memory copies it to a
// registered buffer first, if it goes by rendezvous. An empty value is always eager.
//
// With `one_sided` a GET reads what the server publishes, by RDMA READ and without a message; what is not published, or
// changes too often while it is read, is asked for as any other GET.
//
// Everything belongs to the channel's loop. The client dies after its operations and its Fetched values before the
// transport.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/heap_message.h"
#include "lib/kv/index_format.h"
#include "lib/kv/outbox.h"
#include "lib/kv/running.h"

namespace verbena::kv {

enum class Error : std::uint8_t {
	missing,  // there is no such key
	empty_key,
	long_key,
	long_value,
	full,  // the store has no room for it
	unsupported,  // rendezvous over a channel that is not direct
	no_memory,  // no registered memory left on this side
	lost,  // the connection; whether the store has changed is not known
};
// One sentence, with what to do.
std::string_view sentence_of(Error error);

enum class Form : std::uint8_t { read, write };  // of a SET by rendezvous: the server's READ or the client's WRITE

struct ClientOptions {
	Protocol protocol = Protocol::automatic;
	Form form = Form::read;
	std::uint32_t eager_max = 0;  // 0: the server's
	std::uint32_t message_max = 8192;  // of several records together
	std::size_t headroom = 0;  // bytes in front of every fetched value, for the caller
	bool one_sided = false;  // GETs; open() fails if the server publishes nothing
};

struct ClientCounters {
	std::uint64_t operations = 0;
	std::uint64_t records_sent = 0, records_received = 0;  // requests, answers, and what else is said about them
	std::uint64_t eager = 0, reads = 0, writes = 0, lent = 0;
	std::uint64_t one_sided = 0, one_sided_torn = 0,
				  one_sided_asked = 0;  // GETs so; READs that were repeated; GETs that had to ask
	std::uint64_t copied = 0;  // SETs by rendezvous whose value was copied first
	std::uint64_t releases_alone = 0;  // releases that no request was there to carry
	std::uint32_t under_way_max = 0;

	ClientCounters& operator+=(const ClientCounters& other) {
		for (const auto each :
			{&ClientCounters::operations, &ClientCounters::records_sent, &ClientCounters::records_received,
				&ClientCounters::eager, &ClientCounters::reads, &ClientCounters::writes, &ClientCounters::lent,
				&ClientCounters::one_sided, &ClientCounters::one_sided_torn, &ClientCounters::one_sided_asked,
				&ClientCounters::copied, &ClientCounters::releases_alone})
			this->*each += other.*each;
		under_way_max = std::max(under_way_max, other.under_way_max);
		return *this;
	}
};

// A value that was fetched, with a NUL behind it that does not count.
struct Fetched {
	// Where it lies, if it was read from the server: a block of registered memory, at least 4 KiB, to be given back
	// soon.
	channel::Buffer buffer;
	channel::HeapBlock heap;  // or else
	std::size_t offset = 0;  // behind the headroom
	std::size_t size = 0;

	std::byte* data() const { return (buffer ? buffer.data() : heap.get()) + offset; }
	Bytes bytes() const { return {data(), size}; }
};

class Client final : private async::Timer, private async::TurnEnd {
public:
	class Call;
	class Getting;
	template <class T> using Result = std::expected<T, Error>;

	// Exchanges greetings, until the deadline. The error is one sentence.
	static async::Task<std::expected<std::unique_ptr<Client>, std::string>> open(
		std::unique_ptr<channel::Channel> channel, ClientOptions options, Nanoseconds deadline = never);
	~Client();

	Call set(std::string_view key, Bytes value);
	Call set(std::string_view key, channel::Place value);
	Getting get(std::string_view key);
	Call remove(std::string_view key);

	// Everything that is under way fails with `lost`, unless it is answered before.
	void close() { channel_->close(); }

	// How a SET of so many bytes leaves.
	bool is_eager(std::size_t key, std::size_t value) const;
	channel::Channel& channel() const { return *channel_; }
	const Hello& server() const { return server_; }
	const ClientOptions& options() const { return options_; }
	ClientOptions& options() { return options_; }
	const ClientCounters& counters() const { return counters_; }
	void reset_depth() { counters_.under_way_max = under_way_; }
	// Operations that wait for their answer.
	std::uint32_t under_way() const { return under_way_; }
	bool lost() const { return lost_; }
	// One sentence, once lost.
	std::string why_lost() const;

private:
	friend class Running;
	struct Slot {
		Call* call = nullptr;  // null while it waits for the answer to an abandoned one
		std::uint32_t generation = 0;
		bool in_use = false;
		channel::Lease lease;  // of what a SET lends
		channel::Place source;  // what it writes, if its caller is gone
	};

	struct Published {
		RemoteMemory area;
		IndexShape shape;
	};
	static async::Task<std::expected<Published, std::string>> borrow_index(channel::Channel& channel);
	Client(std::unique_ptr<channel::Channel> channel, const ClientOptions& options, const Hello& server,
		const Published& published);

	void start(Call& call);
	void submit(Call& call);
	void submit_eager(Call& call, Operation operation);
	Running set_by_read(std::uint32_t number, channel::Place place, std::string key);
	Running write_value(std::uint32_t number, RemoteMemory to);
	Running read_value(std::uint32_t number, std::uint32_t lease, RemoteMemory from);
	Running read_published(std::uint32_t number);
	void deliver_published(std::uint32_t number, channel::Buffer buffer, std::size_t offset, std::size_t size);
	bool goes_on(std::uint32_t number, bool good);
	std::byte* put_request(RequestHeader header, std::string_view key, std::size_t more);
	std::uint32_t take_slot(Call& call);
	Slot* slot_of(std::uint32_t number);
	void finish(Slot& slot, std::optional<Error> error);
	void forget(Call& call);
	async::Task<void> receive();
	bool handle(const Answer& answer);
	void deliver_eager(Call& call, Bytes value);
	void fail_all();
	void release(std::uint32_t lease);
	void expire() override;
	void turn_ends() override;

	std::unique_ptr<channel::Channel> channel_;
	ClientOptions options_;
	Hello server_;
	Published published_;
	std::uint32_t eager_max_;
	Outbox outbox_;
	std::vector<Slot> slots_;
	std::vector<std::uint32_t> free_slots_;
	std::uint32_t under_way_ = 0;
	async::List<async::Waiter> waiting_;  // for a slot
	std::vector<std::uint32_t> releases_;
	std::uint64_t records_seen_ = 0;  // sent when they were looked at last
	bool lost_ = false;
	std::string breach_;
	ClientCounters counters_;
	async::Job reader_;
	Coroutines coroutines_;
};

// An operation in progress: lives in the caller's coroutine frame.
class Client::Call : public async::Waiter {
public:
	enum class Kind : std::uint8_t { get, set, remove };
	Call(Client& client, Kind kind, std::string_view key, Bytes value, channel::Place place)
		: client_(client), kind_(kind), key_(key), value_(value), place_(std::move(place)) {}
	Call(const Call&) = delete;
	Call& operator=(const Call&) = delete;
	~Call() { client_.forget(*this); }

	bool await_ready() {
		client_.start(*this);
		return done_;
	}
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		suspended_ = true;
		if (!submitted_) client_.waiting_.push_back(*this);
	}
	Result<void> await_resume() const {
		if (error_) return std::unexpected(*error_);
		return {};
	}

protected:
	friend class Client;
	Client& client_;
	Kind kind_;
	bool submitted_ = false, suspended_ = false, done_ = false;
	std::uint32_t number_ = 0;
	std::string_view key_;
	Bytes value_;
	channel::Place place_;
	std::optional<Error> error_;
	Fetched fetched_;
};

class Client::Getting : public Call {
public:
	using Call::Call;
	Result<Fetched> await_resume() {
		if (error_) return std::unexpected(*error_);
		return std::move(fetched_);
	}
};

inline Client::Call Client::set(std::string_view key, Bytes value) { return {*this, Call::Kind::set, key, value, {}}; }
inline Client::Call Client::set(std::string_view key, channel::Place value) {
	const Bytes bytes = value.bytes();
	return {*this, Call::Kind::set, key, bytes, std::move(value)};
}
inline Client::Getting Client::get(std::string_view key) { return {*this, Call::Kind::get, key, {}, {}}; }
inline Client::Call Client::remove(std::string_view key) { return {*this, Call::Kind::remove, key, {}, {}}; }

}  // namespace verbena::kv
