// SPDX-License-Identifier: Apache-2.0
// The part of Connection that moves values by RDMA: rendezvous, and the leases for them.
#include <algorithm>

#include "lib/kv/server.h"

namespace verbena::kv {
namespace {

using channel::Right;

// A lease's number on the wire: its index in `grants_`, plus 1, in the low bits, its generation
// above. It is never 0, and the number of an expired lease does not match its successor at the same
// index.
constexpr std::uint32_t lease_index_bits = 12;
constexpr std::uint32_t lease_number(std::uint32_t index, std::uint32_t generation) {
	return generation << lease_index_bits | (index + 1);
}

// The first READ under way may take `lease_ms`, and this long for each MiB; if it takes longer, the
// client is stalled.
constexpr Nanoseconds read_time_per_mib = 1'000'000'000;
// Before the server gives up, it waits this long for completions: if this thread was not scheduled
// itself, the READ may have been done long ago.
constexpr Nanoseconds read_grace = 100'000'000;

}  // namespace

// Rendezvous.

void Connection::begin(Queued request) {
	if (request.header.operation == Operation::get) return get(request.header, request.terms.versioned, request.key);
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

// Grants the client a lease to read this version.
Running Connection::grant_value(std::uint32_t number, Value value, bool versioned) {
	channel::Place place(value.buffer(*channel_->memory()));
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
	answer(number, Status::remote, lease_number(index, loan.generation), &loan.lease.remote(),
		versioned ? loan.value.version() : any_version);
}

// Reads a SET's value from the client's memory, then stores it.
Running Connection::read_value(Queued request) {
	const std::uint32_t number = request.header.number;
	Value value = store_.take(request.key, request.header.value_length, request.terms.life());
	if (!value) {
		answer(number, changes_.refusal());
	} else {
		reading_.push_back(value.size());
		if (reading_.size() == 1) limit_reading();
		channel::Place place(value.buffer(*channel_->memory()));
		const auto read = co_await channel_->read(std::move(place), request.remote);
		reading_.pop_front();
		limit_reading();
		if (read && !stopping_) {
			++counters_.read_sets;
			changes_.set(change(number, request.terms), std::move(value));
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
	Value value = store_.take(request.key, request.header.value_length, request.terms.life());
	if (!value) {
		answer(number, changes_.refusal());
		end_rendezvous();
		co_return;
	}
	channel::Place place(value.buffer(*channel_->memory()));
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
	loan.terms = request.terms;
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
	if (ended && !stopping_) {
		++counters_.written_sets;
		changes_.set(change(loan.number, loan.terms), std::move(loan.value));
	}
	free_grant(index);
}

// Grants the client a lease to read the index for as long as it is connected.
Running Connection::grant_index(std::uint32_t number) {
	channel::Place area = store_.index()->area(*channel_->memory());
	auto lease = co_await channel_->share(std::move(area), Right::read);
	if (!lease) {
		answer(number, Status::full);
		co_return;
	}
	++counters_.indexes_granted;
	++counters_.answers;
	requests_.end(number, Status::index);
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
	const std::uint32_t index = (lease & ((1u << lease_index_bits) - 1)) - 1;
	if (index >= grants_.size()) return;
	const Grant& loan = grants_[index];
	if (loan.in_use && !loan.is_place && lease_number(index, loan.generation) == lease) free_grant(index);
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
