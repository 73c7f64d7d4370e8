// SPDX-License-Identifier: Apache-2.0
// A server that cannot start, and one whose clients send garbage or too much.
#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include "lib/channel/connect.h"
#include "lib/rpc/protection.h"
#include "lib/rpc/serialize.h"
#include "lib/rpc/testing/connected.h"
#include "lib/verbs/port_counters.h"

namespace verbena::rpc {
namespace {

using async::Task;

server_config quiet(std::string address, std::uint16_t port) {
	return {.address = std::move(address), .port = port, .thread_num = 1, .log = [](std::string_view) {}};
}

TEST(ServerStart, AnAddressThatCannotBeResolvedIsBad) {
	Server server(quiet("no such host.", 0));
	EXPECT_EQ(server.start(), errc::bad_address);
	EXPECT_FALSE(server.error_text().empty());
}

TEST(ServerStart, ListeningAtAnotherHostsAddressFails) {
	Server server(quiet("192.0.2.1", 0));
	EXPECT_EQ(server.start(), errc::listen_error);
	EXPECT_NE(server.error_text().find("192.0.2.1"), std::string::npos) << server.error_text();
}

TEST(ServerStart, APortOfAnotherServerIsInUse) {
	Server first(quiet("127.0.0.1", 0));
	const auto started = first.async_start();
	ASSERT_FALSE(started.hasResult());
	Server second(quiet("127.0.0.1", first.port()));
	EXPECT_EQ(second.start(), errc::address_in_used);
	EXPECT_EQ(first.start(), errc::server_has_ran);
	EXPECT_EQ(first.async_start().get(), errc::server_has_ran);
}

TEST(ServerStart, OpeningAMissingDeviceFails) {
	const rpc_test::Identity identity;
	Server server(quiet("127.0.0.1", 0));
	server.init_ibv({.device = "no_such_device"});
	EXPECT_EQ(server.start(), errc::open_error);
	EXPECT_NE(server.error_text().find("no_such_device"), std::string::npos) << server.error_text();
}

TEST(ServerStart, AfterAFailureItStartsOnceTheReasonIsGone) {
	std::optional<Server> first(std::in_place, quiet("127.0.0.1", 0));
	{
		const auto started = first->async_start();
		ASSERT_FALSE(started.hasResult());
	}
	Server second(quiet("127.0.0.1", first->port()));
	EXPECT_EQ(second.start(), errc::address_in_used);
	first.reset();
	const auto started = second.async_start();
	EXPECT_FALSE(started.hasResult()) << second.error_text();
}

// A client that sends arbitrary bytes, over each transport.
class Garbage : public rpc_test::Connected {
protected:
	// Sends the bytes and then a ping. Returns the kinds and codes of the server's frames, until
	// the connection ends or a pong arrives.
	std::vector<std::pair<FrameKind, errc>> say(const Buffer& garbage) {
		async::Loop loop;
		ibv_config ibv = rpc_test::test_ibv();
		if (GetParam() == "rdma-own") ibv.recv_mode = recv_mode_t::per_connection;
		std::unique_ptr<channel::RcTransport> transport;
		if (GetParam().starts_with("rdma"))
			transport = channel::RcTransport::open(
				loop, {.device = ibv.device, .both_ends_on_this_host = true}, ibv.rc().value())
							.value();
		channel::ConnectOptions options{.protection = channel::ClearText{}, .host = server_.address()};
		if (GetParam() != "tcp") options.protection = make_protection(Side::client, {}).value();
		std::vector<std::pair<FrameKind, errc>> heard;
		loop.complete(converse(loop, transport.get(), std::move(options), garbage, heard));
		return heard;
	}

private:
	static Task<void> converse(async::Loop& loop, channel::RcTransport* transport, channel::ConnectOptions options,
		const Buffer& garbage, std::vector<std::pair<FrameKind, errc>>& heard) {
		std::unique_ptr<channel::Channel> channel;
		if (transport != nullptr) {
			auto connected = co_await channel::connect(*transport, std::move(options));
			if (connected) channel = std::move(*connected);
			else ADD_FAILURE() << connected.error();
		} else {
			auto connected = co_await channel::connect_tcp(loop, std::move(options));
			if (connected) channel = std::move(*connected);
			else ADD_FAILURE() << connected.error();
		}
		if (channel == nullptr) co_return;
		Buffer ping(FrameHeader::bytes);
		FrameHeader{.kind = FrameKind::ping, .sequence = 5}.write(std::span<std::byte, FrameHeader::bytes>(ping));
		co_await channel->send(garbage);
		co_await channel->send(ping);
		bool ended = false;
		while (!ended) {
			const auto message = co_await channel->receive();
			if (!message) break;
			FrameReader reader(message->bytes(), {});
			while (!reader.done()) {
				const auto frame = reader.next();
				EXPECT_TRUE(frame.has_value()) << "the server must send valid frames";
				if (!frame) co_return;
				heard.emplace_back(frame->header.kind, static_cast<errc>(frame->header.code));
				ended = ended || frame->header.kind == FrameKind::pong;
			}
		}
		channel->close();
		co_await channel->until_closed();
	}
};
OVER_EVERY_TRANSPORT(Garbage);

Buffer frame(FrameHeader header, std::size_t body_bytes = 0, int fill = 0xc0) {
	Buffer bytes(FrameHeader::bytes + body_bytes, static_cast<std::byte>(fill));
	if (header.body_length == 0) header.body_length = static_cast<std::uint32_t>(body_bytes);
	if (body_bytes > 0) header.serialization = Serialization::msgpack;
	header.write(std::span<std::byte>(bytes).first<FrameHeader::bytes>());
	return bytes;
}
Buffer operator+(Buffer first, const Buffer& second) {
	first.insert(first.end(), second.begin(), second.end());
	return first;
}

TEST_P(Garbage, CostsItsSenderTheConnectionAtMost) {
	const std::uint32_t add = Function<rpc_test::add>::id;
	const std::vector<Buffer> all{
		Buffer(20, std::byte{0x15}),
		Buffer(100'000, std::byte{0xff}),
		frame({.kind = static_cast<FrameKind>(11)}),
		frame({.kind = FrameKind::response, .sequence = 1}),
		frame({.kind = FrameKind::pong, .sequence = 1}),
		frame({.kind = FrameKind::request, .sequence = 1, .function = add, .body_length = 0xffffffff}, 10),
		frame({.kind = FrameKind::request, .sequence = 1, .function = add, .attachment_length = 0xffffffff}),
		frame({.kind = FrameKind::request, .sequence = 1, .function = add}, 5, 0xdd),
		frame({.kind = FrameKind::request, .sequence = 1, .function = add}, 100'000, 0x91),
		frame({.kind = FrameKind::item, .sequence = 1}, 1),
		frame({.kind = FrameKind::window, .sequence = 1, .granted = 0xffffffff}),
		frame({.kind = FrameKind::done, .sequence = 1}) + frame({.kind = FrameKind::cancel, .sequence = 7}),
		frame({.kind = FrameKind::goodbye}) + frame({.kind = FrameKind::goodbye}),
	};
	for (std::size_t i = 0; i < all.size(); ++i) {
		say(all[i]);
		EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 2))), 3) << "after garbage number " << i;
	}
}

