// SPDX-License-Identifier: Apache-2.0
// The wire format of the key-value store (docs/kv.md, "Wire format"), as sans-IO readers and
// writers.
//
// The first message of each side is its Hello. Each further message is a sequence of records
// without padding. A record is a header of 16 bytes, little-endian, and its content: the ChangeId
// of an identified change, the version that a change expects, the time to live of a SET, a
// request's key, then its value or the value's remote address; an answer's version, then its value,
// or its remote address. An event (watches.h) has the form of an answer, with a key as its value.
// Records that leave in one turn of the loop share messages.
//
// Threads: any; values and pure functions.
// Lifetime: the Bytes of a Request or Answer point into the message that was read.
// Errors: the peer is untrusted. A reader returns Malformed for a record that its message cannot
//   hold, and nothing that it returns lies outside of the message.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/channel/memory.h"

namespace verbena::kv {

using channel::RemoteMemory;
using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "records are copied as they are");

inline constexpr std::uint32_t key_max = 4096;         // bytes; the shortest key has 1
inline constexpr std::uint32_t value_max = 64u << 20;  // bytes
inline constexpr std::uint32_t eager_max_default = 4096;
inline constexpr std::uint16_t protocol_version = 3;

// The rule for SET and GET alike: the value travels in the message if key and value together have
// fewer than `eager_max` bytes.
constexpr bool is_eager(std::uint64_t key, std::uint64_t value, std::uint32_t eager_max) {
	return key + value < eager_max;
}

// The field of a record, or of a Hello, that a reader refused.
enum class Malformed : std::uint8_t { length, magic, version, operation, key, value, status, event };
// A phrase that completes "the peer breaks the protocol: ".
std::string_view name_of(Malformed malformed);

// The greeting, in the form in which it is sent.
struct Hello {
	static constexpr std::size_t bytes = 64;

	std::uint32_t magic = magic_number;
	std::uint16_t version = protocol_version;
	std::uint16_t side = from_client;  // so that an echoed greeting is not mistaken for the answer
	// Client: its wish, 0 for the server's limit. Server: the limit of this connection.
	std::uint32_t eager_max = 0;
	std::uint32_t value_max = kv::value_max;
	std::uint32_t requests_max = 0;    // server: requests that the client may have under way
	std::uint32_t message_max = 0;     // longest message of several records to this side; 0: any
	std::uint32_t lease_ms = 0;        // server: the time after which a lease expires
	// Server: 1 if it may have forgotten changes that this client made before (sessions.h).
	std::uint32_t forgot = 0;
	// Client: its random id, if it identifies its changes; otherwise 0.
	std::uint64_t client = 0;
	// Server: a random number of its content. It is new when the server starts without the content
	// of an earlier one.
	std::uint64_t identity = 0;
	// Server: operations that it knows beyond those of the first servers of this version, and its
	// kind (feature_info, ...). A client asks no server for an operation that it does not know.
	// Client: feature_cluster.
	std::uint64_t features = 0;
	std::uint64_t reserved = 0;

	static constexpr std::uint32_t magic_number = 0x564b4256;  // "VBKV"
	static constexpr std::uint16_t from_client = 1, from_server = 2;
};
static_assert(sizeof(Hello) == Hello::bytes);

// The bits of Hello::features, and their names.
inline constexpr std::uint64_t feature_info = 1, feature_scan = 2, feature_ttl = 4;
// Server: it is a member of a cluster, which is a cache, and answers for its slots only
// (state/ownership.h). Client: it knows Status::moved.
inline constexpr std::uint64_t feature_cluster = 8;
inline constexpr std::uint64_t feature_watch = 16;
// The features of each server of this version.
inline constexpr std::uint64_t server_features = feature_scan | feature_ttl | feature_watch;
inline constexpr std::pair<std::uint64_t, std::string_view> feature_names[] = {{feature_info, "info"},
	{feature_scan, "scan"}, {feature_ttl, "ttl"}, {feature_cluster, "cluster-cache"}, {feature_watch, "watch"}};

inline Bytes bytes_of(const Hello& hello) { return std::as_bytes(std::span(&hello, 1)); }
// Reads the greeting of the peer, which must be that of `side`.
std::expected<Hello, Malformed> read_hello(Bytes message, std::uint16_t side);

