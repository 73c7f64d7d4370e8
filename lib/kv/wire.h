// What client and server of the key-value store say to each other (docs/kv.md). Sans-IO: bytes to values and back,
// nothing else.
//
// The first message of each side is its Hello. After that a message is a sequence of records, each a header of 16
// bytes, little-endian, and what belongs to it: a request its key and then the value or where the value lies, an answer
// the value or where it lies. There is no padding and nothing else. Several records share a message when they leave in
// one turn.
//
// Readers trust nothing: what they give out lies within the message, and whatever does not is a Malformed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <span>
#include <string_view>
#include <vector>

#include "lib/channel/memory.h"

namespace verbena::kv {

using channel::RemoteMemory;
using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "records are copied as they are");

inline constexpr std::uint32_t key_max = 4096;
inline constexpr std::uint32_t value_max = 64u << 20;
inline constexpr std::uint32_t eager_max_default = 4096;
inline constexpr std::uint16_t protocol_version = 1;

// One rule for SET and GET: a key and a value that are together below `eager_max` go eagerly.
constexpr bool is_eager(std::uint64_t key, std::uint64_t value, std::uint32_t eager_max) {
	return key + value < eager_max;
}

enum class Malformed : std::uint8_t { length, magic, version, operation, key, value, status };
std::string_view name_of(Malformed malformed);

struct Hello {
	static constexpr std::size_t bytes = 32;

	std::uint32_t magic = magic_number;
	std::uint16_t version = protocol_version;
	std::uint16_t side = from_client;  // so that a greeting that comes back is not taken for an answer
	std::uint32_t eager_max =
		0;       // client: 0, the server's; else its wish, which counts on this connection. Server: what counts
	std::uint32_t value_max = kv::value_max;
	std::uint32_t requests_max = 0;    // server: how many may be under way on this connection; a client keeps to it
	std::uint32_t message_max = 0;     // the longest message of several records that this side likes
	std::uint32_t lease_ms = 0;        // server: how long a value is lent for a GET
	std::uint32_t reserved = 0;

	static constexpr std::uint32_t magic_number = 0x564b4256;  // "VBKV"
	static constexpr std::uint16_t from_client = 1, from_server = 2;
};
static_assert(sizeof(Hello) == Hello::bytes);

inline Bytes bytes_of(const Hello& hello) { return std::as_bytes(std::span(&hello, 1)); }
std::expected<Hello, Malformed> read_hello(Bytes message, std::uint16_t side);

enum class Operation : std::uint8_t {
	get = 1,
	set = 2,        // the value follows the key
	set_read = 3,   // RemoteMemory follows: the server reads the value from there
	set_write = 4,  // the server is asked for a place to write to
	written = 5,    // the value of the set_write of this number has been written
	remove = 6,
	release = 7,    // nothing but what `release` says
	index = 8,      // lend me what is published for one-sided GETs; once, for the life of the connection
};

// How a GET's value shall come.
enum class Protocol : std::uint8_t { automatic = 0, eager = 1, rendezvous = 2 };

struct RequestHeader {
	static constexpr std::size_t bytes = 16;

	Operation operation = Operation::get;
	Protocol protocol = Protocol::automatic;
	std::uint16_t key_length = 0;
	std::uint32_t number = 0;        // comes back in the answer; the client's
	std::uint32_t value_length = 0;
	std::uint32_t release = 0;       // a lease of an earlier GET that the client is done with; 0: none
};
static_assert(sizeof(RequestHeader) == RequestHeader::bytes);

struct Request {
	RequestHeader header;
	Bytes key;
	Bytes value;          // of set
	RemoteMemory remote;  // of set_read
};

enum class Status : std::uint8_t {
	good = 0,
	missing = 1,      // GET, DEL: there is no such key
	full = 2,         // the store is at its limit; nothing changed
	too_large = 3,    // more than the server takes
	unsupported = 4,  // rendezvous on a connection that cannot
	place = 5,        // set_write: where to write; the request goes on
	remote = 6,       // get: where to read
	index = 7,        // index: the area and its shape
};

// What a client needs to know of what is published for one-sided GETs, beside its place (index_format.h).
struct IndexShape {
	std::uint64_t seed = 0;   // of the hash of keys
	std::uint32_t lines = 0;  // a power of two
	std::uint32_t reserved = 0;
};
static_assert(sizeof(IndexShape) == 16);

struct AnswerHeader {
	static constexpr std::size_t bytes = 16;

	Status status = Status::good;
	std::uint8_t reserved[3] = {};
	std::uint32_t number = 0;
	std::uint32_t value_length = 0;  // of get
	std::uint32_t lease = 0;         // of remote: to be released
};
static_assert(sizeof(AnswerHeader) == AnswerHeader::bytes);

struct Answer {
	AnswerHeader header;
	Bytes value;          // of good, to a get
	RemoteMemory remote;  // of place, remote and index
	IndexShape shape;     // of index
};

// The records of one message, in order:
//
//     for (Requests requests(message); !requests.done();) { const auto request = requests.next(); ... }
class Requests {
public:
	explicit Requests(Bytes message) : rest_(message) {}
	bool done() const { return rest_.empty(); }
	std::expected<Request, Malformed> next();

private:
	Bytes rest_;
};

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
inline Bytes bytes_of(const IndexShape& shape) { return std::as_bytes(std::span(&shape, 1)); }

inline void append(std::vector<std::byte>& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }
inline void append(std::vector<std::byte>& out, const RequestHeader& header) {
	append(out, std::as_bytes(std::span(&header, 1)));
}
inline void append(std::vector<std::byte>& out, const AnswerHeader& header) {
	append(out, std::as_bytes(std::span(&header, 1)));
}

}  // namespace verbena::kv
