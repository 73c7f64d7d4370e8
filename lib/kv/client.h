// SPDX-License-Identifier: Apache-2.0
// Client: one connection of a client of the key-value store, on a channel of its own. A Router
// (router.h) has one for each server and makes it anew; programs use that.
//
//     auto client = co_await Client::open(std::move(channel), {});
//     auto done = co_await (*client)->set("key", bytes);  // std::expected<void, Error>
//     auto value = co_await (*client)->get("key");        // std::expected<Fetched, Error>
//
// Any number of operations may be under way; they have no order among themselves. A SET is done
// when the server has acknowledged it. A caller abandons an operation by destroying the coroutine
// that awaits it; the effect on the store is then unknown.
//
// A short value travels eagerly, in the message. Other values go by rendezvous, if the channel has
// RDMA. The server reads a SET's value from this process by RDMA READ or, with Form::write, this
// client writes it to the server by RDMA WRITE. This client reads a GET's value from the server by
// RDMA READ. set() of a Place sends registered memory without a copy; for rendezvous, set() of
// other memory first copies the value to a registered buffer.
//
// With `one_sided`, a GET without a version reads the published value by RDMA READ, without a
// message. If the key is not published, or changes too often while it is read, the GET asks by
// message after all.
//
// Threads: one, that of the channel's loop.
// Owns: the channel.
// Lifetime: the key and value of an operation must not change until it is done. The client must
//   outlive its operations, and the transport must outlive Fetched values.
// Errors: a failed operation returns an Error. When the connection is lost or the server breaks the
//   protocol, all operations fail with Error::lost; why_lost() has the details.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/async/job.h"
#include "lib/kv/call.h"
#include "lib/kv/index_format.h"
#include "lib/kv/outbox.h"
#include "lib/kv/running.h"
#include "lib/kv/scan_format.h"

namespace verbena::kv {

// A SET by rendezvous moves its value by the server's RDMA READ or by the client's RDMA WRITE.
enum class Form : std::uint8_t { read, write };

struct ClientOptions {
	Protocol protocol = Protocol::automatic;
	Form form = Form::read;
	// A value travels eagerly if key and value together have fewer bytes; 0: the server's limit.
	std::uint32_t eager_max = 0;
	std::uint32_t message_max = 8192;  // the most bytes of a message that has several records
	std::size_t headroom = 0;  // free bytes before each fetched value, for the caller's use
	bool one_sided = false;  // GETs are one-sided; open() fails if the server publishes nothing
	std::uint64_t id = 0;  // Hello::client; 0: changes have no ids
	bool of_cluster = false;  // the server is to be a member of a cluster, or open() fails
};

// Totals since open().
struct ClientCounters {
	std::uint64_t operations = 0;
	std::uint64_t records_sent = 0, records_received = 0;
	// `eager`: requests that are complete in one message (GETs by message, DELs, eager SETs).
	// `reads`: GETs whose value this client read by RDMA READ under a lease. `writes`: SETs whose
	// value it wrote by RDMA WRITE. `leased`: SETs for whose value the server got a lease.
	std::uint64_t eager = 0, reads = 0, writes = 0, leased = 0;
	// `one_sided`: GETs done by RDMA READ alone. `one_sided_torn`: attempts of such GETs that found
	// a line or record while it changed. `one_sided_asked`: GETs that tried one-sided first and
	// then asked by message.
	std::uint64_t one_sided = 0, one_sided_torn = 0, one_sided_asked = 0;
	std::uint64_t copied = 0;  // SETs by rendezvous whose value had to be copied first
	std::uint64_t releases_alone = 0;  // releases of leases that were sent in records of their own
	std::uint32_t under_way_max = 0;  // the most operations that were under way at once

	ClientCounters& operator+=(const ClientCounters& other) {
		for (const auto each :
			{&ClientCounters::operations, &ClientCounters::records_sent, &ClientCounters::records_received,
				&ClientCounters::eager, &ClientCounters::reads, &ClientCounters::writes, &ClientCounters::leased,
				&ClientCounters::one_sided, &ClientCounters::one_sided_torn, &ClientCounters::one_sided_asked,
				&ClientCounters::copied, &ClientCounters::releases_alone})
			this->*each += other.*each;
		under_way_max = std::max(under_way_max, other.under_way_max);
		return *this;
	}
};

// Hears of the events of one watch (watch.h).
class EventSink {
public:
	virtual void take_event(EventKind kind, std::string_view key, std::uint64_t version) = 0;
	// The server does not know watches.
	virtual void refuse(Error error) = 0;

protected:
	~EventSink() = default;
};

class Client final : private CallMaker, private async::Timer, private async::TurnEnd {
public:
	// Exchanges Hello messages with the server; fails at the deadline. The error is one sentence.
	static async::Task<std::expected<std::unique_ptr<Client>, std::string>> open(
		std::unique_ptr<channel::Channel> channel, ClientOptions options, Nanoseconds deadline = never);
	~Client();

	// The operations; they start when they are awaited. Results are Result<void> and, for get(),
	// Result<Fetched>.
	Call set(std::string_view key, Bytes value, SetOptions options = {});
	Call set(std::string_view key, channel::Place value, SetOptions options = {});
	Getting get(std::string_view key);
	Call remove(std::string_view key);
	// A page of keys with this prefix (scan.h), as bytes of scan_format.h. The request must not
	// change until that is done.
	Getting scan(std::string_view prefix, const ScanRequest& request) {
		return {*this, Call::Kind::scan, {}, prefix, bytes_of(request)};
	}
	// The text of INFO (facts.h).
	Getting info() { return {*this, Call::Kind::info, {}}; }

