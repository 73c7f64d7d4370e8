// SPDX-License-Identifier: Apache-2.0
// The part of Client that moves values: those in an answer, rendezvous, and one-sided GETs.
#include "lib/kv/client.h"

namespace verbena::kv {
namespace {

using channel::Place;
using channel::Right;

// A release waits this long for a request that carries it, and at most this many may wait; the
// number is below the server's default of 16 rendezvous at once, so that waiting releases do not
// block GETs.
constexpr Nanoseconds release_patience = 2'000'000;
constexpr std::size_t releases_max = 8;
// A one-sided GET that finds a torn line or record reads this many times before it asks by message.
constexpr unsigned attempts_max = 4;

}  // namespace

// Copies a value out of its answer.
std::optional<Error> Client::deliver_eager(Call& call, Bytes value) {
	call.fetched_ = {.offset = options_.headroom, .size = value.size()};
	call.fetched_.heap = channel::make_heap_block(options_.headroom + value.size() + 1);
	if (!call.fetched_.heap) return Error::no_memory;
	std::byte* const at = call.fetched_.data();
	if (!value.empty()) std::memcpy(at, value.data(), value.size());
	at[value.size()] = std::byte{0};
	return {};
}

// Grants the server a lease to read the value, then asks it to.
Running Client::set_by_read(std::uint32_t number, Place place) {
	const auto length = static_cast<std::uint32_t>(place.length);
	auto lease = co_await channel_->share(std::move(place), Right::read);
	Slot* const slot = slot_of(number);
	if (slot == nullptr) co_return;
	// No request has left, so an abandoned call has no effect.
	if (slot->call == nullptr) {
		finish(*slot, {});
		co_return;
	}
	if (!lease) {
		finish(*slot, lease.error() == channel::Trouble::no_memory ? Error::no_memory : Error::lost);
		co_return;
	}
	++counters_.leased;
	slot->lease = std::move(*lease);
	const RemoteMemory& remote = slot->lease.remote();
	const RequestHeader header{.operation = Operation::set_read, .number = number, .value_length = length};
	std::memcpy(put_request(header, *slot->call, sizeof remote), &remote, sizeof remote);
}

// Writes a SET's value to the place that the server granted, and reports it. The answer follows.
Running Client::write_value(std::uint32_t number, RemoteMemory to) {
	const Slot* const before = slot_of(number);
	Place place = before->call != nullptr ? before->call->place_ : before->source;
	const auto written = co_await channel_->write(to, std::move(place));
	Slot* const slot = slot_of(number);
	if (slot == nullptr) co_return;
	if (!written) {
		finish(*slot, Error::lost);
		co_return;
	}
	++counters_.writes;
	put_header({.operation = Operation::written, .number = number});
}

// Reads a GET's value under a lease, which ends afterwards. After a failed READ the connection is
// lost, and the lease with it.
Running Client::read_value(std::uint32_t number, std::uint32_t lease, RemoteMemory from) {
	const std::size_t headroom = options_.headroom;
	channel::Buffer buffer = channel_->memory()->take(headroom + from.length + 1);
	if (!buffer) {
		release(lease);
		finish(*slot_of(number), Error::no_memory);
		co_return;
	}
	Place place(buffer, headroom, from.length);
	const auto read = co_await channel_->read(std::move(place), from);
	if (read) {
		++counters_.reads;
		buffer.data()[headroom + from.length] = std::byte{0};
		release(lease);
	}
	Slot* const slot = slot_of(number);
	if (slot == nullptr) co_return;
	if (read && slot->call != nullptr)
		slot->call->fetched_ = {.buffer = std::move(buffer), .offset = headroom, .size = from.length};
	finish(*slot, read ? std::optional<Error>() : Error::lost);
}

// A one-sided GET: reads the key's line, then the record to which it refers. A torn line or record
// is read again; after attempts_max the GET asks by message. A value that is in its line is
// delivered in the buffer into which the line was read.
Running Client::read_published(std::uint32_t number) {
	const std::uint64_t hash = index_hash(slot_of(number)->call->key_, published_.shape.seed);
	const auto at = static_cast<std::uint32_t>(hash & (published_.shape.lines - 1)) * line_bytes;
	const RemoteMemory remote_line = published_.area.part(at, line_bytes);
	const std::size_t headroom = options_.headroom;
	const std::size_t front = headroom > sizeof(LineHeader) ? headroom - sizeof(LineHeader) : 0;
	channel::Buffer line = channel_->memory()->take(front + line_bytes);
	for (unsigned attempt = 0; line && attempt < attempts_max; ++attempt) {
		Place into(line, front, line_bytes);
		const auto read = co_await channel_->read(std::move(into), remote_line);
		if (!is_wanted(number, read.has_value())) co_return;
		const SeenLine found =
			read_line(line.bytes().subspan(front), slot_of(number)->call->key_, hash, published_.area.length);
		if (found.seen == Seen::absent) break;
		if (found.seen == Seen::torn) {
			++counters_.one_sided_torn;
			continue;
		}
		const std::uint32_t length = found.header.value_length, whole = found.header.record_bytes();
		if (found.seen == Seen::inside) {
			deliver_published(number, std::move(line), front + sizeof(LineHeader), length);
			co_return;
		}
		channel::Buffer buffer = channel_->memory()->take(headroom + whole + 1);
		if (!buffer) break;
		Place record(buffer, headroom, whole);
		const RemoteMemory remote_record = published_.area.part(found.header.offset, whole);
		const auto read_it = co_await channel_->read(std::move(record), remote_record);
		if (!is_wanted(number, read_it.has_value())) co_return;
		if (read_record(buffer.bytes().subspan(headroom, whole), found.header, slot_of(number)->call->key_) !=
			Seen::outside) {
			++counters_.one_sided_torn;
			continue;
		}
		deliver_published(number, std::move(buffer), headroom, length);
		co_return;
	}
	++counters_.one_sided_asked;
	submit_eager(*slot_of(number)->call, Operation::get);
}

// The key lies behind the value and is no longer needed: a NUL replaces its first byte.
void Client::deliver_published(std::uint32_t number, channel::Buffer buffer, std::size_t offset, std::size_t size) {
	++counters_.one_sided;
	buffer.data()[offset + size] = std::byte{0};
	Slot& slot = *slot_of(number);
	slot.call->fetched_ = {.buffer = std::move(buffer), .offset = offset, .size = size};
	finish(slot, {});
}

// Returns true if the READ succeeded and a caller still waits; otherwise finishes the operation.
bool Client::is_wanted(std::uint32_t number, bool good) {
	Slot* const slot = slot_of(number);
	if (slot == nullptr) return false;
	if (good && slot->call != nullptr) return true;
	finish(*slot, good ? std::optional<Error>() : Error::lost);
	return false;
}

// Queues a release for the next request; expire() sends it alone if none follows soon.
void Client::release(std::uint32_t lease) {
	if (lost_ || lease == 0) return;
	if (releases_.empty()) channel_->loop().schedule(*this, channel_->loop().now() + release_patience);
	releases_.push_back(lease);
	if (releases_.size() > releases_max) channel_->loop().at_turn_end(*this);
}

// Callers that this turn's answers resume send their requests in the next turn, and these carry the
// releases. After a turn without any request, the releases leave alone.
void Client::turn_ends() {
	if (releases_.size() <= releases_max) return;
	if (std::exchange(records_seen_, counters_.records_sent) == counters_.records_sent) expire();
	else channel_->loop().at_turn_end(*this);
}

// Sends the releases that wait, each in a record of its own.
void Client::expire() {
	while (!releases_.empty()) {
		put_header({.operation = Operation::release});
		++counters_.releases_alone;
	}
}

}  // namespace verbena::kv
