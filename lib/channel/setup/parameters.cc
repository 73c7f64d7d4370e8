// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/parameters.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/random.h"

namespace verbena::channel {
namespace {

enum Tag : std::uint8_t { role = 1, transport = 2, gid = 5, nonce = 15, refusal = 16 };

// The fields that are numbers with a range; the other fields have code of their own.
struct Number {
	std::uint8_t tag;
	std::uint8_t size;  // bytes on the wire
	std::string_view name;
	std::uint32_t Parameters::* member;
	std::uint32_t min, max;
};

constexpr std::uint32_t reads_max = 255, channels_max = 1u << 24;
constexpr Number numbers[] = {
	{3, 4, "qp_number", &Parameters::qp_number, 2, 0xfffffe},
	{4, 4, "first_psn", &Parameters::first_psn, 0, 0xffffff},
	{6, 2, "mtu", &Parameters::mtu, 256, 4096},
	{7, 2, "receive_depth", &Parameters::receive_depth, 1, 0xffff},
	{8, 4, "credits_granted", &Parameters::credits_granted, 1, 1u << 24},
	{9, 4, "buffer_unit", &Parameters::buffer_unit, 64, 1 << 20},
	{10, 4, "eager_size_max", &Parameters::eager_size_max, 0, (1u << 29) - 1},
	{11, 1, "reads_as_target", &Parameters::reads_as_target, 0, reads_max},
	{12, 1, "reads_as_initiator", &Parameters::reads_as_initiator, 0, reads_max},
	{13, 2, "shared_queue_pairs", &Parameters::shared_queue_pairs, 0, 0xffff},
	{14, 4, "logical_channels", &Parameters::logical_channels, 0, channels_max},
};

std::unexpected<ParameterError> fault(std::string_view field, const std::string& what) {
	return std::unexpected(ParameterError{field, std::string(field) + " " + what});
}

std::uint32_t load(std::span<const std::byte> bytes) {
	std::uint32_t value = 0;
	for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
	return value;
}

void store(std::vector<std::byte>& out, std::uint32_t value, std::size_t size) {
	while (size--) out.push_back(static_cast<std::byte>(value >> 8 * size));
}

void begin_field(std::vector<std::byte>& out, std::uint8_t tag, std::size_t size) {
	store(out, tag, 1);
	store(out, static_cast<std::uint32_t>(size), 1);
}

// The peer's text is printed on terminals and in logs, so control characters are replaced.
std::string printable(std::span<const std::byte> bytes) {
	std::string text;
	for (const std::byte byte : bytes) {
		const char letter = static_cast<char>(byte);
		text += letter >= ' ' && letter <= '~' ? letter : '?';
	}
	return text;
}

bool all_zero(std::span<const std::byte> bytes) {
	return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::expected<void, ParameterError> check_size(std::string_view name, std::size_t size, std::size_t wanted) {
	if (size != wanted)
		return fault(name, "has " + std::to_string(size) + " bytes instead of " + std::to_string(wanted));
	return {};
}

// Reads one field. Returns its name, or "" for an unknown tag. validate() checks the range of
// numbers.
std::expected<std::string_view, ParameterError> read_field(
	Parameters& into, std::uint8_t tag, std::span<const std::byte> value) {
	const auto exactly = [&](std::string_view name, std::size_t size,
							 auto&& read) -> std::expected<std::string_view, ParameterError> {
		if (const auto good = check_size(name, value.size(), size); !good) return std::unexpected(good.error());
		read();
		return name;
	};
	switch (tag) {
		case Tag::role: return exactly("role", 1, [&] { into.role = static_cast<Role>(value[0]); });
		case Tag::transport: return exactly("transport", 1, [&] { into.transport = static_cast<Transport>(value[0]); });
		case Tag::gid: return exactly("gid", into.gid.size(), [&] { std::ranges::copy(value, into.gid.begin()); });
		case Tag::nonce:
			return exactly("nonce", into.nonce.size(), [&] { std::ranges::copy(value, into.nonce.begin()); });
		case Tag::refusal:
			if (value.size() < 3) return fault("refusal", "is too short for a code and a sentence");
			into.refusal = {static_cast<RefusalCode>(load(value.first(2))), printable(value.subspan(2))};
			return "refusal";
		default: break;
	}
	for (const Number& number : numbers)
		if (number.tag == tag) return exactly(number.name, number.size, [&] { into.*number.member = load(value); });
	return "";
}

struct Fields {
	Parameters parameters;
	std::vector<std::string_view> seen;

	bool has(std::string_view name) const { return std::ranges::find(seen, name) != seen.end(); }
};

// Reads everything after the header.
std::expected<Fields, ParameterError> read_fields(std::span<const std::byte> rest) {
	Fields fields;
	while (!rest.empty()) {
		if (rest.size() < 2) return fault("length", "leaves half a field at the end");
		const auto tag = static_cast<std::uint8_t>(rest[0]);
		const auto value_size = std::to_integer<std::size_t>(rest[1]);
		if (rest.size() - 2 < value_size) return fault("length", "ends within field " + std::to_string(tag));
		const auto name = read_field(fields.parameters, tag, rest.subspan(2, value_size));
		if (!name) return std::unexpected(name.error());
		if (!name->empty()) {
			if (fields.has(*name)) return fault(*name, "appears twice");
			fields.seen.push_back(*name);
		}
		rest = rest.subspan(2 + value_size);
	}
	return fields;
}

std::expected<void, ParameterError> validate_number(const Number& number, const Parameters& parameters) {
	const std::uint32_t value = parameters.*number.member;
	if (value < number.min || value > number.max)
		return fault(number.name,
			std::to_string(value) + " is outside of " + std::to_string(number.min) + " to " +
				std::to_string(number.max));
	return {};
}

std::expected<void, ParameterError> validate_mtu(const Parameters& parameters) {
	if (!std::has_single_bit(parameters.mtu))
		return fault("mtu", std::to_string(parameters.mtu) + " is not a power of two");
	return {};
}

bool of_logical_channels(const Number& number) {
	return number.member == &Parameters::shared_queue_pairs || number.member == &Parameters::logical_channels;
}

bool in_terms(const Number& number) {
	return !of_logical_channels(number) && number.member != &Parameters::qp_number &&
		number.member != &Parameters::first_psn;
}

std::vector<std::byte> begin_message() {
	std::vector<std::byte> out(parameters_magic.begin(), parameters_magic.end());
	store(out, parameters_version, 1);
	store(out, parameters_version, 1);
	store(out, 0, 2);
	return out;
}

void put_number(std::vector<std::byte>& out, const Number& number, const Parameters& parameters) {
	begin_field(out, number.tag, number.size);
	store(out, parameters.*number.member, number.size);
}

void put_role(std::vector<std::byte>& out, const Parameters& parameters) {
	begin_field(out, Tag::role, 1);
	store(out, static_cast<std::uint8_t>(parameters.role), 1);
}

std::vector<std::byte> end_message(std::vector<std::byte> out, std::size_t size_max) {
	check(out.size() <= size_max, "a message has room for all fields");
	out[6] = static_cast<std::byte>(out.size() >> 8);
	out[7] = static_cast<std::byte>(out.size());
	return out;
}

}  // namespace

std::expected<std::size_t, ParameterError> message_size(std::span<const std::byte, parameters_header_size> header) {
	if (!std::ranges::equal(header.first(4), parameters_magic))
		return fault("magic", "is not \"VBCH\": the peer does not speak this protocol");
	const std::uint32_t version = load(header.subspan(4, 1)), oldest_reader = load(header.subspan(5, 1)),
						length = load(header.subspan(6, 2));
	if (version == 0 || oldest_reader == 0 || oldest_reader > version)
		return fault("version",
			std::to_string(version) + " for readers from " + std::to_string(oldest_reader) + " on is invalid");
	if (oldest_reader > parameters_version)
		return fault("version",
			std::to_string(version) + " of the peer's parameters needs a reader of version " +
				std::to_string(oldest_reader) + ", and this one has " + std::to_string(parameters_version) +
				": update this side");
	if (length < parameters_header_size || length > parameters_size_max)
		return fault("length",
			std::to_string(length) + " is outside of " + std::to_string(parameters_header_size) + " to " +
				std::to_string(parameters_size_max));
	return length;
}

std::expected<Parameters, ParameterError> decode(std::span<const std::byte> message) {
	if (message.size() < parameters_header_size)
		return fault("length", "is less than a header's: the message ends early");
	const auto size = message_size(message.first<parameters_header_size>());
	if (!size) return std::unexpected(size.error());
	if (message.size() != *size)
		return fault("length",
			std::to_string(*size) + " is not the size of the message, " + std::to_string(message.size()) + " bytes");

	const auto read = read_fields(message.subspan(parameters_header_size));
	if (!read) return std::unexpected(read.error());
	const Parameters& parameters = read->parameters;
	const auto missing = [&](std::string_view name) { return !read->has(name); };
	if (missing("role")) return fault("role", "is missing");
	if (!parameters.refusal) {
		for (const std::string_view name : {"transport", "nonce"})
			if (missing(name)) return fault(name, "is missing");
		if (parameters.transport != Transport::tcp) {
			if (missing("gid")) return fault("gid", "is missing");
			for (const Number& number : numbers)
				if (missing(number.name)) return fault(number.name, "is missing");
		}
	}
	if (const auto good = validate(parameters); !good) return std::unexpected(good.error());
	if (parameters.refusal || parameters.transport != Transport::tcp) return parameters;
	// Fields that mean nothing over TCP are dropped.
	return Parameters{.role = parameters.role,
		.transport = Transport::tcp,
		.shared_queue_pairs = parameters.shared_queue_pairs,
		.logical_channels = parameters.logical_channels,
		.nonce = parameters.nonce};
}

std::expected<void, ParameterError> validate(const Parameters& parameters) {
	if (parameters.role != Role::client && parameters.role != Role::server)
		return fault("role", "is neither client nor server");
	if (parameters.refusal) {
		if (parameters.role != Role::server) return fault("refusal", "comes from a client: only a server refuses");
		const std::size_t size = parameters.refusal->text.size();
		if (size == 0 || size > refusal_text_max)
			return fault("refusal", "has " + std::to_string(size) + " bytes of text; 1 to 200 are allowed");
		return {};
	}
	if (all_zero(parameters.nonce)) return fault("nonce", "is all zero: it was not drawn at random");
	if (parameters.transport == Transport::tcp) {
		for (const Number& number : numbers)
			if (of_logical_channels(number))
				if (auto good = validate_number(number, parameters); !good) return good;
		return {};
	}
	if (parameters.transport != Transport::rc)
		return fault("transport", "is not one that this version knows (rc, tcp)");
	for (const Number& number : numbers)
		if (auto good = validate_number(number, parameters); !good) return good;
	if (auto good = validate_mtu(parameters); !good) return good;
	if (all_zero(parameters.gid)) return fault("gid", "is empty");
	if (parameters.gid[0] == std::byte{0xff}) return fault("gid", "is a multicast group's");
	return {};
}

std::vector<std::byte> encode(const Parameters& parameters) {
	check(validate(parameters).has_value(), "parameters keep their limits before they are sent");
	std::vector<std::byte> out = begin_message();
	const auto bytes = [&](Tag tag, std::span<const std::byte> value) {
		begin_field(out, tag, value.size());
		out.insert(out.end(), value.begin(), value.end());
	};
	put_role(out, parameters);
	if (parameters.refusal) {
		const auto text = std::as_bytes(std::span(parameters.refusal->text));
		begin_field(out, Tag::refusal, 2 + text.size());
		store(out, static_cast<std::uint16_t>(parameters.refusal->code), 2);
		out.insert(out.end(), text.begin(), text.end());
	} else {
		begin_field(out, Tag::transport, 1);
		store(out, static_cast<std::uint8_t>(parameters.transport), 1);
		if (parameters.transport == Transport::rc) {
			for (const Number& number : numbers) put_number(out, number, parameters);
			bytes(Tag::gid, parameters.gid);
		} else {
			for (const Number& number : numbers)
				if (of_logical_channels(number) && parameters.*number.member > 0) put_number(out, number, parameters);
		}
		bytes(Tag::nonce, parameters.nonce);
	}
	return end_message(std::move(out), parameters_size_max);
}

std::vector<std::byte> encode_terms(const Parameters& parameters) {
	std::vector<std::byte> out = begin_message();
	put_role(out, parameters);
	for (const Number& number : numbers)
		if (in_terms(number)) put_number(out, number, parameters);
	return end_message(std::move(out), terms_size_max);
}

std::expected<Parameters, ParameterError> decode_terms(std::span<const std::byte> private_data, Role of) {
	if (private_data.size() < parameters_header_size)
		return fault("length", "is less than a header's: this is not the private data of a channel");
	const auto size = message_size(private_data.first<parameters_header_size>());
	if (!size) return std::unexpected(size.error());
	if (*size > private_data.size())
		return fault("length", std::to_string(*size) + " is more than the private data has");
	auto read = read_fields(private_data.first(*size).subspan(parameters_header_size));
	if (!read) return std::unexpected(read.error());
	if (!read->has("role")) return fault("role", "is missing");
	if (read->parameters.role != of) return fault("role", "is not that of the other end");
	for (const Number& number : numbers) {
		if (!in_terms(number)) continue;
		if (!read->has(number.name)) return fault(number.name, "is missing");
		if (auto good = validate_number(number, read->parameters); !good) return std::unexpected(good.error());
	}
	if (auto good = validate_mtu(read->parameters); !good) return std::unexpected(good.error());
	return read->parameters;
}

std::expected<Negotiated, ParameterError> negotiate(const Parameters& ours, const Parameters& theirs) {
	if (ours.role == theirs.role) return fault("role", "is the same on both ends");
	if (ours.transport != theirs.transport) return fault("transport", "is not the same on both ends");
	if (ours.transport == Transport::tcp)
		return Negotiated{.shared_queue_pairs = std::min(ours.shared_queue_pairs, theirs.shared_queue_pairs),
			.logical_channels = std::min(ours.logical_channels, theirs.logical_channels)};
	return Negotiated{
		.mtu = std::min(ours.mtu, theirs.mtu),
		.reads_out = std::min(ours.reads_as_initiator, theirs.reads_as_target),
		.reads_in = std::min(ours.reads_as_target, theirs.reads_as_initiator),
		.eager_size_max = std::min(ours.eager_size_max, theirs.eager_size_max),
		.send_credits = theirs.credits_granted,
		.send_unit = theirs.buffer_unit,
		.shared_queue_pairs = std::min(ours.shared_queue_pairs, theirs.shared_queue_pairs),
		.logical_channels = std::min(ours.logical_channels, theirs.logical_channels),
	};
}

std::string_view name_of(RefusalCode code) {
	switch (code) {
		case RefusalCode::malformed: return "malformed";
		case RefusalCode::full: return "full";
		case RefusalCode::no_resources: return "no_resources";
		case RefusalCode::shutting_down: return "shutting_down";
		case RefusalCode::not_supported: return "not_supported";
		case RefusalCode::busy: return "busy";
	}
	return "other";
}

Nonce random_nonce() {
	Nonce nonce;
	do secure_random(nonce);
	while (all_zero(nonce));
	return nonce;
}

}  // namespace verbena::channel
