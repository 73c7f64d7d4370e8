// SPDX-License-Identifier: Apache-2.0
// Connection: the server's end of the connection to one client, over that client's channel.
//
// All connections share one loop, and none waits for another. An operation that takes time is a
// coroutine (an RDMA READ of a client's value) or an entry in a table (a lease that a client
// holds); the connection handles further messages meanwhile.
//
// A change becomes visible (changes.h), and a GET takes its version, at one instant of the loop
// between the request's arrival and its answer. So the store is linearizable for each key. Requests
// of one client that are under way together have no order among themselves.
//
// Threads: one, that of the channel's loop.
// Owns: the channel, and the leases that it granted to this client.
// Lifetime: the connection dies before the store, the changes, the sessions, the watches and the
//   counters.
// Errors: the client is untrusted. A malformed or unexpected record closes the client's connection
//   and counts in `malformed`. A stalled client loses its leases when they expire, and its
//   connection if its value could not be read in time.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/loop.h"
#include "lib/kv/changes.h"
#include "lib/kv/outbox.h"
#include "lib/kv/pulse.h"
#include "lib/kv/request_meter.h"
#include "lib/kv/running.h"
#include "lib/kv/watches.h"

namespace verbena::kv {

// The limits that a server sets for each client.
struct ServerOptions {
	// For is_eager(), in bytes; a client may ask for another.
	std::uint32_t eager_max = eager_max_default;
	std::uint32_t value_max = kv::value_max;  // bytes of one value
	std::uint32_t requests_max = 4096;  // requests of one client under way at once
	// Rendezvous of one client under way at once; further ones wait in a queue. A few keep the wire
	// busy, and their values stay in the cache: with 64 at once, values of 64 KiB move at a third
	// of the rate. Must be below 4096, or the numbers of leases would collide (lease_number() in
	// server_values.cc).
	std::uint32_t rendezvous_max = 16;
	std::uint32_t message_max = 8192;  // bytes of a message that has several records
	// The time after which a lease expires, to read or to write a value.
	std::uint32_t lease_ms = 5000;
};

// Totals of all connections of a server.
struct ServerCounters {
	std::uint64_t requests = 0, answers = 0;  // records
	// SETs, by how the value travels: in the request, by the server's RDMA READ, by the client's
	// RDMA WRITE.
	std::uint64_t eager_sets = 0, read_sets = 0, written_sets = 0;
	// GETs likewise: in the answer, or by a lease to read it.
	std::uint64_t eager_gets = 0, leased_gets = 0;
	std::uint64_t leases_expired = 0, places_expired = 0;  // leases to read; to write a new value
	std::uint64_t indexes_granted = 0;  // clients that got the right to read the index
	std::uint64_t malformed = 0;  // connections that were closed for a breach of the protocol
	RequestMeter meter;  // all requests, by kind and result
	UnsentRecords unsent;  // now, of all connections
};

class FactSource;

class Connection final : private async::Timer, private Asker {
public:
	Connection(Store& store, Changes& changes, Sessions& sessions, std::unique_ptr<channel::Channel> channel,
		const ServerOptions& options, ServerCounters& counters, Watches& watches, const FactSource* facts = nullptr,
		Pulse* pulse = nullptr);
	~Connection();

	// Serves the client until its channel has closed. Returns one sentence that says why it closed;
	// empty if the client closed the connection in order.
	async::Task<std::string> serve();
	channel::Channel& channel() { return *channel_; }
	// Executes no request any more and says so to the client, behind the answers to all others.
	void stop();
	// True while answers wait to be sent.
	bool answering() const { return !outbox_.empty(); }

private:
	friend class Running;

