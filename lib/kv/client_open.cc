// SPDX-License-Identifier: Apache-2.0
// Client::open(): the greetings, and the right to read published values.
#include "lib/channel/connect.h"
#include "lib/kv/client.h"

namespace verbena::kv {

using async::Task;

Task<std::expected<std::unique_ptr<Client>, std::string>> Client::open(
	std::unique_ptr<channel::Channel> channel, ClientOptions options, Nanoseconds deadline) {
	std::optional<channel::CloseAt> patience;
	if (deadline != never) patience.emplace(*channel, deadline);
	const Hello ours{.eager_max = options.eager_max,
		.message_max = options.message_max,
		.client = options.id,
		.features = feature_cluster};
	const Bytes bytes = bytes_of(ours);
	const auto sent = co_await channel->send(bytes);
	if (!sent) co_return std::unexpected("the connection is lost: " + channel->reason());
	auto message = co_await channel->receive();
	if (!message)
		co_return std::unexpected(monotonic_now() < deadline
				? "the server ended the connection; is it a kv_server of this version? " + channel->reason()
				: "the server does not answer");
	const auto theirs = read_hello(message->bytes(), Hello::from_server);
	if (!theirs)
		co_return std::unexpected(
			"the server is no kv_server of this version: " + std::string(name_of(theirs.error())));
	if (options.of_cluster && (theirs->features & feature_cluster) == 0)
		co_return std::unexpected(
			"the server does not follow the rules of a cluster; start it with --join, in this version");
	if (theirs->requests_max == 0) co_return std::unexpected("the server breaks the protocol: it allows no requests");
	if (options.protocol == Protocol::rendezvous && !channel->direct())
		co_return std::unexpected(std::string(sentence_of(Error::unsupported)));
	Published published;
	if (options.one_sided) {
		auto borrowed = co_await request_index(*channel);
		if (!borrowed) co_return std::unexpected(borrowed.error());
		published = *borrowed;
	}
	co_return std::unique_ptr<Client>(new Client(std::move(channel), options, *theirs, published));
}

// Asks for the right to read the index. It is the only request under way, so the next message
// answers it.
Task<std::expected<Client::Published, std::string>> Client::request_index(channel::Channel& channel) {
	const RequestHeader header{.operation = Operation::index};
	const Bytes request = std::as_bytes(std::span(&header, 1));
	const auto sent = co_await channel.send(request);
	if (!sent) co_return std::unexpected("the connection is lost: " + channel.reason());
	auto message = co_await channel.receive();
	if (!message) co_return std::unexpected("the server ended the connection: " + channel.reason());
	const auto answer = Answers(message->bytes()).next();
	if (!answer) co_return std::unexpected("the server breaks the protocol: " + std::string(name_of(answer.error())));
	if (answer->header.status != Status::index)
		co_return std::unexpected(channel.direct()
				? "the server publishes nothing for one-sided GETs; start it with --one-sided 64M"
				: "one-sided GETs need an RDMA connection, and this one is over TCP");
	if (!is_possible(answer->shape, answer->remote.length))
		co_return std::unexpected("the server breaks the protocol: an index of an impossible shape");
	co_return Published{answer->remote, answer->shape};
}

}  // namespace verbena::kv
