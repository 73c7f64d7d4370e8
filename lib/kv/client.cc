#include "lib/kv/client.h"

#include <algorithm>

#include "lib/channel/connect.h"

namespace verbena::kv {
namespace {

using async::Task;
using channel::Place;
using channel::Right;

// A request's number: its slot's index in the low bits, the slot's generation above.
constexpr std::uint32_t index_bits = 16;
constexpr std::uint32_t slots_max = 1u << index_bits;
// A release waits this long for a request that carries it, and at most this many may wait; the
// number is below the server's default of 16 rendezvous at once, so that waiting releases do not
// block GETs.
constexpr Nanoseconds release_patience = 2'000'000;
constexpr std::size_t releases_max = 8;
// A one-sided GET that finds a torn line or record reads this many times before it asks by message.
constexpr unsigned attempts_max = 4;

std::uint32_t number_of(std::uint32_t index, std::uint32_t generation) { return generation << index_bits | index; }

}  // namespace

std::string_view sentence_of(Error error) {
	switch (error) {
		case Error::missing: return "there is no such key";
		case Error::empty_key: return "the key is empty; a key has 1 to 4096 bytes";
		case Error::long_key: return "the key is too long; a key has 1 to 4096 bytes";
		case Error::long_value: return "the value is too long for this server; a value has at most 64 MiB";
		case Error::full: return "the store is full; delete keys, or start the server with more --memory";
		case Error::unsupported:
			return "rendezvous needs an RDMA connection, and this one is over TCP; use the protocol eager or auto";
		case Error::no_memory: return "this process has no registered memory left; have fewer large values under way";
		case Error::lost: return "the connection is lost; whether the store has changed is unknown";
	}
	return "?";
}

Task<std::expected<std::unique_ptr<Client>, std::string>> Client::open(
	std::unique_ptr<channel::Channel> channel, ClientOptions options, Nanoseconds deadline) {
	std::optional<channel::CloseAt> patience;
	if (deadline != never) patience.emplace(*channel, deadline);
	const Hello ours{.eager_max = options.eager_max, .message_max = options.message_max};
	const Bytes bytes = bytes_of(ours);
	const auto sent = co_await channel->send(bytes);
	if (!sent) co_return std::unexpected("the connection is lost: " + channel->reason());
	auto message = co_await channel->receive();
	if (!message)
		co_return std::unexpected(monotonic_now() < deadline
				? "the server ended the connection; is it a kv_server? " + channel->reason()
				: "the server does not answer");
	const auto theirs = read_hello(message->bytes(), Hello::from_server);
	if (!theirs)
		co_return std::unexpected(
			"the server is no kv_server of this version: " + std::string(name_of(theirs.error())));
	if (theirs->requests_max == 0) co_return std::unexpected("the server breaks the protocol: it allows no requests");
	if (options.protocol == Protocol::rendezvous && !channel->direct())
		co_return std::unexpected(std::string(sentence_of(Error::unsupported)));
	Published published;
	if (options.one_sided) {
		auto borrowed = co_await request_index(*channel);
		if (!borrowed) co_return std::unexpected(borrowed.error());
		published = *borrowed;
	}
	co_return std::unique_ptr<Client>(new Client(std::move(channel), options, *theirs, published));
}

// Asks for the right to read the index. It is the only request under way, so the next message
// answers it.
Task<std::expected<Client::Published, std::string>> Client::request_index(channel::Channel& channel) {
	const RequestHeader header{.operation = Operation::index};
	const Bytes request = std::as_bytes(std::span(&header, 1));
	const auto sent = co_await channel.send(request);
	if (!sent) co_return std::unexpected("the connection is lost: " + channel.reason());
	auto message = co_await channel.receive();
	if (!message) co_return std::unexpected("the server ended the connection: " + channel.reason());
	const auto answer = Answers(message->bytes()).next();
	if (!answer) co_return std::unexpected("the server breaks the protocol: " + std::string(name_of(answer.error())));
	if (answer->header.status != Status::index)
		co_return std::unexpected(channel.direct()
				? "the server publishes nothing for one-sided GETs; start it with --one-sided 64M"
				: "one-sided GETs need an RDMA connection, and this one is over TCP");
	if (!is_possible(answer->shape, answer->remote.length))
		co_return std::unexpected("the server breaks the protocol: an index of an impossible shape");
	co_return Published{answer->remote, answer->shape};
}

Client::Client(std::unique_ptr<channel::Channel> channel, const ClientOptions& options, const Hello& server,
	const Published& published)
	: channel_(std::move(channel)),
	  options_(options),
	  server_(server),
	  published_(published),
	  eager_max_(server.eager_max),
	  outbox_(*channel_, options.message_max),
	  reader_(channel_->loop(), receive()) {
	outbox_.limit(std::max(server.message_max, 1024u));
}

Client::~Client() { channel_->loop().cancel(*this); }

std::string Client::why_lost() const {
	if (!breach_.empty()) return breach_;
	return channel_->reason().empty() ? "the server closed the connection" : channel_->reason();
}

// Starting.

// Refuses the call, submits it, or leaves it to wait for a slot (Call::await_suspend() queues it).
void Client::start(Call& call) {
	const auto refuse = [&](Error error) {
		call.error_ = error;
		call.done_ = true;
	};
	if (call.key_.empty()) return refuse(Error::empty_key);
	if (call.key_.size() > key_max) return refuse(Error::long_key);
	if (call.value_.size() > server_.value_max) return refuse(Error::long_value);
	if (lost_) return refuse(Error::lost);
	if (!waiting_.empty() || under_way_ >= std::min(server_.requests_max, slots_max)) return;
	submit(call);
}

bool Client::is_eager(std::size_t key, std::size_t value) const {
	if (value == 0 || options_.protocol == Protocol::eager) return true;
	return options_.protocol == Protocol::automatic && (!channel_->direct() || kv::is_eager(key, value, eager_max_));
}

void Client::submit(Call& call) {
	call.submitted_ = true;
	++counters_.operations;
	call.number_ = take_slot(call);
	if (call.kind_ == Call::Kind::get && options_.one_sided && published_.shape.lines > 0)
		return (void)read_published(call.number_);
	if (call.kind_ == Call::Kind::get) return submit_eager(call, Operation::get);
	if (call.kind_ == Call::Kind::remove) return submit_eager(call, Operation::remove);

	if (is_eager(call.key_.size(), call.value_.size())) return submit_eager(call, Operation::set);
	const auto fail = [&](Error error) { finish(*slot_of(call.number_), error); };
	if (!channel_->direct()) return fail(Error::unsupported);
	Place place = std::move(call.place_);
	if (!place.buffer) {
		place = channel_->memory()->take(call.value_.size());
		if (!place.buffer) return fail(Error::no_memory);
		std::memcpy(place.buffer.data(), call.value_.data(), call.value_.size());
		++counters_.copied;
	}
	if (options_.form == Form::read) {
		set_by_read(call.number_, std::move(place), std::string(call.key_));
	} else {
		const RequestHeader header{.operation = Operation::set_write,
			.number = call.number_,
			.value_length = static_cast<std::uint32_t>(place.length)};
		put_request(header, call.key_, 0);
		call.place_ = std::move(place);
	}
}

// Adds a request with its key to the outbox, and returns where the caller writes `more` bytes
// behind them. The request carries a release if one waits.
std::byte* Client::put_request(RequestHeader header, std::string_view key, std::size_t more) {
	++counters_.records_sent;
	header.key_length = static_cast<std::uint16_t>(key.size());
	if (!releases_.empty()) {
		header.release = releases_.back();
		releases_.pop_back();
	}
	std::byte* const at = outbox_.put(sizeof header + key.size() + more);
	std::memcpy(at, &header, sizeof header);
	if (!key.empty()) std::memcpy(at + sizeof header, key.data(), key.size());
	return at + sizeof header + key.size();
}

// A long value leaves from the caller's memory, without a copy.
void Client::submit_eager(Call& call, Operation operation) {
	++counters_.eager;
	const RequestHeader header{.operation = operation,
		.protocol = operation == Operation::get ? options_.protocol : Protocol::automatic,
		.number = call.number_,
		.value_length = static_cast<std::uint32_t>(call.value_.size())};
	const Bytes value = call.value_;
	if (outbox_.takes(sizeof header + call.key_.size() + value.size())) {
		std::byte* const at = put_request(header, call.key_, value.size());
		if (!value.empty()) std::memcpy(at, value.data(), value.size());
		return;
	}
	++counters_.records_sent;
	RequestHeader whole = header;
	whole.key_length = static_cast<std::uint16_t>(call.key_.size());
	std::byte* const at = outbox_.put(sizeof whole + call.key_.size(), value);
	std::memcpy(at, &whole, sizeof whole);
	std::memcpy(at + sizeof whole, call.key_.data(), call.key_.size());
}

// Grants the server a lease to read the value, then asks it to.
Running Client::set_by_read(std::uint32_t number, Place place, std::string key) {
	const auto length = static_cast<std::uint32_t>(place.length);
	auto lease = co_await channel_->share(std::move(place), Right::read);
	Slot* const slot = slot_of(number);
	if (slot == nullptr) co_return;
	if (!lease) {
		finish(*slot, lease.error() == channel::Trouble::no_memory ? Error::no_memory : Error::lost);
		co_return;
	}
	++counters_.leased;
	slot->lease = std::move(*lease);
	const RemoteMemory& remote = slot->lease.remote();
	std::byte* const at =
		put_request({.operation = Operation::set_read, .number = number, .value_length = length}, key, sizeof remote);
	std::memcpy(at, &remote, sizeof remote);
}

// Slots.

std::uint32_t Client::take_slot(Call& call) {
	if (free_slots_.empty()) {
		free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
		slots_.emplace_back();
	}
	const std::uint32_t index = free_slots_.back();
	free_slots_.pop_back();
	slots_[index].call = &call;
	slots_[index].in_use = true;
	counters_.under_way_max = std::max(counters_.under_way_max, ++under_way_);
	return number_of(index, slots_[index].generation);
}

// Returns null if no operation with this number is under way.
Client::Slot* Client::slot_of(std::uint32_t number) {
	const std::uint32_t index = number & (slots_max - 1);
	if (index >= slots_.size()) return nullptr;
	Slot& slot = slots_[index];
	return slot.in_use && number_of(index, slot.generation) == number ? &slot : nullptr;
}

// Frees the slot, resumes the caller, and submits the next call that waits for a slot.
void Client::finish(Slot& slot, std::optional<Error> error) {
	Call* const call = std::exchange(slot.call, nullptr);
	slot.lease = {};
	slot.source = {};
	slot.in_use = false;
	++slot.generation;
	free_slots_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
	--under_way_;
	if (call != nullptr) {
		call->error_ = error;
		call->done_ = true;
		if (call->suspended_) channel_->loop().resume_soon(*call);
	}
	if (lost_) return;
	if (auto* const next = static_cast<Call*>(waiting_.pop_front()); next != nullptr) submit(*next);
}

// The caller's coroutine is being destroyed. If its operation is under way, the slot keeps a
// registered value, and the outbox copies any other value that it has not sent.
void Client::forget(Call& call) {
	if (!call.submitted_ || call.done_) return;
	Slot* const slot = slot_of(call.number_);
	if (slot == nullptr || slot->call != &call) return;
	slot->call = nullptr;
	if (call.place_.buffer) slot->source = std::move(call.place_);
	if (!call.value_.empty()) outbox_.detach(call.value_);
}

// Answers.

Task<void> Client::receive() {
	while (true) {
		auto message = co_await channel_->receive();
		if (!message) break;
		for (Answers answers(message->bytes()); breach_.empty() && !answers.done();) {
			const auto answer = answers.next();
			if (!answer) breach_ = "the server breaks the protocol: " + std::string(name_of(answer.error()));
			else if (!handle(*answer)) breach_ = "the server breaks the protocol: an answer to no request";
		}
		if (!breach_.empty()) break;
	}
	fail_all();
	channel_->close();
}

// Returns false if the server broke the protocol.
bool Client::handle(const Answer& answer) {
	++counters_.records_received;
	const std::uint32_t number = answer.header.number;
	Slot* const slot = slot_of(number);
	if (slot == nullptr) return false;
	Call* const call = slot->call;
	const bool is_direct = answer.header.status == Status::place || answer.header.status == Status::remote;
	if (is_direct && !channel_->direct()) return false;
	switch (answer.header.status) {
		case Status::good:
			if (call != nullptr && call->kind_ == Call::Kind::get) deliver_eager(*call, answer.value);
			finish(*slot, call == nullptr ? std::nullopt : call->error_);
			break;
		case Status::missing: finish(*slot, Error::missing); break;
		case Status::full: finish(*slot, Error::full); break;
		case Status::too_large: finish(*slot, Error::long_value); break;
		case Status::unsupported: finish(*slot, Error::unsupported); break;
		case Status::index: return false;
		case Status::place:
			if (const Place& source = call == nullptr ? slot->source : call->place_;
				!source.buffer || source.length != answer.remote.length)
				return false;
			write_value(number, answer.remote);
			break;
		case Status::remote:
			if (call == nullptr) {
				release(answer.header.lease);
				finish(*slot, Error::lost);
			} else if (call->kind_ != Call::Kind::get) {
				return false;
			} else {
				read_value(number, answer.header.lease, answer.remote);
			}
			break;
	}
	return true;
}

void Client::deliver_eager(Call& call, Bytes value) {
	call.fetched_ = {.offset = options_.headroom, .size = value.size()};
	call.fetched_.heap = channel::make_heap_block(options_.headroom + value.size() + 1);
	if (!call.fetched_.heap) {
		call.error_ = Error::no_memory;
		return;
	}
	std::byte* const at = call.fetched_.data();
	if (!value.empty()) std::memcpy(at, value.data(), value.size());
	at[value.size()] = std::byte{0};
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
	put_request({.operation = Operation::written, .number = number}, {}, 0);
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
		put_request({.operation = Operation::release}, {}, 0);
		++counters_.releases_alone;
	}
}

// The channel has ended: all operations fail, also those that wait for a slot.
void Client::fail_all() {
	lost_ = true;
	for (Slot& slot : slots_)
		if (slot.in_use) finish(slot, Error::lost);
	while (auto* const call = static_cast<Call*>(waiting_.pop_front())) {
		call->error_ = Error::lost;
		call->done_ = true;
		channel_->loop().resume_soon(*call);
	}
}

}  // namespace verbena::kv