	// A lease that this client holds: to read a version (GET), or to write a new one, which is
	// called a place (SET_WRITE).
	struct Grant {
		// Empty while store_written() ends it; then the grant does not expire.
		channel::Lease lease;
		Value value;  // the version
		std::uint32_t number = 0;  // the number of the SET_WRITE request
		Changes::Terms terms;  // those of the SET_WRITE
		std::uint32_t generation = 0;  // one more with each use of this entry of grants_
		Nanoseconds deadline = 0;  // the time at which the grant expires
		bool in_use = false, is_place = false;  // is_place: the client may write
	};
	// A request that waits until another rendezvous has ended. A queued GET takes its version only
	// after that wait, so it holds no memory.
	struct Queued {
		RequestHeader header;
		Changes::Terms terms;
		std::string key;
		RemoteMemory remote;  // SET_READ: the value in the client's memory
	};

	async::Task<std::string> greet();
	bool handle(const Request& request);
	Changes::Request change(std::uint32_t number, const Changes::Terms& terms) {
		return {.asker = *this, .number = number, .session = session_, .terms = terms};
	}
	void get(const RequestHeader& header, bool versioned, std::string_view key);
	std::size_t work_for_watches(const Request& request) const;
	void set(const Request& request, const Changes::Terms& terms);
	void scan(const Request& request);
	void info(std::uint32_t number);
	bool finish_written(std::uint32_t number);
	void begin(Queued request);
	void begin_queued();
	Running grant_value(std::uint32_t number, Value value, bool versioned);
	Running read_value(Queued request);
	Running grant_place(Queued request);
	Running store_written(std::uint32_t loan);
	void end_rendezvous();
	Running grant_index(std::uint32_t number);

	void limit_reading();
	std::uint32_t take_grant();
	void release(std::uint32_t lease);
	void free_grant(std::uint32_t loan);
	void schedule_expiry(Nanoseconds when);
	void expire() override;

	// Asker
	void decided(std::uint32_t number, Status status, std::uint64_t version) override;
	void answer(std::uint32_t number, Status status, std::uint32_t lease = 0, const RemoteMemory* remote = nullptr,
		std::uint64_t version = any_version);
	void answer_value(std::uint32_t number, Value value, std::uint64_t version);
	void answer_copy(std::uint32_t number, Bytes bytes);
	std::byte* put_answer(AnswerHeader header, std::uint64_t version, std::size_t more);

	Store& store_;
	Changes& changes_;
	Sessions& sessions_;
	ChangeSession* session_ = nullptr;  // null: the client has no id
	std::unique_ptr<channel::Channel> channel_;
	ServerOptions options_;
	ServerCounters& counters_;
	const FactSource* facts_;  // null: INFO is not supported
	Pulse* pulse_;  // hears of messages; may be null
	std::uint32_t eager_max_;  // the server's, or the one that the client has asked for
	Outbox outbox_;
	WatchesOfClient watches_;
	RequestsUnderWay requests_;
	Nanoseconds arrived_ = 0;  // RequestMeter::arrival() of the message that is being handled
	std::vector<Grant> grants_;
	std::vector<std::uint32_t> free_grants_;  // indexes into grants_
	std::uint32_t under_way_ = 0;  // rendezvous that have begun and not ended
	std::deque<Queued> queue_;  // rendezvous that have not begun, oldest first
	bool beginning_ = false;  // inside begin_queued()
	// The lengths of the values that are being read by RDMA READ. READs complete in the order in
	// which they were posted, so the front READ is the next to complete.
	std::deque<std::uint32_t> reading_;
	Nanoseconds read_deadline_ = never;  // for the front READ
	bool read_overdue_ = false;  // read_deadline_ has passed once; the grace period runs
	bool stopping_ = false;
	std::string given_up_;  // why this end closed the connection; empty: it did not
	channel::Lease index_;  // the client's right to read the index, while it is connected
	bool one_sided_ = false;  // the client has asked for the index
	// The time at which this timer expires; `never`: it is not set.
	Nanoseconds next_expiry_ = never;
	Coroutines coroutines_;
};

}  // namespace verbena::kv
