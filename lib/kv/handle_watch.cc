// SPDX-License-Identifier: Apache-2.0
// The part of Handle that watches keys: kv_watch(), kv_next_events() and kv_unwatch().
#include <algorithm>

#include "lib/kv/handle.h"

kv_watcher::kv_watcher(verbena::kv::Handle& handle, std::string_view text, verbena::kv::Scope scope)
	: handle(handle), watch(*handle.router, std::string(text), scope) {}

namespace verbena::kv {
namespace {

constexpr int kind_of(EventKind kind) {
	switch (kind) {
		case EventKind::set: return KV_EVENT_SET;
		case EventKind::removed: return KV_EVENT_DELETED;
		case EventKind::expired: return KV_EVENT_EXPIRED;
		case EventKind::evicted: return KV_EVENT_EVICTED;
		case EventKind::none:
		case EventKind::refused:
		case EventKind::look_again: break;
	}
	return KV_EVENT_LOOK_AGAIN;
}

}  // namespace

bool Handle::has_events() const {
	return std::ranges::any_of(watchers_, [](const kv_watcher& each) { return each.watch.ready(); });
}

int Handle::watch(std::string_view text, Scope scope, kv_watcher** watcher) {
	kv_watcher& made = watchers_.emplace_back(*this, text, scope);
	// A server that is too old is reported by next_events(), also one that is connected now.
	if (const auto error = made.watch.error(); error && *error != Error::old_server) {
		watchers_.pop_back();
		return fail(*error, text);
	}
	*watcher = &made;
	loop().run_turn();
	return KV_OK;
}

int Handle::next_events(kv_watcher& watcher, const kv_event** events, std::size_t* count, int timeout_ms) {
	Watch& watch = watcher.watch;
	run_until([&] { return watch.ready(); }, timeout_ms);
	watcher.taken.clear();
	watcher.given.clear();
	while (auto event = watch.take()) watcher.taken.push_back(std::move(*event));
	for (const Event& each : watcher.taken)
		watcher.given.push_back({.kind = kind_of(each.kind),
			.key = each.key.c_str(),
			.key_length = each.key.size(),
			.version = each.version});
	*events = watcher.given.data();
	*count = watcher.given.size();
	return *count == 0 && watch.error() ? fail(*watch.error(), watch.text()) : int{KV_OK};
}

void Handle::unwatch(kv_watcher& watcher) {
	watchers_.remove_if([&](const kv_watcher& each) { return &each == &watcher; });
}

}  // namespace verbena::kv
