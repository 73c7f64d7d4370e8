// SPDX-License-Identifier: Apache-2.0
// RequestMeter: the requests of all clients of a server, by kind and result, and the time from the
// arrival of each to its answer. RequestsUnderWay: the requests of one connection that have no
// answer yet.
//
// Threads: one, the server's.
// Invariants: a request counts once, with its last answer. Clients are not trusted: an answer to
//   a number that is unknown, or not unique, counts as RequestKind::other.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <vector>

#include "base/duration_buckets.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

enum class RequestKind : std::uint8_t { none, get, set, remove, index, scan, info, other };
inline constexpr std::size_t request_kinds = 8;

// The words by which INFO and the metrics name a kind, and a result.
std::string_view word_of(RequestKind kind);
std::string_view word_of(Status result);

// The kind of a request that begins with this operation; `none` if it begins none, because it is
// part of another one or has no answer.
constexpr RequestKind kind_of(Operation operation) {
	switch (operation) {
		case Operation::get: return RequestKind::get;
		case Operation::set:
		case Operation::set_read:
		case Operation::set_write: return RequestKind::set;
		case Operation::remove: return RequestKind::remove;
		case Operation::index: return RequestKind::index;
		case Operation::scan: return RequestKind::scan;
		case Operation::info: return RequestKind::info;
		case Operation::written:
		case Operation::watch:
		case Operation::unwatch:
		case Operation::release: return RequestKind::none;
	}
	return RequestKind::none;
}

struct RequestMeter {
	static constexpr std::size_t results = 16;  // above every Status

	bool timed = false;  // measure the durations too
	std::array<std::array<std::uint64_t, results>, request_kinds> counts{};
	std::array<DurationBuckets, request_kinds> durations{};

	// The time of arrival of a message; 0 if no durations are measured.
	Nanoseconds arrival() const { return timed ? monotonic_now() : 0; }
	void count(RequestKind kind, Status result, Nanoseconds arrived) {
		++counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(result)];
		if (arrived != 0) durations[static_cast<std::size_t>(kind)].record(monotonic_now() - arrived);
	}
	std::uint64_t count_of(RequestKind kind, Status result) const {
		return counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(result)];
	}
};

class RequestsUnderWay {
public:
	explicit RequestsUnderWay(RequestMeter& meter) : meter_(meter) {}

	// `number` is RequestHeader::number. Our client uses small ones again (Client::take_slot()), so
	// the table is as large as the most requests that were under way at once.
	void begin(std::uint32_t number, RequestKind kind, Nanoseconds arrived) {
		if (kind == RequestKind::none) return;
		const std::size_t index = number & (entries_max - 1);
		if (index >= entries_.size()) entries_.resize(std::bit_ceil(index + 1));
		entries_[index] = {.arrived = arrived, .number = number, .kind = kind};
	}
	// An answer leaves. One that is not the last does not count.
	void end(std::uint32_t number, Status status) {
		if (status == Status::place || status == Status::leaving) return;
		if (status == Status::remote || status == Status::index) status = Status::good;
		const std::size_t index = number & (entries_max - 1);
		Entry unknown{.number = number, .kind = RequestKind::other};
		Entry& entry =
			index < entries_.size() && entries_[index].number == number && entries_[index].kind != RequestKind::none
			? entries_[index]
			: unknown;
		meter_.count(std::exchange(entry.kind, RequestKind::none), status, entry.arrived);
	}

private:
	// The default of ServerOptions::requests_max. With more requests under way, some of them may
	// count as others.
	static constexpr std::size_t entries_max = 4096;
	struct Entry {
		Nanoseconds arrived = 0;
		std::uint32_t number = 0;
		RequestKind kind = RequestKind::none;
	};

	RequestMeter& meter_;
	std::vector<Entry> entries_;
};

}  // namespace verbena::kv
