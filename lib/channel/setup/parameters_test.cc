// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <ranges>

namespace verbena::channel {
namespace {

using Bytes = std::vector<std::byte>;

Parameters template_parameters() {
	Parameters parameters{.qp_number = 0x123456,
		.first_psn = 0xabcdef,
		.mtu = 4096,
		.receive_depth = 512,
		.credits_granted = 64,
		.buffer_unit = 1024,
		.eager_size_max = 16384,
		.reads_as_target = 16,
		.reads_as_initiator = 8,
		.shared_queue_pairs = 4,
		.logical_channels = 1000};
	for (std::size_t i = 0; i < 16; ++i) {
		parameters.gid[i] = static_cast<std::byte>(0x20 + i);
		parameters.nonce[i] = static_cast<std::byte>(0xf0 + i);
	}
	return parameters;
}

Bytes bytes_of(std::initializer_list<int> list) {
	Bytes bytes;
	for (const int each : list) bytes.push_back(static_cast<std::byte>(each));
	return bytes;
}

// clang-format off
const Bytes literal = bytes_of({
	'V', 'B', 'C', 'H', 1, 1, 0, 104,
	1, 1, 1,
	2, 1, 1,
	3, 4, 0x00, 0x12, 0x34, 0x56,
	4, 4, 0x00, 0xab, 0xcd, 0xef,
	6, 2, 0x10, 0x00,
	7, 2, 0x02, 0x00,
	8, 4, 0x00, 0x00, 0x00, 0x40,
	9, 4, 0x00, 0x00, 0x04, 0x00,
	10, 4, 0x00, 0x00, 0x40, 0x00,
	11, 1, 16,
	12, 1, 8,
	13, 2, 0x00, 0x04,
	14, 4, 0x00, 0x00, 0x03, 0xe8,
	5, 16, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f,
	15, 16, 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff,
});
// clang-format on

void set_length(Bytes& message) {
	message[6] = static_cast<std::byte>(message.size() >> 8);
	message[7] = static_cast<std::byte>(message.size());
}

// The template with more fields at its end.
Bytes with(std::initializer_list<int> fields) {
	Bytes message = literal;
	std::ranges::copy(bytes_of(fields), std::back_inserter(message));
	set_length(message);
	return message;
}

// The template without one field.
Bytes without(int tag) {
	Bytes message(literal.begin(), literal.begin() + 8);
	for (std::size_t at = 8; at < literal.size();) {
		const std::size_t size = 2 + std::to_integer<std::size_t>(literal[at + 1]);
		if (literal[at] != static_cast<std::byte>(tag))
			message.insert(message.end(), literal.begin() + at, literal.begin() + at + size);
		at += size;
	}
	set_length(message);
	return message;
}

std::string field_at_fault(const Bytes& message) {
	const auto decoded = decode(message);
	if (decoded) return "";
	EXPECT_TRUE(decoded.error().text.starts_with(decoded.error().field)) << decoded.error().text;
	return std::string(decoded.error().field);
}

TEST(Parameters, AreEncodedAsTheseBytes) { EXPECT_EQ(encode(template_parameters()), literal); }

TEST(Parameters, AreDecodedFromTheseBytes) {
	const auto decoded = decode(literal);
	ASSERT_TRUE(decoded) << decoded.error().text;
	EXPECT_EQ(*decoded, template_parameters());
}

TEST(Parameters, ARefusalIsARoleACodeAndASentence) {
	const Bytes message = bytes_of({'V', 'B', 'C', 'H', 1, 1, 0, 19, 1, 1, 2, 16, 6, 0, 2, 'f', 'u', 'l', 'l'});
	const auto decoded = decode(message);
	ASSERT_TRUE(decoded) << decoded.error().text;
	EXPECT_EQ(decoded->refusal, (Refusal{RefusalCode::full, "full"}));
	EXPECT_EQ(encode({.role = Role::server, .refusal = Refusal{RefusalCode::full, "full"}}), message);
}

TEST(Parameters, ARefusalsTextCannotSpeakToTheTerminal) {
	const auto decoded =
		decode(bytes_of({'V', 'B', 'C', 'H', 1, 1, 0, 19, 1, 1, 2, 16, 6, 0, 2, 0x1b, '[', 0xc3, '\n'}));
	ASSERT_TRUE(decoded);
	EXPECT_EQ(decoded->refusal->text, "?[??");
}

TEST(Parameters, OnlyAServerRefuses) {
	EXPECT_EQ(field_at_fault(bytes_of({'V', 'B', 'C', 'H', 1, 1, 0, 19, 1, 1, 1, 16, 6, 0, 2, 'f', 'u', 'l', 'l'})),
		"refusal");
}

TEST(Parameters, ARefusalsTextIsAtMost200Bytes) {
	const auto refusal = [](std::size_t size) {
		Bytes message = bytes_of({'V', 'B', 'C', 'H', 1, 1, 0, 0, 1, 1, 2, 16, static_cast<int>(2 + size), 0, 1});
		message.resize(message.size() + size, std::byte{'x'});
		set_length(message);
		return message;
	};
	EXPECT_EQ(field_at_fault(refusal(200)), "");
	EXPECT_EQ(field_at_fault(refusal(201)), "refusal");
	EXPECT_EQ(field_at_fault(refusal(0)), "refusal");
}

TEST(Parameters, TruncatedAtAnyByteTheyAreRefused) {
	for (std::size_t size = 0; size < literal.size(); ++size) {
		Bytes cut(literal.begin(), literal.begin() + size);
		EXPECT_EQ(field_at_fault(cut), "length") << size;
		// The same, with a length in the header that agrees with the cut: half a field, or a
		// missing one.
		if (size < parameters_header_size) continue;
		set_length(cut);
		EXPECT_NE(field_at_fault(cut), "") << size;
	}
}

TEST(Parameters, ABytePastTheLengthIsRefused) {
	Bytes longer = literal;
	longer.push_back(std::byte{0});
	EXPECT_EQ(field_at_fault(longer), "length");
}

TEST(Parameters, AtMost512BytesAreRead) {
	std::array<std::byte, 8> header;
	std::copy_n(literal.begin(), 8, header.begin());
	const auto size_of = [&](int length) {
		header[6] = static_cast<std::byte>(length >> 8);
		header[7] = static_cast<std::byte>(length);
		return message_size(header);
	};
	EXPECT_EQ(size_of(512), 512u);
	EXPECT_EQ(size_of(8), 8u);
	for (const int length : {0, 7, 513, 65535}) EXPECT_EQ(size_of(length).error().field, "length") << length;
}

TEST(Parameters, AnotherMagicIsRefused) {
	for (std::size_t i = 0; i < 4; ++i) {
		Bytes other = literal;
		other[i] ^= std::byte{1};
		EXPECT_EQ(field_at_fault(other), "magic");
	}
}

TEST(Parameters, ALaterVersionIsReadIfItSaysThatItCanBe) {
	Bytes later = with({200, 3, 1, 2, 3, 201, 0});
	later[4] = std::byte{7};
	EXPECT_EQ(decode(later), template_parameters());
	later[5] = std::byte{2};
	EXPECT_EQ(field_at_fault(later), "version");
}

TEST(Parameters, AVersionThatCannotBeIsRefused) {
	for (const auto& [version, reader] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 2}}) {
		Bytes message = literal;
		message[4] = static_cast<std::byte>(version);
		message[5] = static_cast<std::byte>(reader);
		EXPECT_EQ(field_at_fault(message), "version");
	}
}

