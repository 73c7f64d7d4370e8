// SPDX-License-Identifier: Apache-2.0
// Calls of every kind, over every transport, to a server in another process.
#include <latch>

#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include "lib/async/job.h"
#include "lib/rpc/testing/connected.h"

namespace verbena::rpc {
namespace {

using namespace std::chrono_literals;
using rpc_test::Identity;
using rpc_test::Person;
using rpc_test::prepare;
using rpc_test::ServerProcess;

class Calls : public rpc_test::Connected {};
OVER_EVERY_TRANSPORT(Calls);

TEST_P(Calls, APlainFunctionsResultComesBack) {
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::echo>("hello rdma"))), "hello rdma");
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(40, 2))), 42);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::own>(std::string("moved")))), "moved!");
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::echo>(std::string(500'000, 'x')))), std::string(500'000, 'x'));
}

TEST_P(Calls, AFunctionWithoutParametersAndResultIsCalled) {
	EXPECT_TRUE(syncAwait(client_.call<rpc_test::nothing>()));
	EXPECT_TRUE(syncAwait(client_.call<rpc_test::nothing>()));
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::count_of_nothing>())), 2);
}

TEST_P(Calls, AProgramsOwnTypesAndSeveralArgumentsTravel) {
	const Person ada{.name = "Ada", .age = 36, .friends = {"Charles", "Mary"}};
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::older>(ada, 4, false))), (Person{"Ada", 40, ada.friends}));
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::older>(ada, 4, true))), (Person{"Ada", 40, {}}));
}

TEST_P(Calls, CoroutinesCallbacksAndMembersAreHandlersToo) {
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::wait_ms>(1))), 1);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::view_of_own_frame>("mine"))), "mine");
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::later>("text"))), "later: text");
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::at_once>(7))), 7);
	EXPECT_EQ(value_of(syncAwait(client_.call<&rpc_test::Counter::increase>(5))), 5);
	EXPECT_EQ(value_of(syncAwait(client_.call<&rpc_test::Counter::increase>(6))), 11);
	EXPECT_EQ(value_of(syncAwait(client_.call<&rpc_test::Counter::increase_later>(1))), 12);
	EXPECT_EQ(value_of(syncAwait(client_.call<&rpc_test::Counter::read>())), 12);
}

TEST_P(Calls, AFunctionIsFoundByTheNameOrKeyOfItsRegistration) {
	EXPECT_EQ(value_of(syncAwait(client_.call_by_name<int>("sum", 3, 4))), 7);
	EXPECT_EQ(value_of(syncAwait(client_.call_by_name<int>("how many"))), 0);
	EXPECT_EQ(value_of(syncAwait(client_.call_by_key<std::string>(4711, "text"))), "text!");
	EXPECT_EQ(value_of(syncAwait(client_.call_by_key<int>(4712, 1))), 1);
	EXPECT_EQ(value_of(syncAwait(client_.call_by_key<int>(4713, 5))), 5);
	EXPECT_EQ(code_of(syncAwait(client_.call_by_key(4714))), errc::function_not_registered);
	const std::string transport = GetParam().starts_with("rdma") ? "rc" : GetParam() == "tls" ? "tcp+tls" : "tcp";
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::who>())), "rpc_test::who over " + transport);
}

TEST_P(Calls, ErrorsComeBackWithTheirCodeAndText) {
	const auto thrown = syncAwait(client_.call<rpc_test::throw_code>(10'404, "no such page"));
	EXPECT_EQ(thrown.error().val(), 10'404);
	EXPECT_EQ(thrown.error().msg, "no such page");
	const auto fire = syncAwait(client_.call<rpc_test::throw_exception>());
	EXPECT_EQ(fire.error().code, errc::rpc_throw_exception);
	EXPECT_EQ(fire.error().msg, "the disk is on fire");
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::throw_number>())), errc::rpc_throw_exception);
	EXPECT_EQ(syncAwait(client_.call<rpc_test::wait_and_throw>(65'535)).error().val(), 65'535);
	EXPECT_EQ(syncAwait(client_.call<rpc_test::refuse>("no")).error().val(), 10'015);
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::forget>())), errc::rpc_throw_exception);
	EXPECT_EQ(code_of(syncAwait(client_.call_by_name("nobody"))), errc::function_not_registered);
	EXPECT_EQ(code_of(syncAwait(client_.call_by_name<int>("sum", "three", 4))), errc::invalid_rpc_arguments);
	EXPECT_EQ(code_of(syncAwait(client_.call_by_name<std::string>("sum", 3, 4))), errc::invalid_rpc_result);
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::echo>(std::string(2 << 20, 'x')))), errc::message_too_large);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 1))), 2) << "the connection stays up";
}

