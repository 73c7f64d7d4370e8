// SPDX-License-Identifier: Apache-2.0
// Watch: the events of a key, or of all keys that begin with a prefix, from all servers of a
// router.
//
//     Watch watch(*router, "user:", Scope::prefix);
//     while (true) {
//         const auto event = co_await watch.next();  // std::expected<Event, Error>
//         if (!event) break;
//         if (event->kind == EventKind::look_again) ...  // SCAN and GET the keys
//         else ...                                       // GET event->key
//     }
//
// Each change of a key has one event, once it is visible; the events of one key come in the order
// of their versions, with those of this program's own changes. The value is not part of it: a GET
// returns that version or a later one.
//
// EventKind::look_again comes first from each server; again when a connection was lost and is made
// anew, or the members of the cluster have changed; and in place of events that were dropped,
// because this program did not take them in time. The program then looks at the keys itself.
// Changes that it does not see so have events after this one.
//
// Threads: one, that of the router's loop.
// Lifetime: dies before the router.
// Errors: Error::old_server if a server does not know watches, Error::full if one has no memory for
//   this one, Error::many_watches, or those of a key; then next() returns nothing else. A server
//   that cannot be reached is no error: its events begin when it is connected.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "lib/kv/router.h"

namespace verbena::kv {

struct Event {
	EventKind kind = EventKind::none;
	std::string key;  // empty: look_again
	std::uint64_t version = 0;  // as EventKind says
};

class Watch final : private EventSink {
public:
	// The most events, and bytes of their keys, that wait for next().
	static constexpr std::size_t waiting_max = 4096, waiting_bytes_max = 1 << 20;

	// A key has 1 to 4096 bytes, a prefix 0 to 4096. A router may have watches_max watches.
	Watch(Router& router, std::string text, Scope scope);
	~Watch();
	Watch(const Watch&) = delete;
	Watch& operator=(const Watch&) = delete;

	// Waits for the next event. One call at a time.
	async::Task<Result<Event>> next();
	// The next event, if there is one.
	std::optional<Event> take();
	// True if take() returns an event, or an error has ended the watch.
	bool ready() const { return !waiting_.empty() || error_.has_value(); }
	std::optional<Error> error() const { return error_; }

	const std::string& text() const { return text_; }  // the key or the prefix
	Scope scope() const { return scope_; }

private:
	friend class Router;
	void look_again();

	// EventSink
	void take_event(EventKind kind, std::string_view key, std::uint64_t version) override;
	void refuse(Error error) override;

	Router& router_;
	const std::string text_;
	const Scope scope_;
	std::uint32_t number_ = 0;  // Router::enter()
	std::deque<Event> waiting_;
	std::size_t waiting_bytes_ = 0;  // the sum of the keys in waiting_
	std::optional<Error> error_;
	async::List<async::Waiter> until_ready_;
};

}  // namespace verbena::kv
