// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client.h"

#include <algorithm>

namespace verbena::kv {
namespace {

using async::Task;
using channel::Place;

// A request's number: its slot's index in the low bits, the slot's generation above.
constexpr std::uint32_t index_bits = 16;
constexpr std::uint32_t slots_max = 1u << index_bits;

std::uint32_t number_of(std::uint32_t index, std::uint32_t generation) { return generation << index_bits | index; }

}  // namespace

Client::Client(std::unique_ptr<channel::Channel> channel, const ClientOptions& options, const Hello& server,
	const Published& published)
	: channel_(std::move(channel)),
	  options_(options),
	  server_(server),
	  published_(published),
	  eager_max_(server.eager_max),
	  outbox_(*channel_, options.message_max),
	  heard_(channel_->loop().now()),
	  reader_(channel_->loop(), receive()) {
	outbox_.limit(std::max(server.message_max, 1024u));
}

Client::~Client() { channel_->loop().cancel(*this); }

std::string Client::why_lost() const {
	if (!breach_.empty()) return breach_;
	return channel_->reason().empty() ? "the server closed the connection" : channel_->reason();
}

// Starting.

// Refuses the call, submits it, or lets it wait for a slot.
void Client::start(Call& call) {
	const auto refuse = [&](Error error) { call.finish(error, channel_->loop()); };
	if (const auto fault = call.fault()) return refuse(*fault);
	if (const auto refusal = refusal_of(call)) return refuse(*refusal);
	if (call.value_.size() > server_.value_max) return refuse(Error::long_value);
	call.client_ = this;
	if (lost_) return give_back(call);
	if (!waiting_.empty() || under_way_ >= std::min(server_.requests_max, slots_max)) return waiting_.push_back(call);
	submit(call);
}

// Why this server is not asked, if it is not.
std::optional<Error> Client::refusal_of(const Call& call) const {
	const bool of_key = call.kind_ != Call::Kind::scan && call.kind_ != Call::Kind::info;
	const std::uint64_t needed = call.kind_ == Call::Kind::scan ? feature_scan
		: call.kind_ == Call::Kind::info                        ? feature_info
		: call.ttl_ms_ != 0                                     ? feature_ttl
																: 0;
	if ((server_.features & needed) != needed) return Error::old_server;
	if (of_key && !options_.of_cluster && (server_.features & feature_cluster) != 0) return Error::member;
	return {};
}

// The connection did not complete this call.
void Client::give_back(Call& call) {
	if (call.keeper_ != nullptr) call.keeper_->take_back(call);
	else call.finish(Error::lost, channel_->loop());
}

bool Client::is_eager(std::size_t key, std::size_t value) const {
	if (value == 0 || options_.protocol == Protocol::eager) return true;
	return options_.protocol == Protocol::automatic && (!channel_->direct() || kv::is_eager(key, value, eager_max_));
}

void Client::submit(Call& call) {
	call.submitted_ = true;
	call.attempts_.sent(server_.identity, channel_->loop().now());
	++counters_.operations;
	call.number_ = take_slot(call);
	if (call.kind_ == Call::Kind::get && options_.one_sided && !call.versioned_ && published_.shape.lines > 0)
		return (void)read_published(call.number_);
	if (call.kind_ == Call::Kind::get) return submit_eager(call, Operation::get);
	if (call.kind_ == Call::Kind::remove) return submit_eager(call, Operation::remove);
	if (call.kind_ == Call::Kind::scan) return submit_eager(call, Operation::scan);
	if (call.kind_ == Call::Kind::info) return submit_eager(call, Operation::info);

	if (is_eager(call.key_.size(), call.value_.size())) return submit_eager(call, Operation::set);
	const auto fail = [&](Error error) { finish(*slot_of(call.number_), error); };
	if (!channel_->direct()) return fail(Error::unsupported);
	Place place = call.place_;
	if (!place.buffer) {
		place = channel_->memory()->take(call.value_.size());
		if (!place.buffer) return fail(Error::no_memory);
		std::memcpy(place.buffer.data(), call.value_.data(), call.value_.size());
		++counters_.copied;
	}
	if (options_.form == Form::read) {
		set_by_read(call.number_, std::move(place));
	} else {
		const RequestHeader header{.operation = Operation::set_write,
			.number = call.number_,
			.value_length = static_cast<std::uint32_t>(place.length)};
		put_request(header, call, 0);
		call.place_ = std::move(place);
	}
}

// Adds a request with its id, version, time to live and key to the outbox, and returns where the
// caller writes `more` bytes behind them. The request carries a release if one waits. If `body` is
// not empty, it follows in the same message from where it lies, without a copy.
std::byte* Client::put_request(RequestHeader header, const Call& call, std::size_t more, Bytes body) {
	header.key_length = static_cast<std::uint16_t>(call.key_.size());
	const bool identified = call.ordered_.order != 0 && call.is_change();
	const bool expects = call.versioned_ && call.is_change();
	if (identified) header = with_id(header);
	if (call.versioned_) header = with_version(header);
	if (call.ttl_ms_ != 0) header = with_ttl(header);
	const std::size_t before_key = (identified ? sizeof(ChangeId) : 0) + (expects ? sizeof call.expected_ : 0) +
		(call.ttl_ms_ != 0 ? sizeof call.ttl_ms_ : 0);
	std::byte* at = put_header(header, before_key + call.key_.size() + more, body);
	if (identified) {
		const ChangeId id{.order = call.ordered_.order, .settled = call.settled_};
		std::memcpy(at, &id, sizeof id);
		at += sizeof id;
	}
	if (expects) {
		std::memcpy(at, &call.expected_, sizeof call.expected_);
		at += sizeof call.expected_;
	}
	if (call.ttl_ms_ != 0) {
		std::memcpy(at, &call.ttl_ms_, sizeof call.ttl_ms_);
		at += sizeof call.ttl_ms_;
	}
	std::memcpy(at, call.key_.data(), call.key_.size());
	return at + call.key_.size();
}

std::byte* Client::put_header(RequestHeader header, std::size_t more, Bytes body) {
	++counters_.records_sent;
	if (!releases_.empty()) {
		header.release = releases_.back();
		releases_.pop_back();
	}
	const std::size_t bytes = sizeof header + more;
	std::byte* const at = body.empty() ? outbox_.put(bytes) : outbox_.put(bytes, body);
	std::memcpy(at, &header, sizeof header);
	return at + sizeof header;
}

// A long value leaves from the caller's memory, without a copy.
void Client::submit_eager(Call& call, Operation operation) {
	++counters_.eager;
	const RequestHeader header{.operation = operation,
		.protocol = operation == Operation::get ? options_.protocol : Protocol::automatic,
		.number = call.number_,
		.value_length = static_cast<std::uint32_t>(call.value_.size())};
	const Bytes value = call.value_;
	const std::size_t before_key = sizeof header + sizeof(ChangeId) + sizeof call.expected_ + sizeof call.ttl_ms_;
	if (!outbox_.takes(before_key + call.key_.size() + value.size())) {
		put_request(header, call, 0, value);
		return;
	}
	std::byte* const at = put_request(header, call, value.size());
	if (!value.empty()) std::memcpy(at, value.data(), value.size());
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

// Frees the slot, resumes the caller, and submits the next call that waits for a slot. A call of a
// Router that is lost goes back to it.
void Client::finish(Slot& slot, std::optional<Error> error) {
	Call* const call = free(slot);
	if (call != nullptr && error == Error::lost) {
		call->attempts_.lost();
		give_back(*call);
	} else if (call != nullptr) {
		call->finish(error, channel_->loop());
	}
	go_on();
}

// The server has not executed the request.
void Client::refuse(Slot& slot) {
	if (Call* const call = free(slot); call != nullptr) {
		call->attempts_.refused();
		give_back(*call);
	}
	go_on();
}

Call* Client::free(Slot& slot) {
	Call* const call = std::exchange(slot.call, nullptr);
	slot.lease = {};
	slot.source = {};
	slot.in_use = false;
	++slot.generation;
	free_slots_.push_back(static_cast<std::uint32_t>(&slot - slots_.data()));
	--under_way_;
	return call;
}

void Client::go_on() {
	if (lost_) return;
	if (auto* const next = static_cast<Call*>(waiting_.pop_front()); next != nullptr) submit(*next);
	else if (closing_ && under_way_ == 0) channel_->close();
}

void Client::close_when_done() {
	closing_ = true;
	if (under_way_ == 0) channel_->close();
}

void Client::give_up() {
	if (lost_) return;
	breach_ = "the server does not answer";
	fail_all();
	channel_->close();
}

// The call is being destroyed, or its deadline has passed. If it is under way, the slot keeps a
// registered value, and the outbox copies any other value that it has not sent.
void Client::forget(Call& call) {
	if (!call.submitted_) return;
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
		heard_ = channel_->loop().now();
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
	if (answer.header.status == Status::leaving) {
		leave();
		return true;
	}
	if (answer.header.status == Status::event) {
		take_event(answer);
		return true;
	}
	const std::uint32_t number = answer.header.number;
	Slot* const slot = slot_of(number);
	if (slot == nullptr) return false;
	Call* const call = slot->call;
	const bool is_direct = answer.header.status == Status::place || answer.header.status == Status::remote;
	if (is_direct && !channel_->direct()) return false;
	if (call != nullptr) call->version_ = answer.version;
	switch (answer.header.status) {
		case Status::good:
			if (call != nullptr && call->kind_ == Call::Kind::scan && !read_page(answer.value)) return false;
			finish(*slot, call != nullptr && !call->is_change() ? deliver_eager(*call, answer.value) : std::nullopt);
			break;
		case Status::missing: finish(*slot, Error::missing); break;
		case Status::full: finish(*slot, Error::full); break;
		case Status::changed: finish(*slot, Error::changed); break;
		case Status::disk: finish(*slot, Error::disk); break;
		case Status::too_large: finish(*slot, Error::long_value); break;
		case Status::unsupported: finish(*slot, Error::unsupported); break;
		case Status::moved:
		case Status::busy: refuse(*slot); break;
		// The caller has abandoned this change, or it could not be settled.
		case Status::settled: finish(*slot, Error::lost); break;
		case Status::index:
		case Status::event:
		case Status::leaving: return false;
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

// The server ends and has not executed the requests under way.
void Client::leave() {
	for (Slot& slot : slots_)
		if (slot.in_use && slot.call != nullptr) slot.call->attempts_.refused();
	breach_ = "the server has ended";
	fail_all();
}

// The channel has ended: all operations fail, also those that wait for a slot.
void Client::fail_all() {
	if (std::exchange(lost_, true)) return;
	for (Slot& slot : slots_)
		if (slot.in_use) finish(slot, Error::lost);
	while (auto* const call = static_cast<Call*>(waiting_.pop_front())) give_back(*call);
	watches_.clear();
	channel_->loop().resume_soon(until_lost_);
}

}  // namespace verbena::kv
