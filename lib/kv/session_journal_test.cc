// SPDX-License-Identifier: Apache-2.0
// SessionJournal: a folder with a record that has a good checksum and is no session.
#include "lib/kv/session_journal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "lib/kv/service.h"

namespace verbena::kv {
namespace {

constexpr std::uint64_t sound_client = 7, damaged_client = 8, other_client = 9;

class DamagedSession : public ::testing::Test {
protected:
	void SetUp() override {
		std::string folder = "/tmp/kv_sessions_XXXXXX";
		ASSERT_NE(mkdtemp(folder.data()), nullptr);
		folder_ = folder;
		const auto journal = open();
		auto restored = SessionJournal::read(*journal, 0, false);
		ASSERT_TRUE(restored.has_value()) << restored.error();
		Sessions& sessions = *restored->sessions;
		identity_ = sessions.identity();
		for (const std::uint64_t client : {sound_client, damaged_client}) sessions.keep(sessions.enter(client), 3);
		journal->set("key", bytes_of("value"), {.version = 1});
		ASSERT_TRUE(SessionJournal(*journal, sessions).commit());
		// One range, which ends at an order that no change has.
		const std::uint64_t damaged[] = {0, 1, ~std::uint64_t{0} - 1};
		journal->write_note('s' + std::string(reinterpret_cast<const char*>(&damaged_client), sizeof damaged_client),
			std::as_bytes(std::span(damaged)));
		ASSERT_TRUE(journal->commit());
	}
	void TearDown() override { std::filesystem::remove_all(folder_); }

	std::unique_ptr<LmdbJournal> open() const {
		auto opened = LmdbJournal::open(folder_, 64 << 20);
		EXPECT_TRUE(opened.has_value()) << opened.error();
		return opened ? std::move(*opened) : nullptr;
	}

	std::string folder_;
	std::uint64_t identity_ = 0;
};

TEST_F(DamagedSession, IsRefusedByASentenceThatNamesSalvage) {
	const auto journal = open();
	const auto restored = SessionJournal::read(*journal, 0, false);
	ASSERT_FALSE(restored.has_value());
	EXPECT_NE(restored.error().find("1 damaged record"), std::string::npos) << restored.error();
	EXPECT_NE(restored.error().find("--salvage"), std::string::npos) << restored.error();
}

TEST_F(DamagedSession, IsDroppedBySalvageOnceAndItsClientRepeatsNothing) {
	for (const bool salvage : {true, false}) {
		Salvage salvaged;
		const auto journal = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged).value();
		EXPECT_TRUE(salvaged.losses.empty()) << "the checksums are good";
		const auto restored = SessionJournal::read(*journal, 0, salvage);
		ASSERT_TRUE(restored.has_value()) << restored.error();
		EXPECT_EQ(restored->dropped, salvage ? 1u : 0u);
		Sessions& sessions = *restored->sessions;
		EXPECT_EQ(sessions.identity(), identity_) << "the other clients go on";
		EXPECT_FALSE(sessions.forgot(sound_client));
		EXPECT_TRUE(sessions.forgot(damaged_client));
		EXPECT_TRUE(sessions.forgot(other_client));
		EXPECT_EQ(sessions.enter(sound_client).fate_of(3), ChangeSession::Fate::done);
		std::size_t keys = 0;
		EXPECT_TRUE(journal->read_all([&](std::string_view, Bytes, const Stamp&) { return ++keys > 0; }).has_value());
		EXPECT_EQ(keys, 1u);
	}
}

TEST_F(DamagedSession, KeepsAServerFromStartingUnlessItSalvages) {
	for (const bool salvage : {false, true}) {
		std::string complaints;
		Service service({.where = async::resolve("127.0.0.1", 0).value(),
			.settings = {.memory = 64 << 20},
			.data = folder_,
			.salvage = salvage,
			.complain = [&](const std::string& sentence) { complaints += sentence; }});
		const auto started = service.start();
		EXPECT_EQ(started.has_value(), salvage);
		if (!started) continue;
		EXPECT_EQ(service.facts().keys, 1u);
		EXPECT_EQ(service.facts().bad_records, 1u);
		EXPECT_NE(complaints.find("1 records of clients' changes are damaged"), std::string::npos) << complaints;
	}
}

}  // namespace
}  // namespace verbena::kv