enum class Operation : std::uint8_t {
	get = 1,
	set = 2,        // the value follows the key
	set_read = 3,   // RemoteMemory follows: the server reads the value from there
	set_write = 4,  // asks the server for a place to which the client writes the value
	written = 5,    // the client has written the value of the set_write with this number
	remove = 6,
	release = 7,    // only releases the lease in `release`; has no answer
	index = 8,      // asks for the right to read the index; once in a connection
	scan = 10,      // asks for keys that begin with the key, which may be empty (scan_format.h)
	watch = 11,     // asks for events from now on; has no answer. Its number is the watch's
	unwatch = 12,   // ends the watch with this number; has no answer
	info = 15,      // asks for facts of the server, as text (facts.h)
};

// The protocol by which a GET's value shall travel; automatic: by is_eager().
enum class Protocol : std::uint8_t { automatic = 0, eager = 1, rendezvous = 2 };

struct RequestHeader {
	static constexpr std::size_t bytes = 16;

	Operation operation = Operation::get;
	Protocol protocol = Protocol::automatic;
	std::uint16_t key_length = 0;
	std::uint32_t number = 0;        // chosen by the client; the answer repeats it
	std::uint32_t value_length = 0;
	std::uint32_t release = 0;       // the lease of an earlier GET, which ends now; 0: none
};
static_assert(sizeof(RequestHeader) == RequestHeader::bytes);

// The identity of a change (SET or DEL), by which the server executes it once, however often it is
// sent. It follows the header if `identified_bit` is set in the header's second byte.
struct ChangeId {
	// From 1 to order_max; one more with each change of this client at this server.
	std::uint64_t order = 0;
	std::uint64_t settled = 0;  // no change of this client below this order will be sent again
};
static_assert(sizeof(ChangeId) == 16);
// The greatest order. A journal can hold each order that Requests::next() accepts (sessions.h).
inline constexpr std::uint64_t order_max = std::uint64_t{1} << 63;

// The second byte of a header holds the Protocol and these bits. Requests::next() moves them to
// Request::id, Request::versioned and Request::ttl_ms; the functions below set them.
inline constexpr std::uint8_t identified_bit = 0x80, versioned_bit = 0x40, mortal_bit = 0x20;
constexpr RequestHeader with_bit(RequestHeader header, std::uint8_t bit) {
	header.protocol = static_cast<Protocol>(static_cast<std::uint8_t>(header.protocol) | bit);
	return header;
}
constexpr RequestHeader with_id(RequestHeader header) { return with_bit(header, identified_bit); }
constexpr RequestHeader with_version(RequestHeader header) { return with_bit(header, versioned_bit); }
constexpr RequestHeader with_ttl(RequestHeader header) { return with_bit(header, mortal_bit); }

// As the version that a change expects: any, also that of a missing key. A missing key has the
// version 0.
inline constexpr std::uint64_t any_version = ~std::uint64_t{0};

struct Request {
	RequestHeader header;
	std::optional<ChangeId> id;  // SET, SET_READ, SET_WRITE and DEL of a client with an id
	bool versioned = false;  // GET and changes: the answer shall have the version
	std::uint64_t expected = any_version;  // changes: executed only if the key has this version
	// SET, SET_READ, SET_WRITE: the time to live, in milliseconds from the execution on; 0: none.
	std::uint32_t ttl_ms = 0;
	Bytes key;
	// Operation::set; Operation::scan: a ScanRequest; Operation::watch: a WatchRequest.
	Bytes value;
	RemoteMemory remote;  // Operation::set_read
};

enum class Status : std::uint8_t {
	good = 0,
	missing = 1,      // GET, DEL: the key does not exist
	full = 2,         // the store has reached its memory limit; nothing changed
	too_large = 3,    // the value is longer than the server accepts
	unsupported = 4,  // rendezvous or index without RDMA, or there is no index
	place = 5,        // set_write: where the client shall write; the request goes on
	remote = 6,       // get: where the client shall read, under a lease
	index = 7,        // index: the area and its shape
	moved = 8,        // not executed: another member of the cluster has the key's slot
	busy = 9,         // not executed; the client asks again later
	changed = 10,     // a change whose key has another version than expected; nothing changed
	disk = 11,        // the server could not write the change to its disk; nothing changed
	settled = 12,     // not executed: the client itself has said that this change is settled
	// Answers no request. The server ends: it has executed no request without an answer before this
	// record, and will not.
	leaving = 13,
	event = 14,       // answers no request: something has happened to a key of a watch
};

