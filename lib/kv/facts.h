// SPDX-License-Identifier: Apache-2.0
// Facts: what a server is, holds and has counted, at one instant. INFO sends them as text
// (text_of()), and the metrics of kv_server export them (tools/kv_metrics.h).
//
// Threads: values and pure functions; a FactSource belongs to the server's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/kv/changes.h"
#include "lib/kv/server.h"

namespace verbena::kv {

// The memory of a server in bytes, by its use. No byte counts twice.
struct MemoryUse {
	std::size_t values = 0;     // blocks of keys and values, also of old versions that are in use
	std::size_t free = 0;       // in the segments for these, and not used
	std::size_t table = 0;      // the buckets of the hash table
	std::size_t sessions = 0;   // executed changes, by client
	std::size_t watches = 0;    // the keys and prefixes that clients watch
	std::size_t published = 0;  // the area for one-sided GETs
	std::size_t receive = 0;    // receive buffers
	std::size_t messages = 0;   // registered memory for long messages that arrive
};

struct Facts {
	std::string version;  // the release; may be empty
	std::uint64_t identity = 0, features = 0;  // Hello::identity, Hello::features
	Nanoseconds uptime = 0;

	std::uint64_t clients = 0, clients_peak = 0, clients_failed = 0;
	std::uint64_t sessions = 0;  // clients that are remembered, connected or not
	std::uint64_t leases = 0;    // held by clients now, with those to read the index

	std::uint64_t keys = 0;
	std::uint64_t memory_budget = 0, memory_counted = 0;  // bytes: --memory, and what counts in it
	MemoryUse memory;

	ServerCounters server;
	StoreCounters store;
	std::uint64_t watches = 0;  // those of all clients
	WatchCounters watched;
	IndexCounters index;
	std::uint64_t repeated = 0;  // changes that arrived again and were answered from a session

	std::optional<MemberFacts> member;  // null: the server is no member of a cluster

	// With --data.
	bool durable = false;
	std::uint64_t bad_records = 0;  // dropped by --salvage when this process started
	std::uint64_t waiting = 0, waiting_bytes = 0;  // changes that are not written yet
	CommitCounters commits;
	std::string journal_failure;  // one sentence while changes cannot be written, otherwise empty
};

// The lines "name: value" that INFO sends. Names are in small letters with underscores, values are
// numbers or words. Requests have a line for each kind and result that has occurred.
std::string text_of(const Facts& facts);

// The server of a connection, as INFO asks it.
class FactSource {
public:
	virtual Facts facts() const = 0;

protected:
	~FactSource() = default;
};

}  // namespace verbena::kv
