// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/tree.h"

#include <cerrno>
#include <utility>

namespace verbena::presence {
namespace {

constexpr int links_max = 40;  // as in the kernel

std::string_view folder_of(std::string_view path) {
	const std::size_t slash = path.rfind('/');
	return path.substr(0, slash == std::string_view::npos ? 0 : slash);
}

// Takes the first component off `rest`; empty at the end of the path.
std::string_view take_component(std::string_view& rest) {
	while (rest.starts_with('/')) rest.remove_prefix(1);
	const std::string_view component = rest.substr(0, rest.find('/'));
	rest.remove_prefix(component.size());
	return component;
}

class Fnv {
public:
	void add(std::string_view bytes) {
		for (const char byte : bytes) add_byte(static_cast<std::uint8_t>(byte));
		add_byte(0);
	}
	void add(std::uint64_t number) {
		for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<std::uint8_t>(number >> shift));
	}
	std::uint64_t value() const { return value_; }

private:
	void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
	std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

void Tree::add(std::string path, Entry entry) {
	for (std::string_view folder = folder_of(path); !folder.empty(); folder = folder_of(folder))
		if (!entries_.try_emplace(std::string(folder)).second) break;
	entries_.insert_or_assign(std::move(path), std::move(entry));
}

const Entry* Tree::find(std::string_view path) const {
	const auto found = entries_.find(path);
	return found == entries_.end() ? nullptr : &found->second;
}

Place Tree::walk(std::string_view path, bool follow) const {
	std::string at;  // the canonical path so far, without a slash at its end
	std::string storage(path);
	std::string_view rest = storage;
	int links = 0;
	for (;;) {
		const std::string_view component = take_component(rest);
		if (component.empty()) break;
		if (component == ".") continue;
		if (component == "..") {
			at.resize(folder_of(at).size());
			continue;
		}
		if (const Entry* here = find(at); here && here->kind != Kind::folder && here->kind != Kind::passage)
			return {.path = at, .error = ENOTDIR};
		const std::size_t folder_length = at.size();
		at += '/';
		at += component;
		const Entry* entry = find(at);
		if (!entry || entry->kind == Kind::system) {
			const Entry* folder = find(std::string_view(at).substr(0, folder_length));
			const bool missing =
				!entry && folder && folder->kind == Kind::folder && rest.find_first_not_of('/') == rest.npos;
			return {.path = at + std::string(rest), .missing = missing};
		}
		if (entry->kind != Kind::link || (rest.empty() && !follow)) continue;
		if (++links > links_max) return {.path = at, .error = ELOOP};
		at.resize(entry->text.starts_with('/') ? 0 : folder_length);
		storage = entry->text + std::string(rest);
		rest = storage;
	}
	const Entry* entry = find(at);
	if (!entry || entry->kind == Kind::passage) return {.path = at.empty() ? "/" : at};
	if (path.ends_with('/') && entry->kind != Kind::folder) return {.path = at, .error = ENOTDIR};
	return {.path = at, .entry = entry};
}

std::uint64_t Tree::hash() const {
	Fnv hash;
	for (const auto& [path, entry] : entries_) {
		hash.add(path);
		hash.add(static_cast<std::uint64_t>(entry.kind));
		hash.add(entry.text);
		hash.add(entry.number);
	}
	return hash.value();
}

}  // namespace verbena::presence
