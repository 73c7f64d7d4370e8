// SPDX-License-Identifier: Apache-2.0
#include "nic/observe/transport_trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

namespace verbena::observe {
namespace {

// The numbers of captured bytes of all packets in the only trace of the folder.
std::vector<std::uint32_t> captured_in(const std::filesystem::path& folder) {
	const auto entry = std::filesystem::directory_iterator(folder);
	std::ifstream file(entry->path(), std::ios::binary);
	const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
	std::vector<std::uint32_t> all;
	for (std::size_t at = trace::FileHead::bytes; at < bytes.size();) {
		trace::Record record;
		std::memcpy(&record, bytes.data() + at, sizeof record);
		if (record.kind == trace::Kind::none) break;
		trace::Packet packet;
		std::memcpy(&packet, bytes.data() + at + sizeof record, sizeof packet);
		all.push_back(packet.captured);
		at += sizeof record * (1 + record.more);
	}
	return all;
}

// The memory of a link is the peer's too. Such a peer could make a traced process read beyond the
// slot, or beyond the arena.
TEST(TransportTrace, ASlotThatThePeerHasChangedIsCapturedWithinItsBounds) {
	std::string folder = testing::TempDir() + "traceXXXXXX";
	ASSERT_NE(mkdtemp(folder.data()), nullptr);
	setenv("VERBENA_TRACE", folder.c_str(), 1);
	setenv("VERBENA_TRACE_PACKETS", "8192", 1);
	ASSERT_TRUE(trace::begin());

	adapter::ChannelAdapter adapter{1};
	TransportTrace observer(adapter);
	const auto direction = std::make_unique<wire::Direction>();
	transport::Outlet outlet;
	outlet.slots.attach(direction.get());
	wire::Slot slot;
	slot.set_bth(wire::Opcode::rc_send_only, {7}, {1}, 0);
	for (const std::uint32_t line :
		{std::uint32_t{wire::Slot::inline_payload}, wire::Direction::arena_lines - 1, wire::Direction::arena_lines}) {
		slot.payload_line = line;
		observer.sent(outlet, slot, 8192, 1);
	}
	EXPECT_EQ(captured_in(folder), (std::vector<std::uint32_t>{wire::Slot::inline_bytes_max, 64, 0}));
	std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbena::observe
