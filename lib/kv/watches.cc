// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/watches.h"

#include <utility>

namespace verbena::kv {

void Watches::changed(EventKind kind, std::string_view key, std::uint64_t version) {
	if (index_.empty()) return;
	index_.for_each_of(key, [&](WatchIndex::Watch& each) {
		auto& watch = static_cast<WatchesOfClient::Watch&>(each);
		watch.owner->send(watch, kind, key, version);
	});
}

bool Watches::takes(std::size_t bytes) {
	if (turn_is_full()) return false;
	turn_bytes_ += bytes;
	loop_.at_turn_end(*this);
	return true;
}

// Two nodes of the index, one of WatchesOfClient, and the text.
std::size_t WatchesOfClient::bytes_of(std::size_t text_length) { return 512 + text_length; }

WatchesOfClient::~WatchesOfClient() {
	while (!watches_.empty()) end(watches_.begin()->first);
}

bool WatchesOfClient::begin(std::uint32_t number, std::string_view text, Scope scope) {
	if (watches_.size() >= watches_max || watches_.contains(number)) return false;
	if (!all_.store_.charge_more(bytes_of(text.size()))) {
		put(number, EventKind::refused, {}, 0);
		return true;
	}
	Watch& watch = watches_[number];
	watch.owner = this;
	watch.number = number;
	all_.index_.add(watch, text, scope == Scope::prefix);
	++all_.size_;
	all_.bytes_ += bytes_of(text.size());
	greet(watch);
	return true;
}

void WatchesOfClient::end(std::uint32_t number) {
	const auto found = watches_.find(number);
	if (found == watches_.end()) return;
	Watch& watch = found->second;
	--all_.size_;
	all_.bytes_ -= bytes_of(WatchIndex::text_length(watch));
	all_.index_.remove(watch);
	watches_.erase(found);
}

// A watch that loses an event needs no further ones: the client will look at all keys.
void WatchesOfClient::send(Watch& watch, EventKind kind, std::string_view key, std::uint64_t version) {
	const bool fits = outbox_.waiting() <= (outbox_.blocked() ? waiting_max_blocked : waiting_max);
	if (!fits || !all_.takes(Watches::event_head + key.size())) {
		watch.lapsed = true;
		all_.index_.pause(watch);
		++all_.counters_.lapses;
		if (!std::exchange(waking_, true)) wake_lapsed();
		return;
	}
	if (kind != EventKind::look_again) ++all_.counters_.events;
	put(watch.number, kind, key, version);
}

void WatchesOfClient::put(std::uint32_t number, EventKind kind, std::string_view key, std::uint64_t version) {
	constexpr std::size_t head = Watches::event_head;
	const AnswerHeader header{.status = Status::event,
		.versioned = 1,
		.event = kind,
		.number = number,
		.value_length = static_cast<std::uint32_t>(key.size())};
	std::byte* const at = outbox_.put(head + key.size());
	std::memcpy(at, &header, sizeof header);
	std::memcpy(at + sizeof header, &version, sizeof version);
	if (!key.empty()) std::memcpy(at + head, key.data(), key.size());
}

// Waits until a turn has room for events, and until the client reads again.
Running WatchesOfClient::wake_lapsed() {
	do co_await async::NextTurn(all_.loop_);
	while (all_.turn_is_full());
	while (outbox_.blocked()) co_await outbox_.until_room();
	waking_ = false;
	for (auto& [number, watch] : watches_)
		if (std::exchange(watch.lapsed, false)) {
			all_.index_.resume(watch);
			greet(watch);
		}
}

}  // namespace verbena::kv
