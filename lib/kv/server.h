// Connection: the server's side of one client, on its channel. Every client has one, all on one loop, and none waits
// for another: what takes time (reading a value out of a client, waiting until a client has written one or is done with
// one) is a coroutine or an entry in a table, and the next message is looked at meanwhile.
//
// A value is stored, and a GET takes its version, at one instant of the loop between the request's arrival and its
// answer: so the store is linearizable for each key. Requests of one client that are under way together have no order
// among themselves.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lib/async/loop.h"
#include "lib/kv/outbox.h"
#include "lib/kv/running.h"
#include "lib/kv/store.h"

namespace verbena::kv {

struct ServerOptions {
	std::uint32_t eager_max = eager_max_default;
	std::uint32_t value_max = kv::value_max;
	std::uint32_t requests_max = 4096;    // under way, of one client
	// Of these, by rendezvous; others wait in line. A few keep the wire busy, and their values stay in the cache: 64
	// values of 64 KiB at once move at a third of the rate.
	std::uint32_t rendezvous_max = 16;
	std::uint32_t message_max = 8192;     // of several records together
	std::uint32_t lease_ms = 5000;        // how long a value is lent for a GET, or a place for a SET
};

struct ServerCounters {
	std::uint64_t requests = 0, answers = 0;
	std::uint64_t eager_sets = 0, read_sets = 0,
				  written_sets = 0;     // by rendezvous: the server's READ, the client's WRITE
	std::uint64_t eager_gets = 0, lent_gets = 0, staged = 0;           // staged: small values copied to be lent
	std::uint64_t leases_expired = 0, places_expired = 0;
	std::uint64_t indexes_lent = 0;  // to clients that read one-sidedly
	std::uint64_t malformed = 0;
};

class Connection final : private async::Timer {
public:
	Connection(Store& store, std::unique_ptr<channel::Channel> channel, const ServerOptions& options,
		ServerCounters& counters);
	~Connection();

	// Until the client leaves; why, if it did not say goodbye.
	async::Task<std::string> serve();
	channel::Channel& channel() { return *channel_; }

private:
	friend class Running;

	// A version that is lent for a GET, or a place for a SET that the client writes.
	struct Loan {
		channel::Lease lease;
		Value value;
		std::uint32_t number = 0;  // of the set_write
		std::uint32_t generation = 0;
		Nanoseconds deadline = 0;
		bool in_use = false, is_place = false;
	};
	// A request that waits for its turn: a GET takes its version only then.
	struct Queued {
		RequestHeader header;
		std::string key;
		RemoteMemory remote;
	};

	async::Task<bool> greet();
	bool handle(const Request& request);
	void get(const RequestHeader& header, std::string_view key);
	void set(const Request& request);
	bool finish_written(std::uint32_t number);
	void begin(Queued request);
	void begin_queued();
	Running lend_value(std::uint32_t number, Value value);
	Running read_value(Queued request);
	Running lend_place(Queued request);
	Running store_written(std::uint32_t loan);
	void end_rendezvous();
	Running lend_index(std::uint32_t number);

	void limit_reading();
	std::uint32_t take_loan();
	void release(std::uint32_t lease);
	void free_loan(std::uint32_t loan);
	void look_again(Nanoseconds when);
	void expire() override;

	void answer(std::uint32_t number, Status status, std::uint32_t lease = 0, const RemoteMemory* remote = nullptr);
	void answer_value(std::uint32_t number, Value value);

	Store& store_;
	std::unique_ptr<channel::Channel> channel_;
	ServerOptions options_;
	ServerCounters& counters_;
	std::uint32_t eager_max_;
	Outbox outbox_;
	std::vector<Loan> loans_;
	std::vector<std::uint32_t> free_loans_;
	std::uint32_t under_way_ = 0;  // rendezvous
	std::deque<Queued> queue_;
	bool beginning_ = false;   // those of the queue
	// Lengths of the values that are being read, which end in this order.
	std::deque<std::uint32_t> reading_;
	Nanoseconds read_deadline_ = never;
	bool read_overdue_ = false;
	std::string given_up_;     // why, if this side ends it
	channel::Lease index_;     // as long as the connection
	bool one_sided_ = false;
	Nanoseconds next_look_ = never;
	Coroutines coroutines_;
};

}  // namespace verbena::kv