// The keys of a watch.
enum class Scope : std::uint8_t { key = 0, prefix = 1 };

struct WatchRequest {
	Scope scope = Scope::key;  // prefix: all keys that begin with the request's key
	std::uint8_t reserved[7] = {};
};
static_assert(sizeof(WatchRequest) == 8);
// Reads the value of a request, whose length Requests::next() has checked.
inline WatchRequest read_watch_request(Bytes value) {
	WatchRequest request;
	std::memcpy(&request, value.data(), sizeof request);
	return request;
}
// The most watches of one connection.
inline constexpr std::size_t watches_max = 256;

// A change of a key, as clients that watch it hear of it. The event has the version of the change
// or, for `evicted`, that which the key had; for `look_again`, 0.
enum class EventKind : std::uint8_t {
	none = 0,
	set = 1,
	removed = 2,
	expired = 3,  // its time to live is over
	evicted = 4,  // the server has taken it out to make room, or because its slot has moved
	// No key: the watch has just begun, or events of it were dropped. A client that now looks at
	// the keys sees all changes before this event; each later one has an event.
	look_again = 5,
	refused = 6,  // no key: the server has no memory for the watch, which has ended
};

// The shape of the area that is published for one-sided GETs (index_format.h).
struct IndexShape {
	std::uint64_t seed = 0;   // for index_hash()
	std::uint32_t lines = 0;  // a power of two
	std::uint32_t reserved = 0;
};
static_assert(sizeof(IndexShape) == 16);

// The word by which programs name it.
constexpr std::string_view word_of(EventKind kind) {
	switch (kind) {
		case EventKind::set: return "set";
		case EventKind::removed: return "deleted";
		case EventKind::expired: return "expired";
		case EventKind::evicted: return "evicted";
		case EventKind::refused: return "refused";
		case EventKind::none:
		case EventKind::look_again: break;
	}
	return "look-again";
}

struct AnswerHeader {
	static constexpr std::size_t bytes = 16;

	Status status = Status::good;
	std::uint8_t versioned = 0;  // 1: a version of 8 bytes follows this header
	EventKind event = EventKind::none;  // Status::event
	std::uint8_t reserved = 0;
	std::uint32_t number = 0;  // the request's; Status::event: the watch's
	std::uint32_t value_length = 0;  // also that of `place`
	std::uint32_t lease = 0;         // Status::remote: the number by which the client releases it
};
static_assert(sizeof(AnswerHeader) == AnswerHeader::bytes);

struct Answer {
	AnswerHeader header;
	// The version that was read, that the change has made, or that is there instead of the expected
	// one. 0: the key is missing; or a change was executed before and its version is not known.
	std::uint64_t version = 0;
	Bytes value;          // Status::good, to a GET, SCAN or INFO; Status::event: the key
	RemoteMemory remote;  // Status::place, remote and index
	IndexShape shape;     // Status::index
};

// Reads the records of one message in order. After an error the rest must not be read.
//
//     for (Requests requests(message); !requests.done();) {
//         const auto request = requests.next();  // std::expected<Request, Malformed>
//         ...
//     }
class Requests {
public:
	explicit Requests(Bytes message) : rest_(message) {}
	bool done() const { return rest_.empty(); }
	std::expected<Request, Malformed> next();

private:
	Bytes rest_;
};

// The same for answers.
class Answers {
public:
	explicit Answers(Bytes message) : rest_(message) {}
	bool done() const { return rest_.empty(); }
	std::expected<Answer, Malformed> next();

private:
	Bytes rest_;
};

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
inline Bytes bytes_of(const RemoteMemory& remote) { return std::as_bytes(std::span(&remote, 1)); }
inline Bytes bytes_of(const ChangeId& id) { return std::as_bytes(std::span(&id, 1)); }
inline Bytes bytes_of(const WatchRequest& request) { return std::as_bytes(std::span(&request, 1)); }
inline Bytes bytes_of(const IndexShape& shape) { return std::as_bytes(std::span(&shape, 1)); }

inline void append(std::vector<std::byte>& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
inline void append(std::vector<std::byte>& out, const RequestHeader& header) {
	append(out, std::as_bytes(std::span(&header, 1)));
}
inline void append(std::vector<std::byte>& out, const AnswerHeader& header) {
	append(out, std::as_bytes(std::span(&header, 1)));
}

}  // namespace verbena::kv
