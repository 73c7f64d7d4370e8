// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/watch.h"

namespace verbena::kv {

Watch::Watch(Router& router, std::string text, Scope scope) : router_(router), text_(std::move(text)), scope_(scope) {
	router_.enter(*this);
}

Watch::~Watch() { router_.leave(*this); }

async::Task<Result<Event>> Watch::next() {
	while (!ready()) co_await async::Park(until_ready_);
	auto event = take();
	if (!event) co_return std::unexpected(*error_);
	co_return std::move(*event);
}

std::optional<Event> Watch::take() {
	if (waiting_.empty()) return std::nullopt;
	Event event = std::move(waiting_.front());
	waiting_.pop_front();
	waiting_bytes_ -= event.key.size();
	return event;
}

void Watch::look_again() { take_event(EventKind::look_again, {}, 0); }

// Looking at the keys shows all that the events before it would have.
void Watch::take_event(EventKind kind, std::string_view key, std::uint64_t version) {
	if (error_) return;
	if (kind == EventKind::look_again && !waiting_.empty() && waiting_.back().kind == kind) return;
	if (waiting_.size() >= waiting_max || waiting_bytes_ + key.size() > waiting_bytes_max) {
		waiting_.clear();
		waiting_bytes_ = 0;
		waiting_.push_back({.kind = EventKind::look_again, .key = {}});
	} else {
		waiting_.push_back({.kind = kind, .key = std::string(key), .version = version});
		waiting_bytes_ += key.size();
	}
	router_.resume(until_ready_);
}

void Watch::refuse(Error error) {
	error_ = error;
	router_.resume(until_ready_);
}

}  // namespace verbena::kv
