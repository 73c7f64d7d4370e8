#include "lib/kv/changes.h"

namespace verbena::kv {

Ticket Changes::ticket_of(const Request& request) {
	return {.asker = &request.asker,
		.number = request.number,
		.client = request.session == nullptr ? 0 : request.session->client(),
		.order = request.order};
}

bool Changes::answer_known(const Request& request) {
	if (request.order == 0) return false;
	switch (request.session->fate_of(request.order)) {
		case ChangeSession::Fate::fresh: return false;
		case ChangeSession::Fate::done:
			++repeated_;
			// The change may be one of those that wait.
			answer(request, Status::good, !store_.window().empty());
			break;
		case ChangeSession::Fate::settled: request.asker.decided(request.number, Status::settled); break;
		case ChangeSession::Fate::crowded: request.asker.decided(request.number, Status::busy); break;
	}
	return true;
}

// A rendezvous is checked again when its value has arrived: a copy of it on another connection may
// have been faster.
void Changes::set(const Request& request, std::string_view key, Bytes value) {
	if (answer_known(request)) return;
	if (journal_ != nullptr) return accept(request, store_.take(key, value));
	if (!store_.set(key, value)) return request.asker.decided(request.number, refusal());
	keep(request);
	request.asker.decided(request.number, Status::good);
}

void Changes::set(const Request& request, Value value) {
	if (answer_known(request)) return;
	if (journal_ != nullptr) return accept(request, std::move(value));
	if (!store_.set(std::move(value))) return request.asker.decided(request.number, refusal());
	keep(request);
	request.asker.decided(request.number, Status::good);
}

void Changes::accept(const Request& request, Value value) {
	if (!value || !store_.accept(std::move(value), ticket_of(request)))
		return request.asker.decided(request.number, refusal());
	keep(request);
	wait();
}

void Changes::remove(const Request& request, std::string_view key) {
	if (answer_known(request)) return;
	if (journal_ == nullptr) {
		const bool removed = store_.remove(key);
		if (removed) keep(request);
		return request.asker.decided(request.number, removed ? Status::good : Status::missing);
	}
	Store::Newest newest = store_.newest(key);
	if (!newest.value) return answer(request, Status::missing, newest.waits);
	store_.accept_removal(std::move(newest.value), ticket_of(request));
	keep(request);
	wait();
}

// The journal writes the sessions with the changes, so they know a change before it is held.
void Changes::keep(const Request& request) {
	if (request.order != 0) sessions_.keep(*request.session, request.order);
}

void Changes::answer(const Request& request, Status status, bool waits) {
	if (!waits) return request.asker.decided(request.number, status);
	store_.accept_answer(status, ticket_of(request));
	wait();
}

// The window has got one more.
void Changes::wait() {
	loop_.at_turn_end(*this);
	if (store_.window().full() || store_.waiting_bytes() >= waiting_bytes_max) commit();
}

void Changes::forget(const Asker& asker) {
	store_.window().for_each([&](Change& change) {
		if (change.ticket.asker == &asker) change.ticket.asker = nullptr;
	});
}

void Changes::commit() {
	ChangeWindow& window = store_.window();
	if (window.empty()) return;
	window.for_each([&](const Change& change) {
		if (change.kind == Change::Kind::set) journal_->set(change.key(), change.value.bytes(), change.version);
		else if (change.kind == Change::Kind::remove) journal_->remove(change.key(), change.version);
	});
	const auto decide = [](const Change& change, Status status) {
		if (change.ticket.asker != nullptr) change.ticket.asker->decided(change.ticket.number, status);
	};
	if (journal_->commit())
		return store_.hold(window.end(), [&](const Change& change) { decide(change, change.status); });
	store_.drop(window.begin(), [&](const Change& change) {
		const Ticket& ticket = change.ticket;
		if (change.kind != Change::Kind::none && ticket.order != 0) sessions_.undo(ticket.client, ticket.order);
		decide(change, Status::disk);
	});
}

}  // namespace verbena::kv
