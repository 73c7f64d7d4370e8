// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of RPC frames, and the reading of bodies as several types: each becomes a fault
// or a value, and takes memory in proportion to its size.
#include <map>
#include <optional>

#include "lib/rpc/frame.h"
#include "lib/rpc/serialize.h"
#include "lib/rpc/stream_window.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	using namespace verbena::rpc;
	const auto message = std::as_bytes(std::span(data, size));
	FrameReader reader(message, {.body_max = 4096, .attachment_max = 4096});
	Unpacker unpacker;
	const auto read = [&](std::span<const std::byte> body) {
		std::tuple<std::string_view, int> text_and_number;
		unpack_arguments(unpacker, body, text_and_number);
		std::vector<std::vector<std::string>> lists;
		unpack_value(unpacker, body, lists);
		std::map<std::string, std::optional<double>> map;
		unpack_value(unpacker, body, map);
		std::span<const std::byte> bytes;
		unpack_value(unpacker, body, bytes);
	};
	ReadWindow reads(stream_window_min);
	WriteWindow writes;
	while (!reader.done()) {
		const auto frame = reader.next();
		if (!frame) {
			if (frame.error().code == errc::message_too_large) continue;
			break;
		}
		read(frame->body);
		const std::size_t cost = item_cost(frame->body.size());
		if (frame->header.kind == FrameKind::item && reads.arrive(cost)) reads.consume(cost);
		if (frame->header.kind == FrameKind::window && !writes.grant(frame->header.granted)) break;
	}
	read(message);
	return 0;
}
