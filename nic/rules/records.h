// SPDX-License-Identifier: Apache-2.0
// The records of the book (book.h): objects, requests, waits, and what peers have done.
//
// Threads: values, under the book's mutex.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "nic/queues/work_request.h"
#include "nic/rules/device_threads.h"
#include "nic/rules/facts.h"
#include "nic/rules/rule.h"

namespace verbena::rules {

struct Object {
	std::uint64_t serial;
	Kind kind;
	Site made;
	std::vector<Handle> uses;
	Site refused = 0;  // where destroying it failed
	std::string user;  // that was the reason
};

// The bytes [begin, end).
struct Range {
	std::uint64_t begin, end;
};

struct Region {
	RegionFacts facts;
	Site made;
	bool marked = false;  // mapping_mark.h
	std::vector<Range> given_back;
};

// A region that was deregistered.
struct Retired {
	std::uint32_t rkey;
	Site made, deregistered;
};

// An object that was destroyed, at an address at which none was made since.
struct Ghost {
	Kind kind;
	Site destroyed;
};

struct OpenSend {
	std::uint64_t wr_id, remote_address;
	std::uint32_t rkey;
	Handle address_handle;
	std::vector<queues::Segment> segments;
	std::optional<std::uint64_t> digest;
	Caller caller;
	queues::SendOpcode opcode;
	bool signaled, is_inline;
	DeviceThreads::Use use = {};
	std::uint32_t length() const;
	bool reads() const { return opcode == queues::SendOpcode::rdma_read || is_atomic(); }
	bool is_atomic() const {
		return opcode == queues::SendOpcode::compare_swap || opcode == queues::SendOpcode::fetch_add;
	}
};

struct OpenReceive {
	std::uint64_t wr_id;
	std::vector<queues::Segment> segments;
	Caller caller;
	// The memory's at the post; nothing if the device may have changed the memory since.
	std::optional<std::uint64_t> digest;
	bool filled = false;  // a message has begun to fill it
	bool completed = false;  // its completion is in the queue, or was polled
	// A message that shares memory with this one was polled when its completion queue had
	// received this number of completions.
	std::optional<std::uint32_t> shared_until;
	DeviceThreads::Use use = {};
};

struct FailedPost {
	std::uint64_t wr_id;
	Site site;
	int error;
};

struct GivenUp {
	Rule rule;
	std::string what;
	Site site, oldest;  // the post, and that of the oldest open request
};

struct StrangeInline {
	std::uint32_t lkey;
	queues::SendOpcode opcode;
	std::uint64_t wr_id;
	Site site;
};

struct QueuePair {
	Handle handle;
	QueuePairFacts facts;
	Site made;
	int state = 0;
	Site connected = 0;  // where it went to IBV_QPS_RTS
	unsigned posters = 0;  // threads in a post, if it has a thread domain
	std::uint64_t receives_posted = 0;
	bool broken = false;  // in IBV_QPS_ERR, as the program knows
	bool writes_data = false;  // it has carried a WRITE that was too long for a flag
	std::deque<OpenSend> sends;
	std::deque<OpenReceive> receives;
	std::optional<FailedPost> failed;
	// A post found no place, and the program has neither posted nor got a completion since.
	std::optional<GivenUp> gave_up;
	// The last inline request with an lkey that no region has.
	std::optional<StrangeInline> strange_inline;
	std::optional<pthread_t> builder;  // the thread between ibv_wr_start and ibv_wr_complete
};

// The last WRITE of a thread that was too long for a flag.
struct DataWrite {
	Handle queue_pair;
	std::uint64_t wr_id, remote_address;
	std::uint32_t rkey;
};

struct SharedQueue {
	std::deque<OpenReceive> receives;
};

struct CompletionQueue {
	std::uint32_t entries = 0;
	Handle channel = nullptr;
	Site made = 0;
	std::uint32_t open = 0;  // requests that can complete into it
	bool armed = false;
	std::uint32_t produced_when_armed = 0;
	Site armed_at = 0;
	std::uint32_t fetched = 0, acknowledged = 0;  // events
	Nanoseconds empty_since = 0;  // polled in vain since then; 0: not
	Site polled_at = 0;
};

struct Sleeper {
	Site site;
	Nanoseconds since;
	int thread;  // gettid(2)
	bool reported = false;
	// A thread that was cancelled does not come back to say so.
	bool is_there() const;
};

struct Destroyer {
	Kind kind;
	Handle handle;
	std::uint32_t missing;
	Site site;
	Nanoseconds since;
};

// A WRITE whose last packet has not arrived.
struct OpenWrite {
	std::uint64_t address, length;
	Nanoseconds seen;  // its latest packet
};

// Something that happened some times within a second.
struct Series {
	Nanoseconds since = 0;
	unsigned count = 0;
	// Counts it once more. True if this is the third time.
	bool is_third(Nanoseconds now);
};

// A word that peers change by atomics.
struct AtomicWord {
	std::uint64_t value;  // after the last atomic
	std::uint32_t qpn;  // that it came by
	Series changes = {};  // the processor has changed the word between two atomics
	Series switches = {};  // two atomics came by different devices
};

struct Destroying {
	std::uint64_t serial = 0;  // the object's
	Site site = 0;
};

}  // namespace verbena::rules
