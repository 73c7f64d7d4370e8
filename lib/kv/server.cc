// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/server.h"

#include <algorithm>

#include "lib/kv/facts.h"

namespace verbena::kv {
namespace {

using async::Task;

// A message may have millions of records without an answer: after this many, the other clients have
// a turn.
constexpr std::size_t records_a_turn = 4096;
// A record with this operation takes as long as this many others.
constexpr std::size_t work_of(Operation operation) {
	return operation == Operation::scan ? 256 : operation == Operation::info ? 64 : 1;
}
// A page of SCAN ends after this many buckets of the table, bytes or keys, whichever comes first.
// The bucket in which it ends is there as a whole.
constexpr std::size_t page_buckets = 512, page_bytes = 16 << 10;
constexpr std::uint32_t page_keys = 1000;

// The bytes of a header, and of the version if the header says that it follows.
std::size_t head_bytes(const AnswerHeader& header) {
	return sizeof header + (header.versioned != 0 ? sizeof(std::uint64_t) : 0);
}

// Writes both, and returns their end.
std::byte* write_answer(std::byte* at, const AnswerHeader& header, std::uint64_t version) {
	std::memcpy(at, &header, sizeof header);
	if (header.versioned != 0) std::memcpy(at + sizeof header, &version, sizeof version);
	return at + head_bytes(header);
}

}  // namespace

Connection::Connection(Store& store, Changes& changes, Sessions& sessions, std::unique_ptr<channel::Channel> channel,
	const ServerOptions& options, ServerCounters& counters, Watches& watches, const FactSource* facts, Pulse* pulse)
	: store_(store),
	  changes_(changes),
	  sessions_(sessions),
	  channel_(std::move(channel)),
	  options_(options),
	  counters_(counters),
	  facts_(facts),
	  pulse_(pulse),
	  eager_max_(options.eager_max),
	  outbox_(*channel_, options.message_max, &counters.unsent),
	  watches_(watches, outbox_),
	  requests_(counters.meter) {}

Connection::~Connection() {
	channel_->loop().cancel(*this);
	changes_.forget(*this);
	if (session_ != nullptr) sessions_.leave(*session_, channel_->loop().now());
}

Task<std::string> Connection::serve() {
	std::string why = co_await greet();
	if (why.empty()) {
		for (std::size_t handled = 0;;) {
			auto message = co_await channel_->receive();
			if (!message) break;
			if (pulse_ != nullptr) pulse_->quicken();
			arrived_ = counters_.meter.arrival();
			for (Requests requests(message->bytes()); why.empty() && !requests.done();) {
				if (handled >= records_a_turn) {
					handled = 0;
					co_await async::NextTurn(channel_->loop());
				}
				const auto request = requests.next();
				handled += request ? work_of(request->header.operation) + work_for_watches(*request) : 1;
				if (!request) why = "a client breaks the protocol: " + std::string(name_of(request.error()));
				else if (!handle(*request)) why = "a client breaks the protocol: a request out of place";
				// Backpressure: the answers to one message can be much longer than the message.
				else if (outbox_.crowded()) co_await outbox_.until_room();
			}
			if (!why.empty()) break;
		}
	}
	if (!why.empty()) ++counters_.malformed;
	else why = given_up_;
	channel_->close();
	co_await channel_->until_closed();
	co_return why.empty() ? channel_->reason() : why;
}

// Returns one sentence if the client breaks the protocol or speaks another version of it.
Task<std::string> Connection::greet() {
	auto message = co_await channel_->receive();
	if (!message) co_return std::string();  // the client closed the channel: no breach
	const auto theirs = read_hello(message->bytes(), Hello::from_client);
	if (!theirs && theirs.error() != Malformed::version)
		co_return "a client speaks another protocol: " + std::string(name_of(theirs.error()));
	Hello ours{.side = Hello::from_server,
		.eager_max = eager_max_,
		.value_max = options_.value_max,
		.requests_max = options_.requests_max,
		.message_max = options_.message_max,
		.lease_ms = options_.lease_ms,
		.identity = sessions_.identity(),
		.features =
			server_features | (facts_ == nullptr ? 0 : feature_info) | (changes_.of_cluster() ? feature_cluster : 0)};
	// A client of an earlier version does not know that a key may have moved. It reports that this
	// server has another version.
	const bool outdated = theirs && changes_.of_cluster() && (theirs->features & feature_cluster) == 0;
	if (outdated) ours.version = protocol_version + 1;
	if (theirs && theirs->eager_max > 0) ours.eager_max = eager_max_ = theirs->eager_max;
	if (theirs && theirs->message_max > 0) outbox_.limit(std::max(theirs->message_max, 1024u));
	if (theirs && theirs->client != 0) {
		ours.forgot = sessions_.forgot(theirs->client) ? 1 : 0;
		session_ = &sessions_.enter(theirs->client);
	}
	const Bytes bytes = bytes_of(ours);
	co_await channel_->send(bytes);
	// The client finds our version in the greeting.
	if (!theirs)
		co_return "a client speaks another version of the protocol; this server speaks version " +
			std::to_string(protocol_version) + ", so client and server must be of one release";
	if (outdated) co_return "a client of an earlier version, which does not know the rules of a cluster, was refused";
	co_return std::string();
}

void Connection::stop() {
	if (std::exchange(stopping_, true)) return;
	// The answers to changes that wait come before this record.
	changes_.commit();
	answer(0, Status::leaving);
}

// Returns false if the client broke the protocol: a request out of place, or too many of them.
bool Connection::handle(const Request& request) {
	++counters_.requests;
	if (stopping_) return true;
	if (request.header.release != 0) release(request.header.release);
	Changes::Terms terms{.expected = request.expected, .versioned = request.versioned, .ttl_ms = request.ttl_ms};
	if (request.id) {
		if (session_ == nullptr) return false;
		session_->settle(request.id->settled);
		terms.order = request.id->order;
	}
	const std::uint32_t number = request.header.number;
	requests_.begin(number, kind_of(request.header.operation), arrived_);
	switch (request.header.operation) {
		case Operation::get: get(request.header, request.versioned, text_of(request.key)); break;
		case Operation::set: set(request, terms); break;
		case Operation::remove: changes_.remove(change(number, terms), text_of(request.key)); break;
		case Operation::set_read:
		case Operation::set_write:
			if (changes_.answer_known(change(number, terms), text_of(request.key))) break;
			if (request.header.value_length > options_.value_max) answer(number, Status::too_large);
			else if (!channel_->direct()) answer(number, Status::unsupported);
			else
				begin({.header = request.header,
					.terms = terms,
					.key = std::string(text_of(request.key)),
					.remote = request.remote});
			break;
		case Operation::written: return finish_written(request.header.number);
		case Operation::release: break;
		case Operation::index:
			if (std::exchange(one_sided_, true)) return false;
			if (!channel_->direct() || store_.index() == nullptr) answer(request.header.number, Status::unsupported);
			else grant_index(request.header.number);
			break;
		case Operation::scan: scan(request); break;
		case Operation::info: info(number); break;
		case Operation::watch:
			return watches_.begin(number, text_of(request.key), read_watch_request(request.value).scope);
		case Operation::unwatch: watches_.end(number); break;
	}
	return queue_.size() <= options_.requests_max;
}

// The work that a request is for the watches of its key, in records that take as long.
std::size_t Connection::work_for_watches(const Request& request) const {
	switch (request.header.operation) {
		case Operation::set:
		case Operation::set_read:
		case Operation::set_write:
		case Operation::remove: return watches_.work_of(text_of(request.key));
		case Operation::watch: return Watches::work_of_begin(text_of(request.key));
		default: return 0;
	}
}

void Connection::set(const Request& request, const Changes::Terms& terms) {
	if (request.value.size() > options_.value_max) return answer(request.header.number, Status::too_large);
	++counters_.eager_sets;
	changes_.set(change(request.header.number, terms), text_of(request.key), request.value);
}

void Connection::scan(const Request& request) {
	const ScanRequest wanted = read_scan_request(request.value);
	const std::size_t keys_max = std::clamp(wanted.keys_max, 1u, page_keys);
	const std::string_view prefix = text_of(request.key);
	std::vector<std::byte> page = begin_page();
	std::size_t keys = 0;
	const auto see = [&](std::string_view key) {
		if (key.starts_with(prefix) && changes_.standing(key) == Standing::owner) {
			append_key(page, key);
			++keys;
		}
		return keys < keys_max && page.size() < page_bytes;
	};
	finish_page(page, store_.scan(wanted.from, page_buckets, see, channel_->loop().now()));
	answer_copy(request.header.number, page);
}

void Connection::info(std::uint32_t number) {
	if (facts_ == nullptr) return answer(number, Status::unsupported);
	const std::string text = text_of(facts_->facts());
	answer_copy(number, bytes_of(std::string_view(text)));
}

// Answers a GET at once, or begins or queues its rendezvous.
void Connection::get(const RequestHeader& header, bool versioned, std::string_view key) {
	const Standing standing = changes_.standing(key);
	if (standing == Standing::other) return answer(header.number, Status::moved);
	Value value = standing == Standing::owner ? store_.get(key, channel_->loop().now()) : Value();
	if (!value) return answer(header.number, Status::missing);
	if (index_) store_.publish(key, value);
	const bool direct = channel_->direct();
	if (header.protocol == Protocol::rendezvous && !direct) return answer(header.number, Status::unsupported);
	const bool eager = header.protocol == Protocol::eager || value.size() == 0 ||
		(header.protocol == Protocol::automatic && (!direct || is_eager(key.size(), value.size(), eager_max_)));
	if (eager) {
		const std::uint64_t version = versioned ? value.version() : any_version;
		return answer_value(header.number, std::move(value), version);
	}
	if (under_way_ >= options_.rendezvous_max)
		return queue_.push_back(
			{.header = header, .terms = {.versioned = versioned}, .key = std::string(key), .remote = {}});
	++under_way_;
	grant_value(header.number, std::move(value), versioned);
}

void Connection::decided(std::uint32_t number, Status status, std::uint64_t version) {
	answer(number, status, 0, nullptr, version);
}

// Adds an answer, and returns where the caller writes `more` bytes behind the version.
std::byte* Connection::put_answer(AnswerHeader header, std::uint64_t version, std::size_t more) {
	header.versioned = version != any_version ? 1 : 0;
	return write_answer(outbox_.put(head_bytes(header) + more), header, version);
}

void Connection::answer(
	std::uint32_t number, Status status, std::uint32_t lease, const RemoteMemory* remote, std::uint64_t version) {
	++counters_.answers;
	requests_.end(number, status);
	const AnswerHeader header{
		.status = status, .number = number, .value_length = remote == nullptr ? 0 : remote->length, .lease = lease};
	std::byte* const at = put_answer(header, version, remote == nullptr ? 0 : sizeof *remote);
	if (remote != nullptr) std::memcpy(at, remote, sizeof *remote);
}

void Connection::answer_copy(std::uint32_t number, Bytes bytes) {
	++counters_.answers;
	requests_.end(number, Status::good);
	const AnswerHeader header{
		.status = Status::good, .number = number, .value_length = static_cast<std::uint32_t>(bytes.size())};
	std::memcpy(put_answer(header, any_version, bytes.size()), bytes.data(), bytes.size());
}

// Copies a short value into a message that has other answers; sends a long one from where it is.
void Connection::answer_value(std::uint32_t number, Value value, std::uint64_t version) {
	++counters_.answers;
	++counters_.eager_gets;
	requests_.end(number, Status::good);
	AnswerHeader header{.status = Status::good, .number = number, .value_length = value.size()};
	const Bytes bytes = value.bytes();
	if (outbox_.takes(sizeof header + sizeof version + bytes.size())) {
		std::byte* const at = put_answer(header, version, bytes.size());
		if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
	} else {
		header.versioned = version != any_version ? 1 : 0;
		write_answer(outbox_.put(head_bytes(header), bytes, std::move(value)), header, version);
	}
}

}  // namespace verbena::kv
