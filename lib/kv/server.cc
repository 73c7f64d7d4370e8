#include "lib/kv/server.h"

#include <algorithm>

namespace verbena::kv {
namespace {

using async::Task;
using channel::Right;

// A lease's number on the wire: its index in `grants_`, plus 1, in the low bits, its generation
// above. It is never 0, and the number of an expired lease does not match its successor at the same
// index.
constexpr std::uint32_t index_bits = 12;
constexpr std::uint32_t number_of(std::uint32_t index, std::uint32_t generation) {
	return generation << index_bits | (index + 1);
}

// A message may have millions of records without an answer: after this many, the other clients have
// a turn.
constexpr std::size_t records_a_turn = 4096;

// The first READ under way may take `lease_ms`, and this long for each MiB; if it takes longer, the
// client is stalled.
constexpr Nanoseconds read_time_per_mib = 1'000'000'000;
// Before the server gives up, it waits this long for completions: if this thread was not scheduled
// itself, the READ may have been done long ago.
constexpr Nanoseconds read_grace = 100'000'000;

}  // namespace

Connection::Connection(
	Store& store, std::unique_ptr<channel::Channel> channel, const ServerOptions& options, ServerCounters& counters)
	: store_(store),
	  channel_(std::move(channel)),
	  options_(options),
	  counters_(counters),
	  eager_max_(options.eager_max),
	  outbox_(*channel_, options.message_max, store.journal()) {}

Connection::~Connection() { channel_->loop().cancel(*this); }

Task<std::string> Connection::serve() {
	std::string why;
	if (!co_await greet()) {
		why = "a client speaks another protocol, or another version of this one";
	} else {
		while (true) {
			auto message = co_await channel_->receive();
			if (!message) break;
			std::size_t handled = 0;
			for (Requests requests(message->bytes()); why.empty() && !requests.done();) {
				if (++handled % records_a_turn == 0) co_await async::NextTurn(channel_->loop());
				const auto request = requests.next();
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

Task<bool> Connection::greet() {
	auto message = co_await channel_->receive();
	if (!message) co_return true;  // the client closed the channel without a word: no breach
	const auto theirs = read_hello(message->bytes(), Hello::from_client);
	if (!theirs) co_return false;
	if (theirs->eager_max > 0) eager_max_ = theirs->eager_max;
	if (theirs->message_max > 0) outbox_.limit(std::max(theirs->message_max, 1024u));
	const Hello ours{.side = Hello::from_server,
		.eager_max = eager_max_,
		.value_max = options_.value_max,
		.requests_max = options_.requests_max,
		.message_max = options_.message_max,
		.lease_ms = options_.lease_ms};
	const Bytes bytes = bytes_of(ours);
	co_await channel_->send(bytes);
	co_return true;
}

// Returns false if the client broke the protocol: a request out of place, or too many of them.
bool Connection::handle(const Request& request) {
	++counters_.requests;
	if (request.header.release != 0) release(request.header.release);
	switch (request.header.operation) {
		case Operation::get: get(request.header, text_of(request.key)); break;
		case Operation::set: set(request); break;
		case Operation::remove:
			answer(request.header.number, store_.remove(text_of(request.key)) ? Status::good : Status::missing);
			break;
		case Operation::set_read:
		case Operation::set_write:
			if (request.header.value_length > options_.value_max) answer(request.header.number, Status::too_large);
			else if (!channel_->direct()) answer(request.header.number, Status::unsupported);
			else begin({.header = request.header, .key = std::string(text_of(request.key)), .remote = request.remote});
			break;
		case Operation::written: return finish_written(request.header.number);
		case Operation::release: break;
		case Operation::index:
			if (std::exchange(one_sided_, true)) return false;
			if (!channel_->direct() || store_.index() == nullptr) answer(request.header.number, Status::unsupported);
			else grant_index(request.header.number);
			break;
	}
	return queue_.size() <= options_.requests_max;
}

void Connection::set(const Request& request) {
	if (request.value.size() > options_.value_max) return answer(request.header.number, Status::too_large);
	++counters_.eager_sets;
	answer(request.header.number, store_.set(text_of(request.key), request.value) ? Status::good : Status::full);
}

// Answers a GET at once, or begins or queues its rendezvous.
void Connection::get(const RequestHeader& header, std::string_view key) {
	Value value = store_.get(key);
	if (!value) return answer(header.number, Status::missing);
	if (index_) store_.publish(key, value);
	const bool direct = channel_->direct();
	if (header.protocol == Protocol::rendezvous && !direct) return answer(header.number, Status::unsupported);
	const bool eager = header.protocol == Protocol::eager || value.size() == 0 ||
		(header.protocol == Protocol::automatic && (!direct || is_eager(key.size(), value.size(), eager_max_)));
	if (eager) return answer_value(header.number, std::move(value));
	if (under_way_ >= options_.rendezvous_max)
		return queue_.push_back({.header = header, .key = std::string(key), .remote = {}});
	++under_way_;
	grant_value(header.number, std::move(value));
}

void Connection::answer(std::uint32_t number, Status status, std::uint32_t lease, const RemoteMemory* remote) {
	++counters_.answers;
	const AnswerHeader header{
		.status = status, .number = number, .value_length = remote == nullptr ? 0 : remote->length, .lease = lease};
	std::byte* const at = outbox_.put(sizeof header + (remote == nullptr ? 0 : sizeof *remote));
	std::memcpy(at, &header, sizeof header);
	if (remote != nullptr) std::memcpy(at + sizeof header, remote, sizeof *remote);
}

// Copies a short value into a message that has other answers; sends a long one from where it is.
void Connection::answer_value(std::uint32_t number, Value value) {
	++counters_.answers;
	++counters_.eager_gets;
	const AnswerHeader header{.status = Status::good, .number = number, .value_length = value.size()};
	const Bytes bytes = value.bytes();
	if (outbox_.takes(sizeof header + bytes.size())) {
		std::byte* const at = outbox_.put(sizeof header + bytes.size());
		std::memcpy(at, &header, sizeof header);
		if (!bytes.empty()) std::memcpy(at + sizeof header, bytes.data(), bytes.size());
	} else {
		std::memcpy(outbox_.put(sizeof header, bytes, std::move(value)), &header, sizeof header);
	}
}

// Rendezvous.

void Connection::begin(Queued request) {
	if (request.header.operation == Operation::get) return get(request.header, request.key);
	if (under_way_ >= options_.rendezvous_max) return queue_.push_back(std::move(request));
	++under_way_;
	if (request.header.operation == Operation::set_read) read_value(std::move(request));
	else grant_place(std::move(request));
}

void Connection::end_rendezvous() {
	--under_way_;
	begin_queued();
}

// A rendezvous that ends at once calls end_rendezvous(), and so this function again. The inner call
// returns, so that a long queue is a loop here and no recursion.
void Connection::begin_queued() {
	if (std::exchange(beginning_, true)) return;
	while (!queue_.empty() && under_way_ < options_.rendezvous_max) {
		Queued next = std::move(queue_.front());
		queue_.pop_front();
		begin(std::move(next));
	}
	beginning_ = false;
}

// Grants the client a lease to read this version. A value on the heap is copied to registered
// memory first.
Running Connection::grant_value(std::uint32_t number, Value value) {
	channel::Buffer buffer = value.buffer();
	if (!buffer) {
		buffer = channel_->memory()->take(value.size());
		if (buffer) std::memcpy(buffer.data(), value.bytes().data(), value.size());
		++counters_.staged;
	}
	if (!buffer) {
		answer(number, Status::full);
		end_rendezvous();
		co_return;
	}
	channel::Place place(std::move(buffer), 0, value.size());
	auto lease = co_await channel_->share(std::move(place), Right::read);
	if (!lease) {
		answer(number, Status::full);
		end_rendezvous();
		co_return;
	}
	++counters_.leased_gets;
	const std::uint32_t index = take_grant();
	Grant& loan = grants_[index];
	loan.value = std::move(value);
	loan.lease = std::move(*lease);
	answer(number, Status::remote, number_of(index, loan.generation), &loan.lease.remote());
}

// Reads a SET's value from the client's memory, then stores it.
Running Connection::read_value(Queued request) {
	const std::uint32_t number = request.header.number;
	Value value = store_.take(request.key, request.header.value_length);
	if (!value) {
		answer(number, Status::full);
	} else {
		reading_.push_back(value.size());
		if (reading_.size() == 1) limit_reading();
		channel::Place place(value.buffer());
		const auto read = co_await channel_->read(std::move(place), request.remote);
		reading_.pop_front();
		limit_reading();
		if (read) {
			++counters_.read_sets;
			answer(number, store_.set(std::move(value)) ? Status::good : Status::full);
		}
	}
	end_rendezvous();
}

// Restarts the deadline for the READ that must complete next: the time of a lease, and more for a
// long value. A client that is slow but makes progress meets it.
void Connection::limit_reading() {
	read_deadline_ = never;
	read_overdue_ = false;
	if (reading_.empty()) return;
	const Nanoseconds lease = Nanoseconds{options_.lease_ms} * 1'000'000,
					  moving = reading_.front() * read_time_per_mib >> 20;
	read_deadline_ = channel_->loop().now() + lease + moving;
	schedule_expiry(read_deadline_);
}

// Grants the client a lease to write the value of a SET.
Running Connection::grant_place(Queued request) {
	const std::uint32_t number = request.header.number;
	Value value = store_.take(request.key, request.header.value_length);
	if (!value) {
		answer(number, Status::full);
		end_rendezvous();
		co_return;
	}
	channel::Place place(value.buffer());
	auto lease = co_await channel_->share(std::move(place), Right::write);
	if (!lease) {
		answer(number, Status::full);
		end_rendezvous();
		co_return;
	}
	const std::uint32_t index = take_grant();
	Grant& loan = grants_[index];
	loan.value = std::move(value);
	loan.lease = std::move(*lease);
	loan.number = number;
	loan.is_place = true;
	answer(number, Status::place, 0, &loan.lease.remote());
}

// The client has written the value of this SET_WRITE. Returns false if it has no lease for that.
bool Connection::finish_written(std::uint32_t number) {
	const auto is_it = [&](const Grant& loan) {
		return loan.in_use && loan.is_place && loan.number == number && loan.lease;
	};
	const auto found = std::ranges::find_if(grants_, is_it);
	if (found == grants_.end()) return false;
	store_written(static_cast<std::uint32_t>(found - grants_.begin()));
	return true;
}

// Ends the client's right to write, and only then stores the value: a stored value is immutable.
Running Connection::store_written(std::uint32_t index) {
	channel::Lease lease = std::move(grants_[index].lease);
	const auto ended = co_await channel_->end(std::move(lease));
	Grant& loan = grants_[index];
	if (ended) {
		++counters_.written_sets;
		answer(loan.number, store_.set(std::move(loan.value)) ? Status::good : Status::full);
	}
	free_grant(index);
}

// Grants the client a lease to read the index for as long as it is connected.
Running Connection::grant_index(std::uint32_t number) {
	channel::Place area = store_.index()->area();
	auto lease = co_await channel_->share(std::move(area), Right::read);
	if (!lease) {
		answer(number, Status::full);
		co_return;
	}
	++counters_.indexes_granted;
	++counters_.answers;
	index_ = std::move(*lease);
	const AnswerHeader header{.status = Status::index, .number = number};
	const RemoteMemory& remote = index_.remote();
	const IndexShape& shape = store_.index()->shape();
	std::byte* const at = outbox_.put(sizeof header + sizeof remote + sizeof shape);
	std::memcpy(at, &header, sizeof header);
	std::memcpy(at + sizeof header, &remote, sizeof remote);
	std::memcpy(at + sizeof header + sizeof remote, &shape, sizeof shape);
}

// Leases.

// Returns the index of a free entry, whose time starts now.
std::uint32_t Connection::take_grant() {
	if (free_grants_.empty()) {
		free_grants_.push_back(static_cast<std::uint32_t>(grants_.size()));
		grants_.emplace_back();
	}
	const std::uint32_t index = free_grants_.back();
	free_grants_.pop_back();
	grants_[index].deadline = channel_->loop().now() + Nanoseconds{options_.lease_ms} * 1'000'000;
	grants_[index].in_use = true;
	schedule_expiry(grants_[index].deadline);
	return index;
}

// The client has finished reading. The lease may have expired before; then there is nothing to do.
void Connection::release(std::uint32_t lease) {
	const std::uint32_t index = (lease & ((1u << index_bits) - 1)) - 1;
	if (index >= grants_.size()) return;
	const Grant& loan = grants_[index];
	if (loan.in_use && !loan.is_place && number_of(index, loan.generation) == lease) free_grant(index);
}

// Ends a lease: its memory window is invalidated and its version released. A queued rendezvous may
// then begin.
void Connection::free_grant(std::uint32_t index) {
	Grant& loan = grants_[index];
	loan.lease = {};
	loan.value = {};
	loan.in_use = loan.is_place = false;
	++loan.generation;
	free_grants_.push_back(index);
	end_rendezvous();
}

// Sets the timer to this time, unless it expires earlier.
void Connection::schedule_expiry(Nanoseconds when) {
	if (when >= next_expiry_) return;
	next_expiry_ = when;
	channel_->loop().schedule(*this, when);
}

// Ends expired leases, and the connection of a client whose value could not be read in time. A
// client that uses an expired lease loses its connection by an RDMA access error.
void Connection::expire() {
	next_expiry_ = never;
	const Nanoseconds now = channel_->loop().now();
	if (read_deadline_ <= now && !std::exchange(read_overdue_, true)) read_deadline_ = now + read_grace;
	if (read_deadline_ <= now) {
		given_up_ = channel_->path().peer + " is stalled: its value could not be read in time";
		return channel_->close();
	}
	schedule_expiry(read_deadline_);
	for (std::uint32_t i = 0; i < grants_.size(); ++i) {
		if (!grants_[i].in_use || !grants_[i].lease) continue;
		if (grants_[i].deadline <= now) {
			++(grants_[i].is_place ? counters_.places_expired : counters_.leases_expired);
			free_grant(i);
		} else {
			schedule_expiry(grants_[i].deadline);
		}
	}
}

}  // namespace verbena::kv
