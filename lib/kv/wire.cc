// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/wire.h"

#include <algorithm>

#include "lib/kv/scan_format.h"

namespace verbena::kv {
namespace {

// Takes the next `count` bytes off `rest`; the caller has checked that `rest` has them.
Bytes take(Bytes& rest, std::size_t count) {
	const Bytes taken = rest.first(count);
	rest = rest.subspan(count);
	return taken;
}

// Returns false if `rest` is too short.
template <class T> bool take_value(Bytes& rest, T& value) {
	if (rest.size() < sizeof value) return false;
	std::memcpy(&value, take(rest, sizeof value).data(), sizeof value);
	return true;
}

bool is_set(Operation operation) {
	return operation == Operation::set || operation == Operation::set_read || operation == Operation::set_write;
}
bool is_change(Operation operation) { return is_set(operation) || operation == Operation::remove; }

// Whether a WATCH asks for something: only all keys together have no key.
bool is_possible(const Request& watch) {
	const Scope scope = read_watch_request(watch.value).scope;
	return scope == Scope::prefix || (scope == Scope::key && !watch.key.empty());
}

bool is_possible(const AnswerHeader& event) {
	if (event.event == EventKind::none || event.event > EventKind::refused) return false;
	const bool has_key = event.event < EventKind::look_again;
	return event.versioned == 1 && (event.value_length > 0) == has_key && event.value_length <= key_max;
}

}  // namespace

std::string_view name_of(Malformed malformed) {
	switch (malformed) {
		case Malformed::length: return "a record that is longer than its message";
		case Malformed::magic: return "not the protocol of the key-value store";
		case Malformed::version: return "another version of the protocol";
		case Malformed::operation: return "an unknown operation";
		case Malformed::key: return "a key of an impossible length";
		case Malformed::value: return "a value of an impossible length";
		case Malformed::status: return "an unknown status";
		case Malformed::event: return "an impossible event";
	}
	return "?";
}

std::expected<Hello, Malformed> read_hello(Bytes message, std::uint16_t side) {
	Hello hello;
	// Greetings of other versions have other lengths, but begin with the magic and the version.
	if (message.size() < offsetof(Hello, side)) return std::unexpected(Malformed::length);
	std::memcpy(&hello, message.data(), std::min(message.size(), sizeof hello));
	if (hello.magic != Hello::magic_number) return std::unexpected(Malformed::magic);
	if (hello.version != protocol_version) return std::unexpected(Malformed::version);
	if (hello.side != side) return std::unexpected(Malformed::magic);
	if (message.size() != sizeof hello) return std::unexpected(Malformed::length);
	if (hello.eager_max > value_max + key_max + 1) return std::unexpected(Malformed::value);
	return hello;
}

std::expected<Request, Malformed> Requests::next() {
	Request request;
	RequestHeader& header = request.header;
	if (rest_.size() < sizeof header) return std::unexpected(Malformed::length);
	std::memcpy(&header, take(rest_, sizeof header).data(), sizeof header);
	const auto options = static_cast<std::uint8_t>(header.protocol);
	header.protocol = static_cast<Protocol>(options & ~(identified_bit | versioned_bit | mortal_bit));
	if (header.protocol > Protocol::rendezvous) return std::unexpected(Malformed::operation);
	bool has_key = true, has_value = true;
	switch (header.operation) {
		case Operation::set:
		case Operation::set_read:
		case Operation::set_write:
		case Operation::scan:
		case Operation::watch: break;
		case Operation::get:
		case Operation::remove: has_value = false; break;
		case Operation::written:
		case Operation::release:
		case Operation::index:
		case Operation::unwatch:
		case Operation::info: has_key = has_value = false; break;
		default: return std::unexpected(Malformed::operation);
	}
	const bool scans = header.operation == Operation::scan, watches = header.operation == Operation::watch;
	if (has_key ? (header.key_length == 0 && !scans && !watches) || header.key_length > key_max
				: header.key_length != 0)
		return std::unexpected(Malformed::key);
	if (header.value_length > (has_value ? value_max : 0) || (scans && header.value_length != sizeof(ScanRequest)) ||
		(watches && header.value_length != sizeof(WatchRequest)))
		return std::unexpected(Malformed::value);
	if ((options & identified_bit) != 0) {
		if (!is_change(header.operation)) return std::unexpected(Malformed::operation);
		if (!take_value(rest_, request.id.emplace())) return std::unexpected(Malformed::length);
		const ChangeId& id = *request.id;
		if (id.order == 0 || id.order > order_max || id.order < id.settled) return std::unexpected(Malformed::value);
	}
	if ((options & versioned_bit) != 0) {
		request.versioned = true;
		if (header.operation != Operation::get && !is_change(header.operation))
			return std::unexpected(Malformed::operation);
		if (is_change(header.operation) && !take_value(rest_, request.expected))
			return std::unexpected(Malformed::length);
	}
	if ((options & mortal_bit) != 0) {
		if (!is_set(header.operation)) return std::unexpected(Malformed::operation);
		if (!take_value(rest_, request.ttl_ms)) return std::unexpected(Malformed::length);
		if (request.ttl_ms == 0) return std::unexpected(Malformed::value);
	}
	if (rest_.size() < header.key_length) return std::unexpected(Malformed::length);
	request.key = take(rest_, header.key_length);
	if (header.operation == Operation::set || scans || watches) {
		if (rest_.size() < header.value_length) return std::unexpected(Malformed::length);
		request.value = take(rest_, header.value_length);
		if (watches && !is_possible(request)) return std::unexpected(Malformed::event);
	} else if (header.operation == Operation::set_read) {
		if (!take_value(rest_, request.remote)) return std::unexpected(Malformed::length);
		if (request.remote.length != header.value_length) return std::unexpected(Malformed::value);
	}
	return request;
}

std::expected<Answer, Malformed> Answers::next() {
	Answer answer;
	AnswerHeader& header = answer.header;
	if (rest_.size() < sizeof header) return std::unexpected(Malformed::length);
	std::memcpy(&header, take(rest_, sizeof header).data(), sizeof header);
	if (header.value_length > value_max) return std::unexpected(Malformed::value);
	if (header.versioned > 1 || (header.status == Status::changed && header.versioned == 0))
		return std::unexpected(Malformed::status);
	if (header.versioned == 1 && !take_value(rest_, answer.version)) return std::unexpected(Malformed::length);
	switch (header.status) {
		case Status::good:
			if (rest_.size() < header.value_length) return std::unexpected(Malformed::length);
			answer.value = take(rest_, header.value_length);
			return answer;
		case Status::event:
			if (!is_possible(header)) return std::unexpected(Malformed::event);
			if (rest_.size() < header.value_length) return std::unexpected(Malformed::length);
			answer.value = take(rest_, header.value_length);
			return answer;
		case Status::place:
		case Status::remote:
			if (!take_value(rest_, answer.remote)) return std::unexpected(Malformed::length);
			if (answer.remote.length != header.value_length) return std::unexpected(Malformed::value);
			return answer;
		case Status::index:
			if (header.value_length != 0) return std::unexpected(Malformed::value);
			if (!take_value(rest_, answer.remote) || !take_value(rest_, answer.shape))
				return std::unexpected(Malformed::length);
			return answer;
		case Status::missing:
		case Status::full:
		case Status::too_large:
		case Status::unsupported:
		case Status::moved:
		case Status::busy:
		case Status::changed:
		case Status::disk:
		case Status::settled:
		case Status::leaving:
			if (header.value_length != 0) return std::unexpected(Malformed::value);
			return answer;
	}
	return std::unexpected(Malformed::status);
}

}  // namespace verbena::kv
