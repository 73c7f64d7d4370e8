// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/watches.h"

namespace verbena::kv {

void Watches::changed(EventKind kind, std::string_view key, std::uint64_t version) {
	if (index_.size() == 0) return;
	index_.for_each_of(key, [&](WatchIndex::Watch& each) {
		auto& watch = static_cast<WatchesOfClient::Watch&>(each);
		watch.owner->send(watch, kind, key, version);
	});
}

WatchesOfClient::~WatchesOfClient() {
	for (auto& [number, watch] : watches_) all_.index_.remove(watch);
}

bool WatchesOfClient::begin(std::uint32_t number, std::string_view text, Scope scope) {
	if (watches_.size() >= watches_max || watches_.contains(number)) return false;
	Watch& watch = watches_[number];
	watch.text = text;
	watch.is_prefix = scope == Scope::prefix;
	watch.owner = this;
	watch.number = number;
	all_.index_.add(watch);
	send(watch, EventKind::look_again, {}, 0);
	return true;
}

void WatchesOfClient::end(std::uint32_t number) {
	const auto found = watches_.find(number);
	if (found == watches_.end()) return;
	all_.index_.remove(found->second);
	watches_.erase(found);
}

// Once an event of a watch was dropped, those after it are, too: the client will look at all keys.
void WatchesOfClient::send(Watch& watch, EventKind kind, std::string_view key, std::uint64_t version) {
	if (watch.dropped || outbox_.waiting() > (outbox_.blocked() ? waiting_max_blocked : waiting_max)) {
		++all_.counters_.dropped;
		watch.dropped = true;
		if (!std::exchange(dropping_, true)) look_again();
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
Running WatchesOfClient::look_again() {
	do co_await outbox_.until_room();
	while (outbox_.blocked());
	dropping_ = false;
	for (auto& [number, watch] : watches_)
		if (std::exchange(watch.dropped, false)) {
			++all_.counters_.looks;
			send(watch, EventKind::look_again, {}, 0);
		}
}

}  // namespace verbena::kv
