// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/stream_window.h"

#include <gtest/gtest.h>

namespace verbena::rpc {
namespace {

// Writes items until the window is full, and returns their number.
int fill(WriteWindow& writer, ReadWindow& reader, std::size_t cost) {
	int items = 0;
	for (; writer.open(); ++items) {
		writer.spend(cost);
		EXPECT_TRUE(reader.arrive(cost));
	}
	return items;
}

TEST(StreamWindow, AWriterStopsWhenTheReadersWindowIsFull) {
	ReadWindow reader(stream_window_min);
	WriteWindow writer;
	EXPECT_EQ(reader.first_grant(), 0u);
	EXPECT_EQ(fill(writer, reader, 1024), 64);
	EXPECT_FALSE(reader.arrive(1)) << "a peer that goes on writing is detected";
}

TEST(StreamWindow, ConsumedBytesAreGrantedAgainAtHalfAWindow) {
	ReadWindow reader(stream_window_min);
	WriteWindow writer;
	fill(writer, reader, 1024);
	for (int i = 0; i < 31; ++i) EXPECT_EQ(reader.consume(1024), 0u);
	const std::uint32_t granted = reader.consume(1024);
	EXPECT_EQ(granted, 32u << 10);
	EXPECT_TRUE(writer.grant(granted));
	EXPECT_EQ(fill(writer, reader, 1024), 32);
}

TEST(StreamWindow, ALargerWindowIsGrantedAtTheStart) {
	ReadWindow reader(256 << 10);
	WriteWindow writer;
	EXPECT_TRUE(writer.grant(reader.first_grant()));
	EXPECT_EQ(fill(writer, reader, 1024), 256);
	EXPECT_EQ(ReadWindow(1).first_grant(), 0u) << "a smaller window is raised to the minimum";
}

TEST(StreamWindow, AnItemLargerThanTheWindowIsSentAlone) {
	ReadWindow reader(stream_window_min);
	WriteWindow writer;
	for (int i = 0; i < 10; ++i) {
		EXPECT_EQ(fill(writer, reader, 1 << 20), 1);
		EXPECT_TRUE(writer.grant(reader.consume(1 << 20)));
	}
}

TEST(StreamWindow, AGrantAboveTheLargestWindowIsRefused) {
	WriteWindow writer;
	EXPECT_TRUE(writer.grant(1000));
	EXPECT_FALSE(writer.grant(0xffffffff));
}

}  // namespace
}  // namespace verbena::rpc