TEST(Parameters, EveryFieldIsRequired) {
	const char* names[] = {"role", "transport", "qp_number", "first_psn", "gid", "mtu", "receive_depth",
		"credits_granted", "buffer_unit", "eager_size_max", "reads_as_target", "reads_as_initiator",
		"shared_queue_pairs", "logical_channels", "nonce"};
	for (int tag = 1; tag <= 15; ++tag) EXPECT_EQ(field_at_fault(without(tag)), names[tag - 1]);
}

TEST(Parameters, AFieldThatComesTwiceIsRefused) {
	EXPECT_EQ(field_at_fault(with({1, 1, 1})), "role");
	EXPECT_EQ(field_at_fault(with({6, 2, 0x10, 0x00})), "mtu");
}

TEST(Parameters, AFieldOfAnotherSizeIsRefused) {
	EXPECT_EQ(field_at_fault(with({3, 3, 1, 2, 3})), "qp_number");
	EXPECT_EQ(field_at_fault(with({5, 4, 1, 2, 3, 4})), "gid");
	EXPECT_EQ(field_at_fault(with({1, 0})), "role");
}

TEST(Parameters, AFieldThatEndsPastTheMessageIsRefused) {
	EXPECT_EQ(field_at_fault(with({200, 5, 1, 2, 3, 4})), "length");
	EXPECT_EQ(field_at_fault(with({200})), "length");
}

struct Edge {
	const char* field;
	std::uint32_t Parameters::* member;
	std::uint32_t value;
	bool good;
};

class Limits : public testing::TestWithParam<Edge> {};

