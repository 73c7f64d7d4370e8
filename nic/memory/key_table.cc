// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/key_table.h"

#include <new>

namespace verbena::memory {

const KeyTable::Entry* KeyTable::find(std::uint32_t key) const {
	const std::uint32_t index = (key >> 8) ^ index_mask_;
	if (index >= entries_.size() || entries_[index].kind == Kind::unused || entries_[index].key != key) return nullptr;
	return &entries_[index];
}

KeyTable::Entry* KeyTable::find(std::uint32_t key) {
	return const_cast<Entry*>(static_cast<const KeyTable*>(this)->find(key));
}

const KeyTable::Entry* KeyTable::find_window(std::uint32_t key) const {
	const std::uint32_t index = (key >> 8) ^ index_mask_;
	return index < entries_.size() && entries_[index].kind == Kind::window ? &entries_[index] : nullptr;
}

std::uint32_t KeyTable::allocate(Kind kind, std::uint32_t protection_domain) {
	std::uint32_t index;
	if (free_first_ != no_index) {
		index = free_first_;
		free_first_ = entries_[index].next_free;
		if (free_first_ == no_index) free_last_ = no_index;
	} else {
		index = static_cast<std::uint32_t>(entries_.size());
		if (index >= 0x1000000) throw std::bad_alloc();
		entries_.emplace_back();
	}
	// A linear congruential generator (Knuth's constants); its high bits become the tag.
	tag_state_ = tag_state_ * 6364136223846793005ull + 1442695040888963407ull;
	Entry& entry = entries_[index];
	const std::uint8_t last_tag = static_cast<std::uint8_t>(entry.key);
	entry = Entry{};
	entry.kind = kind;
	entry.protection_domain = protection_domain;
	std::uint8_t tag = static_cast<std::uint8_t>(tag_state_ >> 56);
	if (tag == last_tag) ++tag;  // a stale key of this index must not match
	entry.key = (index ^ index_mask_) << 8 | tag;
	if (entry.key == 0) entry.key = 1;  // an empty RegionCache has key 0
	++live_;
	changed();
	return entry.key;
}

void KeyTable::release(Entry& entry) {
	entry.kind = Kind::unused;
	const auto index = static_cast<std::uint32_t>(&entry - entries_.data());
	entry.next_free = no_index;
	(free_last_ != no_index ? entries_[free_last_].next_free : free_first_) = index;
	free_last_ = index;
	--live_;
	changed();
}

void KeyTable::set(Entry& entry, const Registration& r) {
	entry.begin = r.access & zero_based ? 0 : r.iova;
	entry.end = entry.begin + r.length;
	entry.delta = r.address - entry.begin;
	entry.access = r.access | local_use;
	entry.protection_domain = r.protection_domain;
}

std::uint32_t KeyTable::register_region(const Registration& r) {
	const std::uint32_t key = allocate(Kind::region, r.protection_domain);
	set(*find(key), r);
	return key;
}

bool KeyTable::reregister(std::uint32_t key, const Registration& r) {
	Entry* entry = find(key);
	if (!entry || entry->kind != Kind::region || entry->windows) return false;
	set(*entry, r);
	changed();
	return true;
}

bool KeyTable::deregister(std::uint32_t key, std::uint64_t now) {
	Entry* entry = find(key);
	if (!entry || entry->kind != Kind::region || entry->windows) return false;
	entry->retired_at = now;
	release(*entry);
	return true;
}

std::uint32_t KeyTable::allocate_window(std::uint32_t protection_domain) {
	return allocate(Kind::window, protection_domain);
}

void KeyTable::unbind(Entry& window) {
	if (!window.bound) return;
	--entries_[window.bound_to].windows;
	window.bound = false;
	window.access = 0;
	window.begin = window.end = 0;
	changed();
}

bool KeyTable::deallocate_window(std::uint32_t key) {
	auto* entry = const_cast<Entry*>(find_window(key));
	if (!entry) return false;
	unbind(*entry);
	release(*entry);
	return true;
}

// The rules of a bind (IBA 10.6.7): same protection domain, a region that permits windows, a range
// inside it, and no remote write without local write.
KeyTable::BindFault KeyTable::diagnose(const Binding& b) const {
	using enum BindFault::Kind;
	const Entry* window = find_window(b.window_key);
	if (!window) return {.kind = window_unknown};
	if (b.new_key >> 8 != b.window_key >> 8) return {.kind = other_window};
	if (b.qpn && window->bound) return {.kind = still_bound};
	if (b.length == 0) return {.kind = b.qpn ? no_bytes : none};
	const Entry* region = find(b.region_key);
	if (!region || region->kind != Kind::region) return {.kind = region_unknown};
	if (region->protection_domain != window->protection_domain) return {.kind = domain};
	BindFault fault{.begin = region->begin, .end = region->end};
	if (!(region->access & window_bind)) fault.kind = no_bind_right;
	else if (b.address < region->begin || b.address > region->end || b.length > region->end - b.address)
		fault.kind = bounds;
	else if ((b.access & (remote_write | remote_atomic)) && !(region->access & local_write))
		fault.kind = no_local_write;
	return fault;
}

bool KeyTable::bind(const Binding& b) {
	if (diagnose(b).kind != BindFault::Kind::none) return false;
	auto* window = const_cast<Entry*>(find_window(b.window_key));
	unbind(*window);
	if (b.length == 0) {
		window->key = b.new_key;
		return true;
	}
	const Entry* region = find(b.region_key);
	const auto region_index = static_cast<std::uint32_t>(region - entries_.data());
	++entries_[region_index].windows;
	window->bound = true;
	window->bound_to = region_index;
	window->key = b.new_key;
	window->qpn = b.qpn;
	window->access = b.access & (remote_write | remote_read | remote_atomic);
	window->begin = b.access & zero_based ? 0 : b.address;
	window->end = window->begin + b.length;
	window->delta = b.address + region->delta - window->begin;
	changed();
	return true;
}

bool KeyTable::invalidate(std::uint32_t key, Accessor accessor) {
	Entry* entry = find(key);
	if (!entry || entry->kind != Kind::window || !entry->bound || entry->qpn != accessor.qpn) return false;
	if (entry->protection_domain != accessor.protection_domain) return false;
	unbind(*entry);
	return true;
}

KeyTable::Fault KeyTable::diagnose(
	std::uint32_t key, std::uint64_t address, std::uint64_t length, std::uint8_t access, Accessor accessor) const {
	using enum Fault::Kind;
	if (access & local_use) key ^= lkey_mask_;
	const std::uint32_t index = (key >> 8) ^ index_mask_;
	if (index >= entries_.size() || entries_[index].key != key) return {.kind = unknown};
	const Entry& entry = entries_[index];
	Fault fault{.access = entry.access, .begin = entry.begin, .end = entry.end, .retired_at = entry.retired_at};
	const bool window = entry.kind == Kind::window;
	if (entry.kind == Kind::unused) fault.kind = retired;
	else if (window && (!entry.bound || (entry.qpn && entry.qpn != accessor.qpn))) fault.kind = unknown;
	else if (entry.protection_domain != accessor.protection_domain) fault.kind = domain;
	else if ((entry.access & access) != access) fault.kind = rights;
	else if (address < entry.begin || address > entry.end || length > entry.end - address) fault.kind = bounds;
	return fault;
}

bool KeyTable::fill(RegionCache& cache, std::uint32_t key, std::uint8_t access, Accessor accessor) const {
	const Entry* entry = find(access & local_use ? key ^ lkey_mask_ : key);
	if (!entry || entry->protection_domain != accessor.protection_domain) return false;
	if ((entry->access & access) != access) return false;
	if (entry->kind == Kind::window && (!entry->bound || (entry->qpn && entry->qpn != accessor.qpn))) return false;
	constexpr std::uint8_t local = local_use | local_write | on_demand;
	const std::uint8_t rights = !lkey_mask_ ? 0xff : access & local_use ? local : static_cast<std::uint8_t>(~local);
	cache = {
		key, static_cast<std::uint32_t>(entry->access & rights), generation_, entry->begin, entry->end, entry->delta};
	return true;
}

}  // namespace verbena::memory