	// Asks for events of a key, or of all keys with a prefix, until unwatch() or the end of the
	// connection. `number` is the caller's; there is one watch of a number.
	void watch(std::uint32_t number, std::string_view text, Scope scope, EventSink& sink);
	// The sink hears nothing more. Does nothing if there is no such watch.
	void unwatch(std::uint32_t number);
	bool watches(std::uint32_t number) const { return watches_.contains(number); }

	// Takes a call of a Router, which gets it back if the connection is lost.
	void start(Call& call) override;
	void forget(Call& call) override;

	// Closes the channel. Operations that have no answer yet fail with Error::lost.
	void close() { channel_->close(); }
	// Closes the channel when no operation is under way any more.
	void close_when_done();
	// Ends the connection because its server is silent.
	void give_up();

	// True if a SET of a key and a value with these lengths is eager; else it goes by rendezvous.
	bool is_eager(std::size_t key, std::size_t value) const;
	channel::Channel& channel() const { return *channel_; }
	const ClientOptions& options() const { return options_; }
	ClientOptions& options() { return options_; }
	const ClientCounters& counters() const { return counters_; }
	// Resets under_way_max to the number of operations under way now.
	void reset_depth() { counters_.under_way_max = under_way_; }
	// The number of operations that have started and wait for their answer.
	std::uint32_t under_way() const { return under_way_; }
	bool lost() const { return lost_; }
	// co_await until_lost() resumes the caller when the connection is lost.
	async::Park until_lost() { return async::Park(until_lost_); }
	// The time of the last message from the server.
	Nanoseconds heard() const { return heard_; }
	const Hello& server() const { return server_; }
	// One sentence; call it only once the connection is lost.
	std::string why_lost() const;

private:
	friend class Running;
	// One operation that waits for its answer. The request's number is the slot's index and its
	// generation, so a late answer to an earlier operation is recognized.
	struct Slot {
		Call* call = nullptr;  // null if the operation was abandoned
		std::uint32_t generation = 0;
		bool in_use = false;
		channel::Lease lease;  // the server's right to read a SET's value
		channel::Place source;  // an abandoned SET's value, which is still to be written
	};

	// The server's area for one-sided GETs; `shape.lines` is 0 if this client has no right to it.
	struct Published {
		RemoteMemory area;
		IndexShape shape;
	};
	static async::Task<std::expected<Published, std::string>> request_index(channel::Channel& channel);
	Client(std::unique_ptr<channel::Channel> channel, const ClientOptions& options, const Hello& server,
		const Published& published);

	void expired(Call&) override { check(false, "a call of a Client has no deadline"); }
	std::optional<Error> refusal_of(const Call& call) const;
	void submit(Call& call);
	void submit_eager(Call& call, Operation operation);
	Running set_by_read(std::uint32_t number, channel::Place place);
	Running write_value(std::uint32_t number, RemoteMemory to);
	Running read_value(std::uint32_t number, std::uint32_t lease, RemoteMemory from);
	Running read_published(std::uint32_t number);
	void deliver_published(std::uint32_t number, channel::Buffer buffer, std::size_t offset, std::size_t size);
	bool is_wanted(std::uint32_t number, bool good);
	std::byte* put_request(RequestHeader header, const Call& call, std::size_t more, Bytes body = {});
	std::byte* put_header(RequestHeader header, std::size_t more = 0, Bytes body = {});
	std::uint32_t take_slot(Call& call);
	Slot* slot_of(std::uint32_t number);
	void finish(Slot& slot, std::optional<Error> error);
	void refuse(Slot& slot);
	Call* free(Slot& slot);
	void go_on();
	void give_back(Call& call);
	void leave();
	async::Task<void> receive();
	bool handle(const Answer& answer);
	void take_event(const Answer& event);
	std::optional<Error> deliver_eager(Call& call, Bytes value);
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
	std::vector<std::uint32_t> free_slots_;  // indexes into slots_
	std::uint32_t under_way_ = 0;
	async::List<async::Waiter> waiting_;  // calls that wait for a slot
	std::unordered_map<std::uint32_t, EventSink*> watches_;  // by number
	std::vector<std::uint32_t> releases_;  // leases that the next requests release
	std::uint64_t records_seen_ = 0;  // `records_sent` when turn_ends() last ran
	bool lost_ = false, closing_ = false;  // closing_: close_when_done() was called
	std::string breach_;  // why this end ended the connection, if it did
	Nanoseconds heard_;
	async::List<async::Waiter> until_lost_;
	ClientCounters counters_;
	async::Job reader_;
	Coroutines coroutines_;
};

inline Call Client::set(std::string_view key, Bytes value, SetOptions options) {
	return {*this, Call::Kind::set, key, value, {}, options};
}
inline Call Client::set(std::string_view key, channel::Place value, SetOptions options) {
	const Bytes bytes = value.bytes();
	return {*this, Call::Kind::set, key, bytes, std::move(value), options};
}
inline Getting Client::get(std::string_view key) { return {*this, key, false}; }
inline Call Client::remove(std::string_view key) { return {*this, Call::Kind::remove, key, {}, {}}; }

}  // namespace verbena::kv
