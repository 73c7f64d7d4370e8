// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbena::rpc {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
	Bytes bytes;
	for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
	return bytes;
}

// A request of function 0x11223344 with a body of 2 bytes and an attachment of 3.
Bytes request() {
	return bytes_of({0x56, 1, 1, 1, 7, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 2, 0, 0, 0, 3, 0, 0, 0, 0x40, 0x42, 0x0f, 0,
		'b', 'b', 'a', 't', 't'});
}

errc fault_of(const Bytes& message, const FrameLimits& limits = {}) {
	const auto frame = FrameReader(message, limits).next();
	return frame ? errc::ok : frame.error().code;
}

Bytes changed(std::size_t at, int value) {
	Bytes message = request();
	message[at] = static_cast<std::byte>(value);
	return message;
}

TEST(Frame, ARequestIsReadFromItsLiteralBytes) {
	const Bytes message = request();
	FrameReader reader(message, {});
	const auto frame = reader.next();
	ASSERT_TRUE(frame);
	EXPECT_EQ(frame->header,
		(FrameHeader{.kind = FrameKind::request,
			.serialization = Serialization::msgpack,
			.sequence = 7,
			.function = 0x11223344,
			.body_length = 2,
			.attachment_length = 3,
			.patience_us = 1'000'000}));
	EXPECT_EQ(frame->body.size(), 2u);
	EXPECT_EQ(frame->attachment.data(), message.data() + 26);
	EXPECT_TRUE(reader.done());
}

TEST(Frame, AHeaderThatIsWrittenIsReadBack) {
	const FrameHeader written{.kind = FrameKind::response, .sequence = 0xfffffffe, .code = 10'404};
	Bytes message(FrameHeader::bytes);
	written.write(std::span<std::byte, FrameHeader::bytes>(message));
	const auto frame = FrameReader(message, {}).next();
	ASSERT_TRUE(frame);
	EXPECT_EQ(frame->header, written);
}

TEST(Frame, TheFramesOfAStreamAreReadFromTheirLiteralBytes) {
	Bytes open = request();
	open[2] = std::byte{7};
	EXPECT_EQ(FrameReader(open, {}).next()->header.function, 0x11223344u);
	const Bytes item = bytes_of({0x56, 1, 8, 1, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5});
	const auto read = FrameReader(item, {}).next();
	ASSERT_TRUE(read);
	EXPECT_EQ(read->header,
		(FrameHeader{
			.kind = FrameKind::item, .serialization = Serialization::msgpack, .sequence = 7, .body_length = 1}));
	EXPECT_EQ(read->body.size(), 1u);
	const Bytes window = bytes_of({0x56, 1, 9, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
	EXPECT_EQ(FrameReader(window, {}).next()->header,
		(FrameHeader{.kind = FrameKind::window, .sequence = 7, .granted = 65'536}));
	const Bytes done = bytes_of({0x56, 1, 10, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
	EXPECT_EQ(FrameReader(done, {}).next()->header, (FrameHeader{.kind = FrameKind::done, .sequence = 7}));
}

TEST(Frame, InvalidFramesOfAStreamAreRefused) {
	const auto of_kind = [](int kind, std::initializer_list<std::pair<std::size_t, int>> changes) {
		Bytes message = bytes_of({0x56, 1, kind, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
		for (const auto& [at, value] : changes) message[at] = static_cast<std::byte>(value);
		return fault_of(message);
	};
	EXPECT_EQ(of_kind(8, {}), errc::protocol_error) << "an item without a body";
	EXPECT_EQ(of_kind(9, {}), errc::protocol_error) << "a window of nothing";
	EXPECT_EQ(of_kind(9, {{8, 1}, {20, 1}}), errc::protocol_error);
	EXPECT_EQ(of_kind(9, {{8, 1}}), errc::ok);
	EXPECT_EQ(of_kind(10, {{8, 1}}), errc::protocol_error);
	EXPECT_EQ(of_kind(10, {{20, 1}}), errc::protocol_error);
	EXPECT_EQ(fault_of(changed(2, 8)), errc::protocol_error) << "an item with an attachment";
	EXPECT_EQ(fault_of(changed(2, 9)), errc::protocol_error) << "a window with a body";
	EXPECT_EQ(fault_of(changed(2, 10)), errc::protocol_error);
	EXPECT_EQ(fault_of(changed(2, 7)), errc::ok) << "an open is like a request";
}

TEST(Frame, SeveralFramesOfOneMessageComeInOrder) {
	Bytes message = request();
	const Bytes second = changed(4, 8);
	message.insert(message.end(), second.begin(), second.end());
	FrameReader reader(message, {});
	EXPECT_EQ(reader.next()->header.sequence, 7u);
	EXPECT_EQ(reader.next()->header.sequence, 8u);
	EXPECT_TRUE(reader.done());
}

TEST(Frame, AMessageThatEndsEarlyIsRefusedAtEveryLength) {
	const Bytes message = request();
	for (std::size_t length = 0; length < message.size(); ++length)
		EXPECT_EQ(fault_of(Bytes(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(length))),
			errc::protocol_error)
			<< length;
}

TEST(Frame, InvalidFramesAreRefused) {
	EXPECT_EQ(fault_of(changed(0, 0x15)), errc::protocol_error);
	EXPECT_EQ(fault_of(changed(1, 2)), errc::unknown_protocol_version);
	EXPECT_EQ(fault_of(changed(2, 0)), errc::protocol_error);
	EXPECT_EQ(fault_of(changed(2, 11)), errc::protocol_error);
	EXPECT_EQ(fault_of(changed(2, 3)), errc::protocol_error);   // a cancel with a body
	EXPECT_EQ(fault_of(changed(3, 0)), errc::protocol_error);   // a body without a serialization
	EXPECT_EQ(fault_of(changed(3, 2)), errc::protocol_error);
	EXPECT_EQ(fault_of(changed(2, 2)), errc::protocol_error);   // a response with a patience
	EXPECT_EQ(fault_of(changed(15, 0xff)), errc::protocol_error);  // a body of 4 GiB
	EXPECT_EQ(fault_of(changed(19, 0xff)), errc::protocol_error);
}

TEST(Frame, AFrameAboveALimitIsSkippedAndTheNextIsRead) {
	Bytes message = request();
	const Bytes second = changed(12, 1);  // one byte less, so the attachment begins earlier
	message.insert(message.end(), second.begin(), second.end() - 1);
	FrameReader reader(message, {.body_max = 1, .attachment_max = 3});
	const auto first = reader.next();
	ASSERT_FALSE(first);
	EXPECT_EQ(first.error().code, errc::message_too_large);
	EXPECT_EQ(first.error().sequence, 7u);
	EXPECT_TRUE(reader.next());
	EXPECT_TRUE(reader.done());
}

}  // namespace
}  // namespace verbena::rpc