TEST_P(Calls, ManyUnderWayTogetherAreAnsweredOutOfOrder) {
	const auto work = [](Client& client) -> Lazy<void> {
		auto slow = co_await client.send_request<rpc_test::wait_ms>(50);
		std::vector<Lazy<async_rpc_result<std::string_view>>> quick;
		for (int i = 0; i < 256; ++i)
			quick.push_back(co_await client.send_request<rpc_test::echo>("call " + std::to_string(i)));
		const auto results = co_await collectAll(std::move(quick));
		EXPECT_GE(client.get_pipeline_size(), 1u) << "the slow one is still under way";
		for (int i = 0; i < 256; ++i)
			EXPECT_EQ(results[i] ? results[i]->result() : std::string_view(), "call " + std::to_string(i));
		const auto last = co_await std::move(slow);
		EXPECT_EQ(last->result(), 50);
		EXPECT_EQ(client.get_pipeline_size(), 0u);
	};
	syncAwait(work(client_));
}

TEST_P(Calls, SeveralThreadsSendRequestsOnOneClient) {
	const auto work = [](Client& client, int from) -> Lazy<void> {
		for (int i = from; i < from + 200; ++i) {
			auto sent = co_await client.send_request<rpc_test::add>(i, i);
			const auto result = co_await std::move(sent);
			EXPECT_EQ(result->result(), 2 * i);
		}
	};
	std::vector<std::jthread> threads;
	for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { syncAwait(work(client_, i * 1000)); });
}

TEST_P(Calls, ACallThatTakesTooLongTimesOutAndIsCanceledAtTheServer) {
	EXPECT_EQ(code_of(syncAwait(client_.call_for<rpc_test::until_cancelled>(20ms))), errc::timed_out);
	while (value_of(syncAwait(client_.call<rpc_test::count_of_cancelled>())) == 0) {}
	EXPECT_TRUE(value_of(syncAwait(client_.call_for<rpc_test::has_deadline>(10s))));
	EXPECT_FALSE(value_of(syncAwait(client_.call_for<rpc_test::has_deadline>(0s))));
}

TEST_P(Calls, ACallsTimeRunsWhileItsServerTakesNothing) {
	Client client;
	prepare(client, GetParam());
	client.init_config({.unsent_max = 1 << 20});
	ASSERT_FALSE(syncAwait(client.connect(server_.address())));
	ASSERT_TRUE(server_.pause());
	for (int i = 0; i < 40; ++i)
		EXPECT_EQ(code_of(syncAwait(client.call_for<rpc_test::own>(20ms, std::string(300'000, 'x')))), errc::timed_out);
	server_.resume();
	EXPECT_EQ(value_of(syncAwait(client.call<rpc_test::add>(1, 2))), 3);
}

TEST_P(Calls, DestroyingATaskCancelsItsCall) {
	IoThread& thread = client_.get_executor();
	std::optional<async::Job> job;
	const auto body = [](Client& client) -> Lazy<void> { co_await client.call<rpc_test::until_cancelled>(); };
	thread.loop().post([&] { job.emplace(thread.loop(), body(client_)); });
	while (client_.get_pipeline_size() == 0) std::this_thread::yield();
	// One caller at a time may use call(): the I/O thread has done so before this one does.
	std::latch destroyed(1);
	thread.loop().post([&] {
		job.reset();
		destroyed.count_down();
	});
	destroyed.wait();
	while (value_of(syncAwait(client_.call<rpc_test::count_of_cancelled>())) == 0) {}
	EXPECT_EQ(client_.get_pipeline_size(), 0u);
}

TEST_P(Calls, AttachmentsTravelBothWays) {
	for (const std::size_t most : {1u, 1'000u, 5'000u, 300'000u, 8'000'000u}) {
		const std::size_t size = rpc_test::at_most_largest(most);
		std::string attachment(size, 'a');
		attachment.back() = 'z';
		client_.set_req_attachment(attachment);
		ASSERT_TRUE(syncAwait(client_.call<rpc_test::attachment_back>()));
		EXPECT_EQ(client_.get_resp_attachment(), attachment);
		client_.set_req_attachment(attachment);
		EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::attachment_size_later>())), size);
		EXPECT_EQ(client_.release_resp_attachment(), "as text");
	}
	EXPECT_TRUE(syncAwait(client_.call<rpc_test::attachment_back>()));
	EXPECT_EQ(client_.get_resp_attachment(), "") << "an attachment belongs to the last call only";
}

TEST_P(Calls, AnAnswersAttachmentIsHeldAgainstTheServersLimit) {
	ASSERT_TRUE(syncAwait(client_.call<rpc_test::attachment_of>(16u << 20)));
	EXPECT_EQ(client_.get_resp_attachment().size(), 16u << 20);
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::attachment_of>((16u << 20) + 1))), errc::message_too_large);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 1))), 2) << "the connection stays up";
}

