// SPDX-License-Identifier: Apache-2.0
// The part of Store that has changes wait in the window until they are held.
#include <algorithm>

#include "lib/kv/store.h"

namespace verbena::kv {
namespace {

// If the journal cannot write the end of a version, that waits for this long.
constexpr Nanoseconds end_again = 1'000'000'000;

}  // namespace

// Returns the newest change of the key in the window, or null.
const Change* Store::newest_change(std::string_view key, std::uint64_t hash) const {
	if (window_.empty()) return nullptr;
	return window_.newest(hash, [&](const Change& change) { return change.key() == key; });
}

Store::Newest Store::newest(std::string_view key, Nanoseconds now) {
	const std::uint64_t hash = hash_of(key);
	Newest found;
	if (const Change* const change = newest_change(key, hash); change != nullptr)
		found = {.value = change->kind == Change::Kind::set ? change->value : Value(), .waits = true};
	else found.value = Value(*find(key, hash));
	if (found.value && found.value.end() <= now) found.value = {};
	return found;
}

// The bytes of the newest version; 0: the key is missing.
std::size_t Store::newest_cost(std::string_view key, std::uint64_t hash) {
	if (const Change* const change = newest_change(key, hash); change != nullptr)
		return change->kind == Change::Kind::set ? change->value.item_->cost() : 0;
	const Item* const present = *find(key, hash);
	return present == nullptr ? 0 : present->cost();
}

bool Store::accept(Value value, const Ticket& ticket) {
	Item& item = *value.item_;
	if (!confirm_credit(item)) return false;
	const std::size_t freed = newest_cost(item.key(), item.hash) - item.credit;
	item.version = ++last_version_;
	freeing_ += freed;
	waiting_bytes_ += item.key_length + item.value_length;
	window_.accept(item.hash,
		{.kind = Change::Kind::set,
			.version = item.version,
			.freed = static_cast<std::uint32_t>(freed),
			.value = std::move(value),
			.ticket = ticket});
	return true;
}

void Store::accept_removal(Value value, const Ticket& ticket) {
	accept_loss(Change::Kind::remove, std::move(value), ticket);
}

void Store::accept_end(Value value) {
	Item& item = *value.item_;
	// The newer change replaces the version, or the disk refuses it.
	if (newest_change(item.key(), item.hash) != nullptr) return ends_.schedule(item.life(), ends_.now());
	accept_loss(Change::Kind::end, std::move(value), {});
}

// Accepts that the key loses its newest version.
void Store::accept_loss(Change::Kind kind, Value value, const Ticket& ticket) {
	const Item& item = *value.item_;
	const std::size_t freed = item.cost();
	freeing_ += freed;
	window_.accept(item.hash,
		{.kind = kind,
			.version = ++last_version_,
			.freed = static_cast<std::uint32_t>(freed),
			.value = std::move(value),
			.ticket = ticket});
}

void Store::accept_answer(Status status, std::uint64_t version, const Ticket& ticket) {
	window_.follow({.status = status, .version = version, .ticket = ticket});
}

void Store::leave_window(const Change& change) {
	freeing_ -= change.freed;
	if (change.kind == Change::Kind::set) waiting_bytes_ -= change.key().size() + change.value.size();
}

void Store::hold(ChangeWindow::Position end, const std::function<void(const Change&)>& done) {
	window_.hold(end, [&](Change& change) {
		leave_window(change);
		if (change.kind == Change::Kind::set) {
			Value value = change.value;
			put(value.release());
		} else if (change.kind != Change::Kind::none) {
			const bool ended = change.kind == Change::Kind::end;
			++(ended ? counters_.expired : counters_.removes);
			take_out(link_to(change.value.item_, change.value.item_->hash));
			show_change(ended ? EventKind::expired : EventKind::removed, change.key(), change.version);
		}
		done(change);
	});
}

void Store::drop(ChangeWindow::Position from, const std::function<void(const Change&)>& undo) {
	window_.drop(from, [&](Change& change) {
		leave_window(change);
		if (change.kind == Change::Kind::end) ends_.schedule(change.value.item_->life(), ends_.now() + end_again);
		undo(change);
	});
}

}  // namespace verbena::kv
