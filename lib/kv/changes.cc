// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/changes.h"

#include "lib/kv/wall_clock.h"

namespace verbena::kv {

Ticket Changes::ticket_of(const Request& request) {
	return {.asker = &request.asker,
		.number = request.number,
		.versioned = request.terms.versioned,
		.client = request.session == nullptr ? 0 : request.session->client(),
		.order = request.terms.order};
}

// A rendezvous is checked again when its value has arrived: a copy of it on another connection may
// have been faster.
bool Changes::answer_known(const Request& request, std::string_view key) {
	const Terms& terms = request.terms;
	if (terms.order != 0) {
		switch (request.session->fate_of(terms.order)) {
			case ChangeSession::Fate::fresh: break;
			case ChangeSession::Fate::done:
				++repeated_;
				// The change may be one of those that wait.
				answer(request, Status::good, !store_.window().empty(), request.session->version_of(terms.order));
				return true;
			case ChangeSession::Fate::settled: answer_now(request, Status::settled); return true;
			case ChangeSession::Fate::crowded: answer_now(request, Status::busy); return true;
		}
	}
	if (const Standing here = standing(key); here != Standing::owner) {
		answer_now(request, here == Standing::other ? Status::moved : Status::busy);
		return true;
	}
	if (terms.expected == any_version) return false;
	const Store::Newest newest = store_.newest(key, loop_.now());
	const std::uint64_t version = newest.value ? newest.value.version() : 0;
	if (version == terms.expected) return false;
	answer(request, Status::changed, newest.waits, version);
	return true;
}

void Changes::set(const Request& request, std::string_view key, Bytes value) {
	if (answer_known(request, key)) return;
	store(request, store_.take(key, value, request.terms.life()));
}

void Changes::set(const Request& request, Value value) {
	if (answer_known(request, value.key())) return;
	store(request, std::move(value));
}

void Changes::store(const Request& request, Value value) {
	if (!value) return answer_now(request, refusal());
	if (const std::uint32_t ttl_ms = request.terms.ttl_ms; ttl_ms != 0)
		value.end_at(loop_.now() + Nanoseconds{ttl_ms} * 1'000'000);
	if (journal_ != nullptr) {
		if (!store_.accept(std::move(value), ticket_of(request))) return answer_now(request, refusal());
		keep(request);
		return wait();
	}
	if (!store_.set(std::move(value))) return answer_now(request, refusal());
	keep(request);
	answer_now(request, Status::good, store_.last_version());
}

void Changes::remove(const Request& request, std::string_view key) {
	if (answer_known(request, key)) return;
	if (journal_ == nullptr) {
		if (!store_.remove(key, loop_.now())) return answer_now(request, Status::missing);
		keep(request);
		return answer_now(request, Status::good, store_.last_version());
	}
	Store::Newest newest = store_.newest(key, loop_.now());
	if (!newest.value) return answer(request, Status::missing, newest.waits);
	store_.accept_removal(std::move(newest.value), ticket_of(request));
	keep(request);
	wait();
}

// Remembers the change that was just made. The journal writes the sessions with the changes, so
// they know a change before it is held.
void Changes::keep(const Request& request) {
	const Terms& terms = request.terms;
	if (terms.order != 0) sessions_.keep(*request.session, terms.order, terms.versioned ? store_.last_version() : 0);
}

void Changes::answer_now(const Request& request, Status status, std::uint64_t version) {
	request.asker.decided(request.number, status, request.terms.versioned ? version : any_version);
}

void Changes::answer(const Request& request, Status status, bool waits, std::uint64_t version) {
	if (!waits) return answer_now(request, status, version);
	store_.accept_answer(status, version, ticket_of(request));
	wait();
}

// The window has got one more.
void Changes::wait() {
	loop_.at_turn_end(*this);
	if (store_.window().full() || store_.waiting_bytes() >= waiting_bytes_max) commit();
}

bool Changes::expire() {
	return store_.expire(loop_.now(), expired_at_once, [&](Value value) {
		if (journal_ == nullptr) return store_.end(value);
		store_.accept_end(std::move(value));
		wait();
	});
}

void Changes::forget(const Asker& asker) {
	store_.window().for_each([&](Change& change) {
		if (change.ticket.asker == &asker) change.ticket.asker = nullptr;
	});
}

// Commits the changes that the journal has, and measures that.
bool Changes::write() {
	const Nanoseconds began = monotonic_now();
	const bool written = journal_->commit();
	commits_.durations.record(monotonic_now() - began);
	commits_.failed += written ? 0 : 1;
	commits_.changes += written ? store_.window().size() : 0;
	return written;
}

void Changes::commit() {
	ChangeWindow& window = store_.window();
	if (window.empty()) return;
	window.for_each([&](const Change& change) {
		if (change.kind == Change::Kind::set)
			journal_->set(change.key(), change.value.bytes(),
				{.version = change.version, .expires = wall_time_of(change.value.end(), monotonic_now())});
		else if (change.kind != Change::Kind::none) journal_->remove(change.key(), change.version);
	});
	const auto decide = [](const Change& change, Status status) {
		const Ticket& ticket = change.ticket;
		if (ticket.asker == nullptr) return;
		ticket.asker->decided(ticket.number, status, ticket.versioned ? change.version : any_version);
	};
	if (write()) return store_.hold(window.end(), [&](const Change& change) { decide(change, change.status); });
	store_.drop(window.begin(), [&](const Change& change) {
		const Ticket& ticket = change.ticket;
		if (change.kind != Change::Kind::none && ticket.order != 0) sessions_.undo(ticket.client, ticket.order);
		decide(change, Status::disk);
	});
}

}  // namespace verbena::kv