TEST_P(Calls, AShortAttachmentBesideALargeAnswerArrivesWhole) {
	for (const std::uint32_t size : {1u, 4'000u, 20'000u, 200'000u}) {
		EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::text_beside_attachment>(size))).size(), size);
		EXPECT_EQ(client_.get_resp_attachment(), "as text");
	}
}

TEST_P(Calls, ARequestThatNoMessageHoldsFailsAlone) {
	const std::string all(64 << 20, 'a');  // as much as a message holds, and there are headers
	client_.set_req_attachment(all);
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::attachment_back>())), errc::message_too_large);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 2))), 3);
}

TEST_P(Calls, AnAnswersAttachmentMayBeRegisteredMemory) {
	for (const std::size_t size : {1u, 4'000u, 20'000u, 3'000'000u}) {
		std::string attachment(size, 'r');
		attachment.back() = 'z';
		client_.set_req_attachment(attachment);
		const bool rdma = GetParam().starts_with("rdma");
		ASSERT_EQ(value_of(syncAwait(client_.call<rpc_test::registered_attachment_back>())), rdma) << "TCP has none";
		EXPECT_EQ(client_.get_resp_attachment(), rdma ? attachment : std::string());
	}
}

TEST_P(Calls, AFunctionMaySetATagOnItsConnection) {
	client_.set_req_attachment("attached");
	const auto first = value_of(syncAwait(client_.call<rpc_test::about_connection>("tagged")));
	const auto second = value_of(syncAwait(client_.call<rpc_test::about_connection>("again")));
	ASSERT_EQ(first.size(), 5u);
	ASSERT_EQ(second.size(), 5u);
	EXPECT_EQ(first[0], "");
	EXPECT_EQ(second[0], "tagged");
	EXPECT_EQ(first[1], second[1]) << "one connection";
	EXPECT_NE(first[2], second[2]) << "two requests";
	EXPECT_NE(first[3], "");
	EXPECT_EQ(first[4], "attached");
	Client other;
	prepare(other, GetParam());
	ASSERT_FALSE(syncAwait(other.connect(server_.address())));
	const auto theirs = value_of(syncAwait(other.call<rpc_test::about_connection>("theirs")));
	ASSERT_EQ(theirs.size(), 5u);
	EXPECT_EQ(theirs[0], "");
	EXPECT_NE(theirs[1], first[1]);
}

TEST_P(Calls, AFunctionMayCloseItsConnectionBehindItsAnswer) {
	EXPECT_TRUE(syncAwait(client_.call<rpc_test::close_connection>()));
	while (!client_.has_closed()) std::this_thread::yield();
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::add>(1, 2))), errc::not_connected);
}

TEST_P(Calls, LargeArgumentsAndALargeAttachmentGoTogether) {
	const std::string text(200'000, 't'), attachment(300'000, 'a');
	client_.set_req_attachment(attachment);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::echo>(text))), text);
}

