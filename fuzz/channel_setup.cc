// SPDX-License-Identifier: Apache-2.0
// Fuzzes the set-up of a channel in plain text: messages to a server, messages to a client that
// waits for its answer, and the proof that is the first message on the queue pair.
//
// For all bytes, in all pieces: nothing crashes, at most one message is buffered, accepted
// parameters are within their limits and are encoded as they were decoded, both ends agree only on
// parameters that both have seen, and a proof is accepted only from the holder of the keys.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "fuzz/input.h"
#include "lib/channel/setup/handshake.h"

namespace verbena::fuzz {
namespace {

using namespace channel;
using Bytes = std::vector<std::byte>;

Parameters honest(Role role) {
	Parameters parameters{.role = role, .qp_number = 77, .first_psn = 0xabcdef};
	parameters.gid[15] = parameters.nonce[0] = role == Role::client ? std::byte{1} : std::byte{2};
	return parameters;
}

// An honest message with some bytes changed, removed or added; or arbitrary bytes.
Bytes said(Input& input, Role role) {
	if (input.below(4) == 0) {
		const auto rest = input.bytes(input.byte() * 3u);
		return {rest.begin(), rest.end()};
	}
	Parameters parameters = honest(role);
	if (role == Role::server && input.below(4) == 0) parameters.refusal = Refusal{RefusalCode::full, "full"};
	Bytes message = encode(parameters);
	for (std::uint32_t changes = input.below(4); changes; --changes)
		message[input.byte() % message.size()] = std::byte{input.byte()};
	// A field of any tag and size at the end; the message's length includes it or not.
	if (input.flag()) {
		const auto value = input.bytes(input.byte());
		message.push_back(std::byte{input.byte()});
		message.push_back(static_cast<std::byte>(value.size()));
		message.insert(message.end(), value.begin(), value.end());
		if (input.flag())
			message[6] = static_cast<std::byte>(message.size() >> 8),
			message[7] = static_cast<std::byte>(message.size());
	}
	if (input.below(8) == 0) message.resize(input.byte());
	return message;
}

// Gives the bytes to the handshake in pieces of 1 to 256 bytes.
void feed(Handshake& end, const Bytes& bytes, Input& input) {
	for (std::span<const std::byte> rest = bytes; !rest.empty();) {
		const auto part = rest.first(std::min<std::size_t>(rest.size(), 1u + input.byte()));
		end.feed(part);
		rest = rest.subspan(part.size());
	}
}

Bytes take_all(Handshake& end) {
	Bytes bytes(end.pending());
	check(end.take(bytes) == bytes.size() && end.pending() == 0, "all pending bytes can be taken");
	check(bytes.size() <= parameters_size_max, "an end sends at most one message");
	return bytes;
}

void check_decoded(const Bytes& message) {
	const auto decoded = decode(message);
	if (!decoded) {
		check(!decoded.error().field.empty() && decoded.error().text.starts_with(decoded.error().field),
			"an error names its field");
		return;
	}
	check(validate(*decoded).has_value(), "decoded parameters are within their limits");
	if (decoded->refusal) return;  // a refusal encodes no other field but the role
	check(decode(encode(*decoded)) == *decoded, "parameters are encoded as they were decoded");
}

// Decodes the same bytes as the terms that rdma_cm carries in its private data.
void check_terms(const Bytes& message, Role role) {
	const auto terms = decode_terms(message, role);
	if (!terms) return check(!terms.error().field.empty(), "an error names its field");
	check(terms->role == role && encode_terms(*decode_terms(encode_terms(*terms), role)) == encode_terms(*terms),
		"terms are encoded as they were decoded");
}

void check_agreed(const Handshake& end, Input& input) {
	const Agreed& agreed = end.agreed();
	check(negotiate(agreed.ours, agreed.theirs) == agreed.negotiated && validate(agreed.theirs).has_value(),
		"the agreed parameters are valid and follow from both offers");
	check(check_proof(agreed.proof, make_proof(agreed.proof)).error() == ProofError::reflected,
		"an end does not accept its own proof");
	const auto first = input.bytes(2 * proof_size);
	check(!check_proof(agreed.proof, first), "arbitrary bytes are no proof");
}

void serve(Input& input) {
	Handshake server = Handshake::server({.protection = ClearText{}, .patience = 1000});
	const Bytes message = said(input, Role::client);
	check_decoded(message);
	check_terms(message, Role::client);
	feed(server, message, input);
	if (input.flag()) server.handle_timeout(input.flag() ? 1000 : 999);
	if (server.state() == Handshake::State::asked) {
		check(std::ranges::equal(encode(*decode(message)), encode(server.theirs())),
			"the server has the client's parameters");
		if (input.below(4) == 0) server.refuse(RefusalCode::full, "full");
		else server.answer(honest(Role::server));
	}
	if (input.flag()) server.feed_end();
	check_decoded(take_all(server));
	if (server.state() == Handshake::State::agreed) check_agreed(server, input);
	else if (server.state() == Handshake::State::failed) check(!server.error().text.empty(), "a failure has a message");
	else check(server.poll_timeout() == 1000, "an end that waits has a deadline");
}

void ask(Input& input) {
	Handshake client = Handshake::client({.protection = ClearText{}, .patience = 1000}, honest(Role::client));
	check(decode(take_all(client)) == honest(Role::client), "a client sends its parameters at once");
	const Bytes message = said(input, Role::server);
	check_decoded(message);
	check_terms(message, Role::server);
	feed(client, message, input);
	if (input.flag()) client.feed_end();
	if (input.flag()) client.handle_timeout(1000);
	check(client.pending() == 0, "a client sends nothing more");
	if (client.state() == Handshake::State::agreed) {
		// Bytes after the answer are ignored.
		const std::span<const std::byte> answer =
			std::span(message).first(*message_size(std::span(message).first<parameters_header_size>()));
		check(decode(answer) == client.agreed().theirs, "the client has the server's parameters");
		check_agreed(client, input);
	} else if (client.state() == Handshake::State::failed) {
		check(!client.error().text.empty(), "a failure has a message");
	}
}

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	verbena::fuzz::Input input(data, size);
	if (input.flag()) verbena::fuzz::serve(input);
	else verbena::fuzz::ask(input);
	return 0;
}
