// The frames of RPC, and bodies read as several types: whatever a peer sends, a fault or a value, and memory in proportion.
#include <map>
#include <optional>

#include "lib/rpc/frame.h"
#include "lib/rpc/serialize.h"

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
	while (!reader.done()) {
		const auto frame = reader.next();
		if (frame) read(frame->body);
		else if (frame.error().code != errc::message_too_large) break;
	}
	read(message);
	return 0;
}
