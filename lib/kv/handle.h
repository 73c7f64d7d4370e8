// SPDX-License-Identifier: Apache-2.0
// Handle: one lane of a kv_handle of the C interface (verbena/kv.h), with one Session and its
// Router.
//
// Threads: every method but the constructor needs the core's lock. A method that waits runs the
//   session's loop meanwhile.
// Owns: a Core belongs to its handle and to all values in registered memory that are not released.
// Errors: results are those of enum kv_result; `last_error` has the details.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lib/kv/ops.h"
#include "lib/kv/submission.h"
#include "lib/kv/watch.h"

namespace verbena::kv {

// The part of a handle that outlives it: values that are not released lie in the session's memory.
struct Core {
	std::mutex lock;
	std::unique_ptr<Session> session;
	// The caller's values in registered memory, by the address at which the value begins.
	std::unordered_map<const void*, channel::Buffer> registered;
};

// Precedes each value that the caller owns, in its headroom. kv_release() finds it there.
struct ValueHeader {
	static constexpr std::uint64_t magic_number = 0x7665'7262'656e'6176;
	std::uint64_t magic = magic_number;
	std::shared_ptr<Core> core;  // null: the value lies on the heap
};
constexpr std::size_t headroom = 64;
static_assert(sizeof(ValueHeader) <= headroom);

class Handle;

}  // namespace verbena::kv

// A watch of the C interface, and the events that the program has taken last.
struct kv_watcher {
	kv_watcher(verbena::kv::Handle& handle, std::string_view text, verbena::kv::Scope scope);

	verbena::kv::Handle& handle;
	verbena::kv::Watch watch;
	std::vector<verbena::kv::Event> taken;
	std::vector<kv_event> given;  // refer to `taken`
};

namespace verbena::kv {

class Handle {
public:
	// Operations of one lane that kv_submit() has taken and kv_wait() has not returned.
	static constexpr std::size_t operations_max = 4096;

	Handle(std::shared_ptr<Core> core, std::unique_ptr<Router> router)
		: core(std::move(core)), router(std::move(router)) {}

	int set(std::string_view key, Bytes value);
	int set_async(std::string_view key, Bytes value);
	// `version` is null, or gets the version.
	int get(std::string_view key, char** value, std::size_t* length, unsigned long long* version = nullptr);
	int remove(std::string_view key);
	// `version` is the expected one, and becomes the present one.
	int set_if(std::string_view key, Bytes value, unsigned long long& version);
	int remove_if(std::string_view key, unsigned long long& version);
	int flush();

	// kv_submit(), kv_wait(), kv_do() and kv_fd(). The arguments are valid.
	int submit(const Ops& ops);
	int wait(kv_op** done, int max, int min, int timeout_ms);
	int do_all(const Ops& ops);
	int descriptor();
	// After each call: the descriptor is readable if work is left or comes.
	void arm() {
		if (watched_) loop().arm(submitted_.ready() > 0 || has_events());
	}

	// kv_scan(). The arguments are valid.
	int scan(kv_cursor& cursor, std::string_view prefix, std::uint32_t keys_max, kv_key** keys, std::size_t* count);

	// kv_watch(), kv_next_events() and kv_unwatch(). The arguments are valid.
	int watch(std::string_view text, Scope scope, kv_watcher** watcher);
	int next_events(kv_watcher& watcher, const kv_event** events, std::size_t* count, int timeout_ms);
	void unwatch(kv_watcher& watcher);

	char* alloc(std::size_t size);
	// Makes the caller the owner of a value until kv_release(); an empty Fetched yields "".
	char* give(Fetched fetched);
	// Ends what is under way, and closes the connections.
	int close();

	std::shared_ptr<Core> core;
	std::unique_ptr<Router> router;
	std::string last_error;

private:
	friend class verbena::kv::Running;
	// Asynchronous SETs of one server that are under way.
	struct Load {
		std::size_t operations = 0, bytes = 0;
		bool takes(std::size_t more) const;
	};

	async::Loop& loop() { return core->session->loop(); }
	int fail(Error error, std::string_view key);
	int result_of(const Result<void>& done, std::string_view key) { return done ? KV_OK : fail(done.error(), key); }
	Nanoseconds deadline() const;
	template <class Enough> void run_until(Enough enough, int timeout_ms);
	channel::Place place_of(Bytes value) const;
	channel::Place copy_to_registered(Bytes value);
	void wait_for(std::string_view key);
	Running set_later(std::string key, channel::Place place, std::vector<std::byte> copy, Nanoseconds by);

	Result<void> run(Submission& operation, Nanoseconds by);
	int change(Submission::Request request, unsigned long long* version = nullptr);
	void begin(kv_op& op, const char* fault, Batch& batch);
	void begin_page(kv_op& op, Batch& batch);
	void finish_page(kv_op& op, Submission& operation);
	kv_op* finish(Submission& operation);
	int take_value(Submission& operation, char** value, std::size_t* length);
	Submission::Request page_request(const kv_cursor& cursor, std::string_view prefix, std::uint32_t keys_max) const;
	int take_page(Submission& operation, kv_cursor& cursor, kv_key** keys, std::size_t* count);
	int fail_page(const Submission& operation, Error error);
	kv_key* give_keys(const ScanPage& page);
	bool has_events() const;

	std::unordered_set<std::string> setting_;  // keys of asynchronous SETs under way
	std::unordered_map<std::string, Load> loads_;  // by the name of the server
	// The first asynchronous SET that failed since the last flush(): code and sentence.
	std::optional<std::pair<int, std::string>> first_error_;
	SubmissionPool pool_;
	Batch submitted_;  // by kv_submit()
	std::list<kv_watcher> watchers_;
	bool watched_ = false;  // kv_fd() was called
	Coroutines coroutines_;
};

// Runs the loop until `enough()`, for this many milliseconds at most; 0: does what is ready;
// negative: no limit.
template <class Enough> void Handle::run_until(Enough enough, int timeout_ms) {
	struct Alarm final : async::Timer {
		bool rung = false;
		void expire() override { rung = true; }
	};
	if (timeout_ms == 0) return loop().run_ready();
	if (enough()) return;
	Alarm alarm;
	if (timeout_ms > 0) loop().schedule(alarm, monotonic_now() + static_cast<Nanoseconds>(timeout_ms) * 1'000'000);
	loop().run_until([&] { return enough() || alarm.rung; });
	loop().cancel(alarm);
}

}  // namespace verbena::kv
