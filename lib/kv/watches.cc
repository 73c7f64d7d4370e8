// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/watches.h"

namespace verbena::kv {

void Watches::changed(EventKind kind, std::string_view key, std::uint64_t version) {
	if (index_.empty()) return;
	index_.for_each_of(key, [&](WatchIndex::Watch& each) {
		auto& watch = static_cast<WatchesOfClient::Watch&>(each);
		watch.owner->send(watch, kind, key, version);
	});
	take_out_lapsed();
}

void Watches::take_out_lapsed() {
	for (WatchIndex::Watch* const each : lapsed_) index_.remove(*each);
	lapsed_.clear();
}

// A node of the index, one of WatchesOfClient, and two copies of the text.
std::size_t WatchesOfClient::bytes_of(const Watch& watch) { return 256 + 2 * watch.text.size(); }

WatchesOfClient::~WatchesOfClient() {
	while (!watches_.empty()) end(watches_.begin()->first);
}

bool WatchesOfClient::begin(std::uint32_t number, std::string_view text, Scope scope) {
	if (watches_.size() >= watches_max || watches_.contains(number)) return false;
	Watch& watch = watches_[number];
	watch.text = text;
	watch.is_prefix = scope == Scope::prefix;
	watch.owner = this;
	watch.number = number;
	++all_.size_;
	all_.bytes_ += bytes_of(watch);
	wake(watch);
	return true;
}

void WatchesOfClient::end(std::uint32_t number) {
	const auto found = watches_.find(number);
	if (found == watches_.end()) return;
	Watch& watch = found->second;
	if (!watch.lapsed) all_.index_.remove(watch);
	--all_.size_;
	all_.bytes_ -= bytes_of(watch);
	watches_.erase(found);
}

// From now on the watch gets events.
void WatchesOfClient::wake(Watch& watch) {
	watch.lapsed = false;
	all_.index_.add(watch);
	send(watch, EventKind::look_again, {}, 0);
	all_.take_out_lapsed();
}

// A watch that loses an event needs no further ones: the client will look at all keys.
void WatchesOfClient::send(Watch& watch, EventKind kind, std::string_view key, std::uint64_t version) {
	if (outbox_.waiting() > (outbox_.blocked() ? waiting_max_blocked : waiting_max)) {
		watch.lapsed = true;
		all_.lapsed_.push_back(&watch);
		++all_.counters_.lapses;
		if (!std::exchange(waking_, true)) wake_lapsed();
		return;
	}
	if (kind != EventKind::look_again) ++all_.counters_.events;
	const AnswerHeader header{.status = Status::event,
		.versioned = 1,
		.event = kind,
		.number = watch.number,
		.value_length = static_cast<std::uint32_t>(key.size())};
	std::byte* const at = outbox_.put(sizeof header + sizeof version + key.size());
	std::memcpy(at, &header, sizeof header);
	std::memcpy(at + sizeof header, &version, sizeof version);
	if (!key.empty()) std::memcpy(at + sizeof header + sizeof version, key.data(), key.size());
}

// Waits until the client reads again.
Running WatchesOfClient::wake_lapsed() {
	do co_await outbox_.until_room();
	while (outbox_.blocked());
	waking_ = false;
	for (auto& [number, watch] : watches_)
		if (watch.lapsed) wake(watch);
}

}  // namespace verbena::kv
