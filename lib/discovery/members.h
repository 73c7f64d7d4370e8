// SPDX-License-Identifier: Apache-2.0
// Membership of servers in etcd, through its JSON gateway. A server holds a key below a prefix as
// long as it renews its lease; a client watches which keys exist.
//
// Threads: each Members and each Registration has a thread of its own, which waits for HTTP. Their
//   methods are thread-safe.
// Lifetime: a destructor waits for its thread; `notify`, `looked` and `complain`, which that thread
//   calls, must be callable until then.
// Errors: one sentence.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "lib/discovery/etcd_prefix.h"

namespace verbena::discovery {

// The servers below a prefix, as they come and go.
class Members {
public:
	// Returns when the first list was read. `notify` is called after each change, on the watching
	// thread.
	static std::expected<std::unique_ptr<Members>, std::string> watch(
		const EtcdPrefix& where, std::function<void()> notify = {});
	~Members();
	Members(const Members&) = delete;
	Members& operator=(const Members&) = delete;

	// The list that watch() read.
	const std::vector<std::string>& first() const;
	// True at the beginning, and after each change until list() is called.
	bool changed() const;
	// The newest list, sorted; changed() is false until the next change.
	std::vector<std::string> list();
	// One sentence that says why etcd could not be asked the last time; empty: it could.
	std::string failure() const;

private:
	struct State;
	explicit Members(std::unique_ptr<State> state);
	std::unique_ptr<State> state_;
};

// One look at the members by a server that is one of them, or wants to be.
struct Look {
	std::vector<std::string> names;  // sorted
	bool entered = false;  // the server's own key is there, and no other process has written it
	// boot_now() before etcd was asked: first to renew the lease, then for the list.
	Nanoseconds asked = 0;
	std::uint32_t lease_s_max = 0;  // the longest lease that one of the keys states
};

// A server's own key.
class Registration {
public:
	// Writes the key and returns. A thread renews the lease and looks at the members almost four
	// times in `lease_seconds`, and passes each look to `looked`. If the key was deleted, it is
	// written again; a key of this name that another process has written is left alone. The
	// destructor withdraws the key at once, if etcd answers; after a crash it ends with its lease.
	// `complain` gets one sentence when looks begin to fail, when they work again, and when another
	// member of etcd takes over. Each member has a quarter of `lease_seconds` for an answer.
	static std::expected<std::unique_ptr<Registration>, std::string> make(const EtcdPrefix& where,
		const std::string& name, std::uint32_t lease_seconds, std::function<void(Look)> looked = {},
		std::function<void(const std::string&)> complain = {});
	~Registration();
	Registration(const Registration&) = delete;
	Registration& operator=(const Registration&) = delete;

private:
	struct State;
	explicit Registration(std::unique_ptr<State> state);
	std::unique_ptr<State> state_;
};

}  // namespace verbena::discovery
