// SPDX-License-Identifier: Apache-2.0
// SessionJournal: writes the sessions (sessions.h) into the same transaction as the changes that
// they are about. So a server that starts with the content of another one knows which changes of
// its clients that content has.
//
// Threads: one, the store's.
// Lifetime: dies before the journal and the sessions.
#pragma once

#include <memory>

#include "lib/kv/lmdb_journal.h"
#include "lib/kv/sessions.h"

namespace verbena::kv {

class SessionJournal final : public Journal {
public:
	struct Restored {
		std::unique_ptr<Sessions> sessions;
		std::size_t dropped = 0;  // damaged records, which the folder no longer has
	};
	// Reads the folder's identity and its sessions. A folder without an identity gets a new one. A
	// record that is no session, although its checksum is good, is an error or, with `salvage`,
	// dropped: then Sessions::forgot() is true for its client.
	static std::expected<Restored, std::string> read(LmdbJournal& journal, Nanoseconds now, bool salvage);

	SessionJournal(LmdbJournal& journal, Sessions& sessions) : journal_(journal), sessions_(sessions) {}

	// Journal
	void set(std::string_view key, Bytes value, const Stamp& stamp) override { journal_.set(key, value, stamp); }
	void remove(std::string_view key, std::uint64_t version) override { journal_.remove(key, version); }
	bool commit() override;

private:
	LmdbJournal& journal_;
	Sessions& sessions_;
};

}  // namespace verbena::kv
