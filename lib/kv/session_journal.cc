// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/session_journal.h"

#include <cstring>

#include "base/random.h"

namespace verbena::kv {
namespace {

// A session's note: this letter and the 8 bytes of the client's id.
constexpr char session_letter = 's';

std::string note_of(std::uint64_t client) {
	return session_letter + std::string(reinterpret_cast<const char*>(&client), sizeof client);
}

}  // namespace

std::expected<SessionJournal::Restored, std::string> SessionJournal::read(
	LmdbJournal& journal, Nanoseconds now, bool salvage) {
	std::uint64_t identity = 0;
	const auto found = journal.read_notes([&](std::string_view name, Bytes value) {
		if (name == identity_note && value.size() == sizeof identity)
			std::memcpy(&identity, value.data(), sizeof identity);
	});
	if (!found) return std::unexpected(found.error());
	if (identity == 0) {
		identity = secure_random<std::uint64_t>() | 1;
		journal.write_note(identity_note, std::as_bytes(std::span(&identity, 1)));
		if (!journal.commit()) return std::unexpected(journal.failure());
	}
	Restored restored{.sessions = std::make_unique<Sessions>(identity)};
	const auto read = journal.read_notes([&](std::string_view name, Bytes value) {
		std::uint64_t client;
		if (name.size() != 1 + sizeof client || name.front() != session_letter) return;
		std::memcpy(&client, name.data() + 1, sizeof client);
		if (!restored.sessions->restore(client, value, now)) ++restored.dropped;
	});
	if (!read) return std::unexpected(read.error());
	if (restored.dropped == 0) return restored;
	if (!salvage)
		return std::unexpected(std::to_string(restored.dropped) +
			" damaged records of clients' changes; restore the folder from a copy, or lose these records by --salvage");
	if (!SessionJournal(journal, *restored.sessions).commit()) return std::unexpected(journal.failure());
	return restored;
}

bool SessionJournal::commit() {
	sessions_.for_each_changed([&](std::uint64_t client, Bytes bytes) {
		if (bytes.empty()) journal_.erase_note(note_of(client));
		else journal_.write_note(note_of(client), bytes);
	});
	if (!journal_.commit()) return false;
	sessions_.written();
	return true;
}

}  // namespace verbena::kv
