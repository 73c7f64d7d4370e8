// SPDX-License-Identifier: Apache-2.0
// Call: an operation of the store, as an awaitable that lives in the caller's coroutine frame. It
// is made by a Client (one connection) or by a Router (servers, deadlines and retries). Without a
// coroutine, an object derived from Call is started by begin() (submission.h).
//
// Threads: one, that of the loop.
// Lifetime: key and value must not change until the call is done. Destroying a call before that
//   abandons the operation: the effect on the store is then unknown.
#pragma once

#include <coroutine>
#include <expected>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/async/loop.h"
#include "lib/channel/heap_message.h"
#include "lib/channel/memory.h"
#include "lib/kv/attempts.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

class Call;
class Client;

template <class T> using Result = std::expected<T, Error>;

// A fetched value. A NUL, which `size` does not count, follows its last byte.
struct Fetched {
	// Holds a value that was read by RDMA READ: a block of registered memory of at least 4 KiB,
	// which the caller should free soon.
	channel::Buffer buffer;
	channel::HeapBlock heap;  // holds any other value
	std::size_t offset = 0;  // where the value begins in its block
	std::size_t size = 0;  // bytes
	std::uint64_t version = 0;  // 0: the GET did not ask for it

	std::byte* data() const { return (buffer ? buffer.data() : heap.get()) + offset; }
	Bytes bytes() const { return {data(), size}; }
};

// The maker of a call. start() executes it, or lets it wait. forget() is called when it is
// destroyed before it is done.
class CallMaker {
public:
	virtual void start(Call& call) = 0;
	virtual void forget(Call& call) = 0;
	// The call's deadline has passed.
	virtual void expired(Call& call) = 0;

protected:
	~CallMaker() = default;
};

// Keeps a call while it is sent on one connection after the other.
class Keeper {
public:
	// The connection that had the call could not complete it.
	virtual void take_back(Call& call) = 0;
	// The call's deadline has passed.
	virtual void expired(Call& call) = 0;

protected:
	~Keeper() = default;
};

// Choices for one SET.
struct SetOptions {
	// The time to live, in milliseconds: from its execution at the server on, the key has the value
	// for this long and is missing afterwards. 0: until it is changed.
	std::uint32_t ttl_ms = 0;
};

// Hears of the end of calls that no coroutine awaits.
class CallEnd {
public:
	// The call is done, and in no list. It may be called from within begin(). It must neither
	// destroy the call nor begin another one.
	virtual void ended(Call& call) = 0;

protected:
	~CallEnd() = default;
};

class Call : public async::Waiter, private async::Timer {
public:
	enum class Kind : std::uint8_t { get, set, remove, scan, info };
	Call(CallMaker& maker, Kind kind, std::string_view key, Bytes value, channel::Place place, SetOptions options = {})
		: maker_(maker),
		  kind_(kind),
		  ttl_ms_(options.ttl_ms),
		  key_(key),
		  value_(value),
		  place_(std::move(place)),
		  attempts_(is_change()) {}
	Call(const Call&) = delete;
	Call& operator=(const Call&) = delete;
	~Call() {
		if (started_ && !done_) maker_.forget(*this);
	}

	bool await_ready() {
		started_ = true;
		maker_.start(*this);
		return done_;
	}
	void await_suspend(std::coroutine_handle<> handle) {
		coroutine = handle;
		suspended_ = true;
	}
	Result<void> await_resume() const {
		if (error_) return std::unexpected(*error_);
		return {};
	}
	// Before the co_await or begin(): ends the call at this time, which is no later than the
	// router's timeout from now.
	void by(Nanoseconds deadline) { deadline_ = deadline; }

protected:
	// Starts the call without a coroutine.
	void begin(CallEnd& end) {
		end_ = &end;
		started_ = true;
		maker_.start(*this);
	}

	friend class Client;
	friend class Route;
	friend class Router;
	// The place in a list of the calls of one route.
	struct Ordered : async::Linked {
		explicit Ordered(Call& of) : call(of) {}
		Call& call;
		std::uint64_t order = 0;  // ChangeId::order; 0: a GET, or a change without an id
	};

	bool is_change() const { return kind_ == Kind::set || kind_ == Kind::remove; }
	// Why no server can execute the call.
	std::optional<Error> fault() const;

	void expire() override { maker_.expired(*this); }
	// Ends the operation and resumes the caller.
	void finish(std::optional<Error> error, async::Loop& loop) {
		if (scheduled()) loop.cancel(*this);
		ordered_.unlink();
		Waiter::unlink();
		client_ = nullptr;
		error_ = error;
		done_ = true;
		if (end_ != nullptr) end_->ended(*this);
		else if (suspended_) loop.resume_soon(*this);
	}

	CallMaker& maker_;
	Keeper* keeper_ = nullptr;  // null: a call of a Client
	Client* client_ = nullptr;  // has the call: it is submitted, or waits for a slot
	CallEnd* end_ = nullptr;  // null: a coroutine awaits the call
	Kind kind_;
	bool started_ = false, submitted_ = false, suspended_ = false, done_ = false;
	std::uint32_t ttl_ms_ = 0;  // SetOptions::ttl_ms
	std::uint32_t number_ = 0;  // while it is submitted: RequestHeader::number
	std::string_view key_;
	std::string_view server_;  // the name of the server that is asked; empty: that of the key
	Bytes value_;
	channel::Place place_;
	bool versioned_ = false;  // the answer shall have the version
	std::uint64_t expected_ = any_version, version_ = 0;  // Request::expected, Answer::version
	std::optional<Error> error_;
	Fetched fetched_;
	Attempts attempts_;
	Ordered ordered_{*this};
	std::uint64_t settled_ = 0;  // ChangeId::settled
	// 0: not known yet. The call's own timer is set only if Route::sweep() may be late for it.
	Nanoseconds deadline_ = 0;
};

// A GET, or another request for bytes, whose result has a value.
class Getting : public Call {
public:
	// Asks the server with this name for something else than a key's value.
	Getting(CallMaker& maker, Kind kind, std::string_view server, std::string_view key = "", Bytes value = {})
		: Call(maker, kind, key, value, {}) {
		server_ = server;
	}
	Getting(CallMaker& maker, std::string_view key, bool versioned) : Call(maker, Kind::get, key, {}, {}) {
		versioned_ = versioned;
	}
	Result<Fetched> await_resume() {
		if (error_) return std::unexpected(*error_);
		fetched_.version = version_;
		return std::move(fetched_);
	}
};

// A change that is made only if the key has the expected version; 0: if the key is missing. The
// result is the new version; it is 0 if the request was sent again, and a server of an earlier
// version had executed the first one. After Error::changed, version() is the present version.
class Conditional : public Call {
public:
	Conditional(CallMaker& maker, Kind kind, std::string_view key, Bytes value, channel::Place place,
		std::uint64_t expected, SetOptions options = {})
		: Call(maker, kind, key, value, std::move(place), options) {
		versioned_ = true;
		expected_ = expected;
	}
	Result<std::uint64_t> await_resume() const {
		if (error_) return std::unexpected(*error_);
		return version_;
	}
	std::uint64_t version() const { return version_; }
};

// Refuses a key of an impossible length.
inline std::optional<Error> fault_of(std::string_view key) {
	if (key.empty()) return Error::empty_key;
	if (key.size() > key_max) return Error::long_key;
	return {};
}

inline std::optional<Error> Call::fault() const {
	const bool may_be_empty = kind_ == Kind::scan || kind_ == Kind::info;
	return may_be_empty && key_.empty() ? std::nullopt : fault_of(key_);
}

}  // namespace verbena::kv
