// SPDX-License-Identifier: Apache-2.0
// Submission: one operation of the C interface, from its start to its result, without a coroutine.
// A Batch is a set of them that a caller waits for.
//
// Threads: one, that of the loop.
// Owns: a fetched value, until its owner takes it.
// Lifetime: key, value and kv_op must not change until the operation is done. A Batch outlives its
//   operations.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "lib/include/verbena/kv.h"
#include "lib/kv/router.h"
#include "lib/kv/scan_format.h"

namespace verbena::kv {

class Submission final : public Call {
public:
	struct Request {
		Kind kind = Kind::get;
		std::string_view key;
		Bytes value;
		channel::Place place;  // where `value` lies, if that is registered memory
		bool versioned = false;  // a GET with its version, or a change on the condition `expected`
		std::uint64_t expected = any_version;
		SetOptions options = {};  // a SET's
		// A SCAN's server, and the page; `key` is the prefix.
		std::string server = {};
		ScanRequest page = {};
	};
	Submission(Router& router, Request request, kv_op* op = nullptr)
		: Call(router.maker(), request.kind, request.key, request.value, std::move(request.place), request.options),
		  op(op),
		  server(std::move(request.server)),
		  page_(request.page) {
		versioned_ = request.versioned;
		expected_ = request.expected;
		if (kind_ != Kind::scan) return;
		server_ = server;
		value_ = bytes_of(page_);
	}

	using Call::begin;
	// Once it is done:
	Result<void> outcome() const { return await_resume(); }
	std::string_view key() const { return key_; }
	bool gets() const { return kind_ == Kind::get; }
	bool scans() const { return kind_ == Kind::scan; }
	bool versioned() const { return versioned_; }
	// A GET's version, that of the change or, after Error::changed, the present one.
	std::uint64_t version() const { return version_; }
	Fetched& fetched() { return fetched_; }

	kv_op* const op;  // gets the result; null: the caller does
	const std::string server;  // a SCAN's; empty: every server was walked over
	const char* refused = nullptr;  // why it was not begun, if it was not
	std::optional<Submission>* place_in_pool = nullptr;

private:
	const ScanRequest page_;
};

class Batch final : private CallEnd {
public:
	void begin(Submission& operation) {
		++under_way_;
		operation.begin(*this);
	}
	// The operation is done without having been begun. `why` is null if there is nothing to do.
	void refuse(Submission& operation, const char* why) {
		operation.refused = why;
		append(operation);
	}
	// Returns the first operation that is done, or null.
	Submission* take() {
		auto* const first = static_cast<Submission*>(done_.pop_front());
		if (first != nullptr) --ready_;
		return first;
	}
	std::size_t ready() const { return ready_; }  // operations that take() will return at once
	std::size_t under_way() const { return under_way_; }
	std::size_t size() const { return ready_ + under_way_; }

private:
	void ended(Call& call) override {
		--under_way_;
		append(call);
	}
	void append(Call& call) {
		done_.push_back(call);
		++ready_;
	}

	async::List<async::Waiter> done_;
	std::size_t ready_ = 0, under_way_ = 0;
};

// Memory for operations, which is kept for later ones.
class SubmissionPool {
public:
	Submission& make(Router& router, Submission::Request request, kv_op* op) {
		if (free_.empty()) free_.push_back(&places_.emplace_back());
		Place* const place = free_.back();
		free_.pop_back();
		Submission& made = place->emplace(router, std::move(request), op);
		made.place_in_pool = place;
		return made;
	}
	void free(Submission& operation) {
		Place* const place = std::exchange(operation.place_in_pool, nullptr);
		place->reset();
		free_.push_back(place);
	}

private:
	using Place = std::optional<Submission>;
	std::deque<Place> places_;  // does not move its items
	std::vector<Place*> free_;
};

}  // namespace verbena::kv