TEST_P(Calls, AnAttachmentLandsInTheCallersBuffer) {
	std::vector<char> room(100'000);
	client_.set_resp_attachment_buf(room);
	ASSERT_TRUE(syncAwait(client_.call<rpc_test::attachment_of>(70'000u)));
	EXPECT_EQ(client_.get_resp_attachment().data(), room.data());
	EXPECT_EQ(client_.get_resp_attachment(), std::string(70'000, 'v'));
	client_.set_resp_attachment_buf(room);
	ASSERT_TRUE(syncAwait(client_.call<rpc_test::attachment_of>(100'001u)));
	EXPECT_NE(client_.get_resp_attachment().data(), room.data()) << "the buffer is too small, so another is used";
	EXPECT_EQ(client_.get_resp_attachment().size(), 100'001u);
}

TEST_P(Calls, ARequestsAttachmentMayBeUsedAgainOnceItIsSent) {
	const auto work = [](Client& client) -> Lazy<void> {
		std::string memory(400'000, 'a');
		std::vector<Lazy<async_rpc_result<void>>> under_way;
		for (char letter = 'a'; letter < 'i'; ++letter) {
			memory.assign(memory.size(), letter);
			under_way.push_back(co_await client.send_request_with_attachment<rpc_test::attachment_back>(memory));
		}
		const auto results = co_await collectAll(std::move(under_way));
		for (std::size_t i = 0; i < results.size(); ++i)
			EXPECT_EQ(results[i]->get_attachment(), std::string(400'000, static_cast<char>('a' + i)));
	};
	syncAwait(work(client_));
}

TEST_P(Calls, TheAttachmentOfACallThatTimedOutIsNotReadAfterwards) {
	for (int i = 0; i < 20; ++i) {
		auto memory = std::make_unique<std::string>(rpc_test::at_most_largest(4'000'000), 'a');
		client_.set_req_attachment(*memory);
		(void)syncAwait(client_.call_for<rpc_test::attachment_back>(std::chrono::microseconds(1 + i * 100)));
		memory->assign(memory->size(), 'b');
	}
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 2))), 3);
}

TEST_P(Calls, AServerThatDiesFailsExactlyTheCallsUnderWay) {
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 2))), 3);
	const auto work = [](Client& client, ServerProcess& server) -> Lazy<void> {
		auto first = co_await client.send_request<rpc_test::wait_ms>(20'000);
		auto second = co_await client.send_request<rpc_test::wait_ms>(20'000);
		server.kill();
		const auto one = co_await std::move(first);
		const auto other = co_await std::move(second);
		EXPECT_EQ(one.error().code, errc::io_error) << one.error().msg;
		EXPECT_EQ(other.error().code, errc::io_error);
	};
	syncAwait(work(client_, server_));
	EXPECT_TRUE(client_.has_closed());
	EXPECT_EQ(code_of(syncAwait(client_.call<rpc_test::add>(1, 2))), errc::not_connected);
}

TEST_P(Calls, AGracefulStopAnswersWhatIsInFlight) {
	const auto work = [](Client& client, ServerProcess& server) -> Lazy<void> {
		auto slow = co_await client.send_request<rpc_test::wait_ms>(300);
		server.request_stop();
		while (!client.has_closed()) co_await client.get_executor().loop().sleep_for(1'000'000);
		const auto refused = co_await client.call<rpc_test::add>(1, 2);
		EXPECT_EQ(refused.error().code, errc::not_connected);
		const auto result = co_await std::move(slow);
		EXPECT_TRUE(result) << result.error().msg;
		EXPECT_EQ(result ? result->result() : 0, 300);
	};
	syncAwait(work(client_, server_));
	EXPECT_EQ(server_.stop(), 0);
}

TEST_P(Calls, DestroyingAClientFailsItsOwnCallsOnly) {
	auto other = std::make_unique<Client>();
	prepare(*other, GetParam());
	ASSERT_FALSE(syncAwait(other->connect(server_.address())));
	auto under_way = syncAwait(other->send_request<rpc_test::wait_ms>(20'000));
	other.reset();
	EXPECT_EQ(syncAwait(std::move(under_way)).error().code, errc::operation_canceled);
	EXPECT_EQ(value_of(syncAwait(client_.call<rpc_test::add>(1, 2))), 3);
}

TEST_P(Calls, APingIsAnswered) { EXPECT_TRUE(syncAwait(client_.ping())); }

TEST_P(Calls, AFunctionThatBlocksHoldsUpItsThreadOnly) {
	ServerProcess server("2", GetParam());
	Client blocked, other;
	for (Client* each : {&blocked, &other}) {
		prepare(*each, GetParam());
		ASSERT_FALSE(syncAwait(each->connect(server.address()))) << each->error_text();
	}
	auto under_way = syncAwait(blocked.send_request<rpc_test::block>());
	while (!syncAwait(other.call<rpc_test::is_blocking>()).value()) std::this_thread::yield();
	for (int i = 0; i < 100; ++i) EXPECT_EQ(syncAwait(other.call<rpc_test::add>(i, i)).value(), 2 * i);
	EXPECT_EQ(blocked.get_pipeline_size(), 1u);
	EXPECT_TRUE(syncAwait(other.call<rpc_test::release>()));
	const auto result = syncAwait(std::move(under_way));
	EXPECT_TRUE(result && result->result());
}

std::atomic<bool> asking{false}, answered{false};
Lazy<int> ask(std::string address) {
	Client other;
	const auto failed = co_await other.connect(address);
	if (failed) co_return -1;
	asking = true;
	const auto waited = co_await other.call<rpc_test::wait_ms>(300);
	answered = true;
	co_return waited ? *waited : -1;
}

// Otherwise stop() would destroy the function's coroutine while another thread may resume it.
TEST(Calls, AStopWaitsForAFunctionThatIsOnAnotherThread) {
	ServerProcess backend("1", "tcp");
	Server server({.address = "127.0.0.1", .port = 0, .thread_num = 1, .drain_patience = 1ms});
	server.register_handler<ask>();
	const Server::Started started = server.async_start();
	Client client;
	ASSERT_FALSE(syncAwait(client.connect("127.0.0.1:" + std::to_string(server.port()))));
	std::jthread caller([&] { EXPECT_FALSE(syncAwait(client.call<ask>(backend.address()))); });
	while (!asking) std::this_thread::yield();
	server.stop();
	EXPECT_TRUE(answered);
}

TEST(Calls, OnePortServesTcpAndRdma) {
	const Identity identity;
	ServerProcess server("2", "both");
	for (const std::string transport : {"tcp", "rdma", "tcp", "rdma"}) {
		Client client;
		prepare(client, transport);
		ASSERT_FALSE(syncAwait(client.connect(server.address()))) << client.error_text();
		EXPECT_EQ(syncAwait(client.call<rpc_test::add>(1, 2)).value(), 3);
	}
}

TEST(Calls, TransportsThatDoNotMatchSaySo) {
	const Identity identity;
	const auto words = [](const std::string& at_server, const std::string& at_client) {
		ServerProcess server("1", at_server);
		Client client;
		prepare(client, at_client);
		EXPECT_TRUE(syncAwait(client.connect(server.address())));
		return client.error_text();
	};
	EXPECT_NE(words("tls", "rdma").find("TCP only"), std::string::npos) << words("tls", "rdma");
	EXPECT_NE(words("tcp", "rdma").find("in clear"), std::string::npos) << words("tcp", "rdma");
	EXPECT_NE(words("tcp", "tls").find("in clear"), std::string::npos) << words("tcp", "tls");
	EXPECT_NE(words("tls", "tcp").find("TLS"), std::string::npos) << words("tls", "tcp");
}

TEST(Calls, ConnectingToAPortWithoutAServerFails) {
	Client client;
	EXPECT_EQ(syncAwait(client.connect("127.0.0.1:1")), errc::not_connected);
	EXPECT_NE(client.error_text().find("127.0.0.1:1"), std::string::npos) << client.error_text();
	EXPECT_EQ(syncAwait(client.call<rpc_test::add>(1, 2)).error().code, errc::not_connected);
}

}  // namespace
}  // namespace verbena::rpc