TEST_P(Garbage, ARequestWithANumberThatIsInUseIsRefusedAndEndsTheConnection) {
	Buffer body;
	pack_arguments(body, 20'000);
	const FrameHeader header{.kind = FrameKind::request,
		.serialization = Serialization::msgpack,
		.sequence = 1,
		.function = Function<rpc_test::wait_ms>::id,
		.body_length = static_cast<std::uint32_t>(body.size())};
	Buffer request(FrameHeader::bytes);
	header.write(std::span<std::byte, FrameHeader::bytes>(request));
	request.insert(request.end(), body.begin(), body.end());
	const std::vector<std::pair<FrameKind, errc>> refused{{FrameKind::response, errc::serial_number_conflict}};
	EXPECT_EQ(say(request + request), refused);
}

// Requests whose functions wait, and meanwhile keep the buffers in which the requests arrived.
class SlowServer : public ::testing::TestWithParam<recv_mode_t> {};
INSTANTIATE_TEST_SUITE_P(ReceiveModes, SlowServer, ::testing::Values(recv_mode_t::srq, recv_mode_t::per_connection));

std::uint64_t rnr_naks() {
	const auto device = lib::open_best({.device = rpc_test::test_ibv().device, .both_ends_on_this_host = true}).value();
	const auto counters = lib::hardware_counters(device.context->device->ibdev_path, device.choice.port);
	return lib::retries_of(counters).rnr_naks_sent.value();
}

Lazy<std::size_t> send_many(Client& client, std::size_t count) {
	const std::string attachment(3000, 'a');
	std::vector<Lazy<async_rpc_result<std::uint64_t>>> under_way;
	for (std::size_t i = 0; i < count; ++i)
		under_way.push_back(co_await client.send_request_with_attachment<rpc_test::attachment_size_later>(attachment));
	const auto results = co_await collectAll(std::move(under_way));
	co_return static_cast<std::size_t>(
		std::ranges::count_if(results, [&](const auto& each) { return each && each->result() == 3000; }));
}

TEST_P(SlowServer, HoldsItsClientBackBeforeAnRnrNakWould) {
	const rpc_test::Identity identity;
	ibv_config ibv = rpc_test::test_ibv();
	ibv.recv_mode = GetParam();
	Server server(quiet("127.0.0.1", 0));
	server.register_handler<rpc_test::attachment_size_later>();
	server.init_ibv(ibv);
	const auto started = server.async_start();
	ASSERT_FALSE(started.hasResult()) << server.error_text();
	Client client;
	client.init_ibv(ibv);
	ASSERT_FALSE(syncAwait(client.connect("127.0.0.1:" + std::to_string(server.port())))) << client.error_text();
	const std::uint64_t before = rnr_naks();
	EXPECT_EQ(syncAwait(send_many(client, 2'000)), 2'000u);
	EXPECT_EQ(rnr_naks(), before);
	EXPECT_GT(server.rdma().pinned_bytes, 0u);
}

TEST(RdmaUse, NothingIsRegisteredForACallAndASmallOneGoesInline) {
	const rpc_test::Identity identity;
	rpc_test::ServerProcess server("1", "rdma");
	Client client;
	client.init_ibv(rpc_test::test_ibv());
	ASSERT_FALSE(syncAwait(client.connect(server.address()))) << client.error_text();
	const std::string large(1'000'000, 'l'), small(100, 's');
	const auto call = [&](const std::string& attachment) {
		client.set_req_attachment(attachment);
		EXPECT_TRUE(syncAwait(client.call<rpc_test::attachment_back>()));
	};
	for (int i = 0; i < 20; ++i) call(large);
	const RdmaUse warm = syncAwait(client.rdma());
	for (int i = 0; i < 200; ++i) call(large);
	const RdmaUse after_large = syncAwait(client.rdma());
	EXPECT_EQ(after_large.registrations, warm.registrations);
	EXPECT_GT(after_large.parts_most, 1u) << "one is filled while another is fetched";
	for (int i = 0; i < 200; ++i) call(small);
	const RdmaUse after_small = syncAwait(client.rdma());
	EXPECT_EQ(after_small.registrations, warm.registrations);
	// A call that meets another message in the queue shares a frame with it, which is not inline.
	EXPECT_GE(after_small.frames_inline - after_large.frames_inline, 190u);
	EXPECT_EQ(after_small.refused, 0u);
}

}  // namespace
}  // namespace verbena::rpc