TEST_P(Limits, HoldAtTheirEdge) {
	Parameters parameters = template_parameters();
	parameters.*GetParam().member = GetParam().value;
	const auto good = validate(parameters);
	EXPECT_EQ(good.has_value(), GetParam().good) << GetParam().field << " " << GetParam().value;
	if (good) EXPECT_EQ(decode(encode(parameters)), parameters);
	else EXPECT_EQ(good.error().field, GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(OfEachNumber, Limits,
	testing::Values(Edge{"qp_number", &Parameters::qp_number, 1, false},
		Edge{"qp_number", &Parameters::qp_number, 2, true}, Edge{"qp_number", &Parameters::qp_number, 0xfffffe, true},
		Edge{"qp_number", &Parameters::qp_number, 0xffffff, false}, Edge{"first_psn", &Parameters::first_psn, 0, true},
		Edge{"first_psn", &Parameters::first_psn, 0xffffff, true},
		Edge{"first_psn", &Parameters::first_psn, 0x1000000, false}, Edge{"mtu", &Parameters::mtu, 128, false},
		Edge{"mtu", &Parameters::mtu, 256, true}, Edge{"mtu", &Parameters::mtu, 1500, false},
		Edge{"mtu", &Parameters::mtu, 4096, true}, Edge{"mtu", &Parameters::mtu, 8192, false},
		Edge{"receive_depth", &Parameters::receive_depth, 0, false},
		Edge{"receive_depth", &Parameters::receive_depth, 1, true},
		Edge{"receive_depth", &Parameters::receive_depth, 0xffff, true},
		Edge{"receive_depth", &Parameters::receive_depth, 0x10000, false},
		Edge{"credits_granted", &Parameters::credits_granted, 0, false},
		Edge{"credits_granted", &Parameters::credits_granted, 1, true},
		Edge{"credits_granted", &Parameters::credits_granted, 1 << 24, true},
		Edge{"credits_granted", &Parameters::credits_granted, (1 << 24) + 1, false},
		Edge{"buffer_unit", &Parameters::buffer_unit, 63, false},
		Edge{"buffer_unit", &Parameters::buffer_unit, 64, true},
		Edge{"buffer_unit", &Parameters::buffer_unit, 1 << 20, true},
		Edge{"buffer_unit", &Parameters::buffer_unit, (1 << 20) + 1, false},
		Edge{"eager_size_max", &Parameters::eager_size_max, 0, true},
		Edge{"eager_size_max", &Parameters::eager_size_max, (1 << 29) - 1, true},
		Edge{"eager_size_max", &Parameters::eager_size_max, 1 << 29, false},
		Edge{"reads_as_target", &Parameters::reads_as_target, 255, true},
		Edge{"reads_as_target", &Parameters::reads_as_target, 256, false},
		Edge{"reads_as_initiator", &Parameters::reads_as_initiator, 255, true},
		Edge{"reads_as_initiator", &Parameters::reads_as_initiator, 256, false},
		Edge{"shared_queue_pairs", &Parameters::shared_queue_pairs, 65535, true},
		Edge{"shared_queue_pairs", &Parameters::shared_queue_pairs, 65536, false},
		Edge{"logical_channels", &Parameters::logical_channels, 1 << 24, true},
		Edge{"logical_channels", &Parameters::logical_channels, (1 << 24) + 1, false}));

TEST(Parameters, AnEmptyGidAMulticastGidAndAnEmptyNonceAreRefused) {
	Parameters parameters = template_parameters();
	parameters.gid = {};
	EXPECT_EQ(validate(parameters).error().field, "gid");
	parameters.gid[0] = std::byte{0xff};
	EXPECT_EQ(validate(parameters).error().field, "gid");
	parameters = template_parameters();
	parameters.nonce = {};
	EXPECT_EQ(validate(parameters).error().field, "nonce");
}

TEST(Parameters, AnUnknownRoleOrTransportIsRefused) {
	Bytes message = literal;
	message[10] = std::byte{3};
	EXPECT_EQ(field_at_fault(message), "role");
	message = literal;
	message[13] = std::byte{3};
	EXPECT_EQ(field_at_fault(message), "transport");
}

TEST(Parameters, OverTcpOnlyRoleTransportAndNonceAreSent) {
	const Parameters tcp{.role = Role::client, .transport = Transport::tcp, .nonce = template_parameters().nonce};
	const auto message = encode(tcp);
	EXPECT_EQ(message.size(), parameters_header_size + 3 + 3 + 18);
	EXPECT_EQ(decode(message), tcp);
}

TEST(Parameters, LogicalChannelsAreAskedForOverTcpToo) {
	const Parameters asked{.role = Role::client,
		.transport = Transport::tcp,
		.shared_queue_pairs = 4,
		.logical_channels = 1000,
		.nonce = random_nonce()};
	EXPECT_EQ(decode(encode(asked)), asked);
	const Parameters granted{.role = Role::server,
		.transport = Transport::tcp,
		.shared_queue_pairs = 2,
		.logical_channels = 100,
		.nonce = random_nonce()};
	const auto both = negotiate(asked, granted);
	ASSERT_TRUE(both.has_value());
	EXPECT_EQ(both->shared_queue_pairs, 2u);
	EXPECT_EQ(both->logical_channels, 100u);
}

TEST(Terms, FitInAConnectionRequestAndAreReadBehindItsPadding) {
	std::vector<std::byte> terms = encode_terms(template_parameters());
	EXPECT_LE(terms.size(), terms_size_max);
	terms.resize(terms_size_max);
	const auto read = decode_terms(terms, Role::client);
	ASSERT_TRUE(read.has_value()) << read.error().text;
	const Parameters expected = template_parameters();
	EXPECT_EQ(read->mtu, expected.mtu);
	EXPECT_EQ(read->receive_depth, expected.receive_depth);
	EXPECT_EQ(read->credits_granted, expected.credits_granted);
	EXPECT_EQ(read->buffer_unit, expected.buffer_unit);
	EXPECT_EQ(read->eager_size_max, expected.eager_size_max);
	EXPECT_EQ(read->reads_as_target, expected.reads_as_target);
	EXPECT_EQ(read->reads_as_initiator, expected.reads_as_initiator);
}

TEST(Terms, AnErrorNamesItsField) {
	const std::vector<std::byte> good = encode_terms(template_parameters());
	EXPECT_EQ(decode_terms(good, Role::server).error().field, "role");
	EXPECT_EQ(decode_terms(std::vector<std::byte>(terms_size_max), Role::client).error().field, "magic");
	EXPECT_EQ(decode_terms(std::span(good).first(7), Role::client).error().field, "length");
	for (std::size_t size = parameters_header_size; size < good.size(); ++size)
		EXPECT_EQ(decode_terms(std::span(good).first(size), Role::client).error().field, "length");
	Parameters wrong = template_parameters();
	wrong.buffer_unit = 1;
	EXPECT_EQ(decode_terms(encode_terms(wrong), Role::client).error().field, "buffer_unit");
	wrong = template_parameters();
	wrong.mtu = 1000;
	EXPECT_EQ(decode_terms(encode_terms(wrong), Role::client).error().field, "mtu");
	const std::vector<std::byte> short_of_a_field =
		encode({.role = Role::client, .transport = Transport::tcp, .nonce = random_nonce()});
	EXPECT_EQ(decode_terms(short_of_a_field, Role::client).error().field, "mtu");
}

TEST(Negotiation, AClientOverTcpDoesNotMeetAServerOverRdma) {
	Parameters server = template_parameters();
	server.role = Role::server;
	const auto agreed = negotiate({.role = Role::client, .transport = Transport::tcp, .nonce = server.nonce}, server);
	ASSERT_FALSE(agreed.has_value());
	EXPECT_EQ(agreed.error().field, "transport");
}

TEST(Negotiation, TakesTheSmallerOfEachAndBothEndsComeToTheSame) {
	const Parameters client = template_parameters();
	Parameters server = template_parameters();
	server.role = Role::server;
	server.mtu = 1024;
	server.eager_size_max = 32768;
	server.credits_granted = 7;
	server.buffer_unit = 2048;
	server.reads_as_target = 4;
	server.reads_as_initiator = 32;
	server.shared_queue_pairs = 2;
	server.logical_channels = 5000;
	EXPECT_EQ(negotiate(client, server),
		(Negotiated{.mtu = 1024,
			.reads_out = 4,
			.reads_in = 16,
			.eager_size_max = 16384,
			.send_credits = 7,
			.send_unit = 2048,
			.shared_queue_pairs = 2,
			.logical_channels = 1000}));
	EXPECT_EQ(negotiate(server, client),
		(Negotiated{.mtu = 1024,
			.reads_out = 16,
			.reads_in = 4,
			.eager_size_max = 16384,
			.send_credits = 64,
			.send_unit = 1024,
			.shared_queue_pairs = 2,
			.logical_channels = 1000}));
}

TEST(Negotiation, TwoClientsDoNotAgree) {
	EXPECT_EQ(negotiate(template_parameters(), template_parameters()).error().field, "role");
}

}  // namespace
}  // namespace verbena::channel
