// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/proof.h"

#include <gtest/gtest.h>

#include "lib/channel/setup/fixture.h"

namespace verbena::channel {
namespace {

using namespace testing_tools;

struct ProofEnds {
	Parameters client_parameters = parameters_of(Role::client), server_parameters = parameters_of(Role::server);
	std::vector<std::byte> from_client = encode(client_parameters), from_server = encode(server_parameters);
	ExporterKey key{std::byte{1}, std::byte{2}, std::byte{3}};
	ProofKeys client = make_proof_keys(Role::client, key, from_client, from_server);
	ProofKeys server = make_proof_keys(Role::server, key, from_client, from_server);
};

ProofError verdict(const ProofKeys& keys, std::span<const std::byte> message) {
	const auto good = check_proof(keys, message);
	EXPECT_FALSE(good);
	return good ? ProofError{255} : good.error();
}

TEST(Proof, OfEachEndIsTakenByTheOther) {
	const ProofEnds ends;
	EXPECT_TRUE(check_proof(ends.server, make_proof(ends.client)));
	EXPECT_TRUE(check_proof(ends.client, make_proof(ends.server)));
}

TEST(Proof, HasThisForm) {
	const ProofEnds ends;
	const Proof proof = make_proof(ends.client);
	const std::array<int, 8> head{'V', 'B', 'P', 'F', 1, 1, 0, 0};
	for (std::size_t i = 0; i < head.size(); ++i) EXPECT_EQ(std::to_integer<int>(proof[i]), head[i]);
	EXPECT_TRUE(std::ranges::equal(std::span(proof).subspan(8, 8), ends.server.setup));
}

TEST(Proof, TruncatedAtAnyByteIsTruncated) {
	const ProofEnds ends;
	const Proof proof = make_proof(ends.client);
	for (std::size_t size = 0; size < proof.size(); ++size)
		EXPECT_EQ(verdict(ends.server, std::span(proof).first(size)), ProofError::truncated);
}

TEST(Proof, WithAByteMoreIsOversized) {
	const ProofEnds ends;
	const Proof proof = make_proof(ends.client);
	std::vector<std::byte> longer(proof.begin(), proof.end());
	longer.push_back(std::byte{0});
	EXPECT_EQ(verdict(ends.server, longer), ProofError::oversized);
}

TEST(Proof, SentBackIsReflected) {
	const ProofEnds ends;
	EXPECT_EQ(verdict(ends.client, make_proof(ends.client)), ProofError::reflected);
}

TEST(Proof, OfAnotherSetUpIsReplayed) {
	const ProofEnds before, now;
	EXPECT_EQ(verdict(now.server, make_proof(before.client)), ProofError::replayed);
}

TEST(Proof, UnderAnotherSessionsKeyIsForged) {
	const ProofEnds ends;
	const ProofKeys thief =
		make_proof_keys(Role::client, ExporterKey{std::byte{9}}, ends.from_client, ends.from_server);
	EXPECT_EQ(verdict(ends.server, make_proof(thief)), ProofError::forged);
}

TEST(Proof, OverAnyOtherParameterIsForged) {
	const ProofEnds ends;
	for (std::uint32_t Parameters::* member :
		{&Parameters::qp_number, &Parameters::first_psn, &Parameters::credits_granted, &Parameters::eager_size_max}) {
		Parameters changed = ends.client_parameters;
		changed.*member ^= 1;
		const ProofKeys other = make_proof_keys(Role::client, ends.key, encode(changed), ends.from_server);
		EXPECT_EQ(verdict(ends.server, make_proof(other)), ProofError::forged);
	}
}

TEST(Proof, OverTheSameFieldsInAnotherOrderIsForged) {
	// A party that decodes a message and encodes it anew sends other bytes than the other end
	// signed.
	const ProofEnds ends;
	std::vector<std::byte> reordered = ends.from_client;
	// Role after transport.
	std::rotate(reordered.begin() + 8, reordered.begin() + 11, reordered.begin() + 14);
	ASSERT_EQ(decode(reordered), ends.client_parameters);
	const ProofKeys other = make_proof_keys(Role::client, ends.key, reordered, ends.from_server);
	EXPECT_EQ(verdict(ends.server, make_proof(other)), ProofError::forged);
}

TEST(Proof, WithAnyBitChangedIsRefused) {
	const ProofEnds ends;
	const Proof proof = make_proof(ends.client);
	for (std::size_t bit = 0; bit < 8 * proof_size; ++bit) {
		Proof changed = proof;
		changed[bit / 8] ^= std::byte{1} << bit % 8;
		const ProofError error = verdict(ends.server, changed);
		const std::size_t at = bit / 8;
		if (at < 8) EXPECT_EQ(error, ProofError::garbage) << bit;
		else if (at < 16) EXPECT_EQ(error, ProofError::replayed) << bit;
		else EXPECT_EQ(error, ProofError::forged) << bit;
	}
}

TEST(Proof, EveryErrorHasASentenceOfItsOwn) {
	std::vector<std::string_view> sentences;
	for (int error = 0; error <= static_cast<int>(ProofError::forged); ++error)
		sentences.push_back(describe(static_cast<ProofError>(error)));
	std::ranges::sort(sentences);
	EXPECT_EQ(std::ranges::adjacent_find(sentences), sentences.end());
}

}  // namespace
}  // namespace verbena::channel
