// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/private_data.h"

#include <fmt/format.h>

#include <string_view>

#include "bench/far_end/control.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {
namespace {

constexpr std::string_view offer_letters = "VBRO", answer_letters = "VBRA";

class Writer {
public:
	Writer(std::span<std::byte> to, std::string_view letters) : to_(to) {
		for (const char letter : letters) put(static_cast<std::uint8_t>(letter));
		put(private_data_version);
	}
	template <class Number> void put(Number number) {
		for (int shift = 8 * (sizeof number - 1); shift >= 0; shift -= 8)
			to_[at_++] = static_cast<std::byte>(static_cast<std::uint64_t>(number) >> shift);
	}

private:
	std::span<std::byte> to_;
	std::size_t at_ = 0;
};

// Reads big-endian numbers. The caller has checked that there are enough bytes.
class Reader {
public:
	explicit Reader(std::span<const std::byte> from) : from_(from) {}
	template <class Number> Number get() {
		std::uint64_t number = 0;
		for (std::size_t i = 0; i < sizeof(Number); ++i)
			number = number << 8 | std::to_integer<std::uint64_t>(from_[at_++]);
		return static_cast<Number>(number);
	}

private:
	std::span<const std::byte> from_;
	std::size_t at_ = 0;
};

std::expected<Reader, std::string> open(std::span<const std::byte> data, std::string_view letters, std::size_t bytes) {
	if (data.size() < bytes)
		return std::unexpected(fmt::format("the private data has {} bytes instead of {}", data.size(), bytes));
	Reader reader(data);
	for (const char letter : letters)
		if (reader.get<std::uint8_t>() != static_cast<std::uint8_t>(letter))
			return std::unexpected("the private data comes from another program");
	const int version = reader.get<std::uint8_t>();
	if (version != private_data_version) return std::unexpected(bench::version_mismatch(version, private_data_version));
	return reader;
}

}  // namespace

std::array<std::byte, offer_bytes> encode(const Offer& offer) {
	std::array<std::byte, offer_bytes> data;
	Writer writer(data, offer_letters);
	writer.put(static_cast<std::uint8_t>(offer.cell.op));
	writer.put(static_cast<std::uint8_t>(offer.cell.window_mode));
	writer.put(std::uint8_t{0});
	writer.put(offer.cell.msg);
	writer.put(offer.cell.window);
	writer.put(offer.run.number);
	writer.put(offer.run.total);
	writer.put(offer.run.seed);
	writer.put(offer.credit_word);
	writer.put(offer.rkey);
	return data;
}

std::array<std::byte, answer_bytes> encode(const Answer& answer) {
	std::array<std::byte, answer_bytes> data;
	Writer writer(data, answer_letters);
	writer.put(answer.data);
	writer.put(answer.rkey);
	return data;
}

std::expected<Offer, std::string> decode_offer(std::span<const std::byte> data) {
	auto reader = open(data, offer_letters, offer_bytes);
	if (!reader) return std::unexpected(reader.error());
	const auto op = reader->get<std::uint8_t>();
	const auto window_mode = reader->get<std::uint8_t>();
	const auto reserved = reader->get<std::uint8_t>();
	Offer offer;
	offer.cell = {.mode = Mode::rc,
		.op = static_cast<Op>(op),
		.window_mode = static_cast<WindowMode>(window_mode),
		.msg = reader->get<std::uint32_t>(),
		.window = reader->get<std::uint32_t>()};
	offer.run.number = reader->get<std::uint16_t>();
	offer.run.total = reader->get<std::uint64_t>();
	offer.run.seed = reader->get<std::uint64_t>();
	offer.credit_word = reader->get<std::uint64_t>();
	offer.rkey = reader->get<std::uint32_t>();
	if (op > static_cast<std::uint8_t>(Op::read)) return std::unexpected(fmt::format("unknown operation {}", op));
	if (window_mode > static_cast<std::uint8_t>(WindowMode::credit) || reserved != 0)
		return std::unexpected(fmt::format("unknown window mode {} (reserved byte {})", window_mode, reserved));
	if (offer.cell.msg < 1 || offer.cell.msg > 64u << 20)
		return std::unexpected(fmt::format("a message of {} B is not in range 1 to 64M", offer.cell.msg));
	if (offer.cell.window < 1 || offer.cell.window > 4096)
		return std::unexpected(fmt::format("a window of {} is not in range 1 to 4096", offer.cell.window));
	if (offer.run.total > sequence_mask)
		return std::unexpected(fmt::format("a run of {} messages is too long", offer.run.total));
	return offer;
}

std::expected<Answer, std::string> decode_answer(std::span<const std::byte> data) {
	auto reader = open(data, answer_letters, answer_bytes);
	if (!reader) return std::unexpected(reader.error());
	const auto ring = reader->get<std::uint64_t>();
	return Answer{.data = ring, .rkey = reader->get<std::uint32_t>()};
}

}  // namespace verbena::rcud
