// SPDX-License-Identifier: Apache-2.0
// Connections by rdma_cm on the NIC of this process, or on the device that VERBENA_TEST_DEVICE
// names: what the two ends learn when a connection is made, and why one is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/verbs/connection_manager.h"

namespace verbena::lib {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr milliseconds patience = seconds(10);

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Private data is padded with zeros.
std::string text_of(const std::vector<std::byte>& data) {
	const auto end = std::ranges::find(data, std::byte{0});
	return {reinterpret_cast<const char*>(data.data()), static_cast<std::size_t>(end - data.begin())};
}

class Connecting : public testing::Test {
protected:
	void SetUp() override {
		const char* const name = std::getenv("VERBENA_TEST_DEVICE");
		const auto device =
			open_best(DeviceRequest{.device = name != nullptr ? name : "", .both_ends_on_this_host = true});
		ASSERT_TRUE(device.has_value()) << device.error();
		gid_ = device->choice.gid;
		ASSERT_TRUE(address_of(gid_, 1).has_value());
	}

	static Connected<ConnectionEvent> event(const EventChannel& channel) {
		auto found = next_event(channel.get(), patience);
		if (!found) return std::unexpected(found.error());
		if (!*found) return std::unexpected(ConnectError{ConnectTrouble::timed_out, "no event"});
		return std::move(**found);
	}
	static rdma_cm_event_type type(const Connected<ConnectionEvent>& event) {
		EXPECT_TRUE(event.has_value()) << event.error().text;
		return event ? event->type : RDMA_CM_EVENT_TIMEWAIT_EXIT;
	}

	SocketAddress address(std::uint16_t port) const { return address_of(gid_, port).value(); }
	// Listens at a free port.
	void start_server() {
		auto made = listen(passive_.get(), address(0), 8);
		ASSERT_TRUE(made.has_value()) << made.error().text;
		listener_ = std::move(*made);
		port_ = ntohs(rdma_get_src_port(listener_.get()));
	}
	ConnectionId resolved(std::uint16_t port) {
		auto id = resolve(active_.get(), address(port), patience);
		EXPECT_TRUE(id.has_value()) << id.error().text;
		return id ? std::move(*id) : nullptr;
	}
	// Sends a request with this text, and returns the id that it has at the server.
	ConnectionId request(const ConnectionId& client, std::string_view text) {
		const auto begun = begin_connect(client.get(), bytes_of(text), OwnQueuePair{.number = 17, .reads = 1});
		EXPECT_TRUE(begun.has_value()) << begun.error().text;
		auto asked = event(passive_);
		EXPECT_EQ(type(asked), RDMA_CM_EVENT_CONNECT_REQUEST);
		if (!asked) return nullptr;
		EXPECT_EQ(text_of(asked->private_data), text);
		return ConnectionId(asked->id);
	}

	ibv_gid gid_{};
	EventChannel active_ = make_event_channel().value(), passive_ = make_event_channel().value();
	ConnectionId listener_;
	std::uint16_t port_ = 0;
};

TEST_F(Connecting, BothEndsLearnEachOthersDataAndQueuePair) {
	start_server();
	const ConnectionId client = resolved(port_);
	ASSERT_TRUE(client);
	const ConnectionId served = request(client, "hello");
	ASSERT_TRUE(served);
	ASSERT_TRUE(accept(served.get(), bytes_of("welcome"), OwnQueuePair{.number = 18, .reads = 1}).has_value());
	const auto answer = event(active_);
	ASSERT_EQ(type(answer), RDMA_CM_EVENT_CONNECT_RESPONSE);
	EXPECT_EQ(text_of(answer->private_data), "welcome");
	const auto path = path_of(client.get()), back = path_of(served.get());
	ASSERT_TRUE(path && back);
	EXPECT_EQ(path->peer.qpn, 18u);
	EXPECT_EQ(back->peer.qpn, 17u);
	EXPECT_EQ(path->peer.psn, back->local_psn);
	EXPECT_EQ(back->peer.psn, path->local_psn);
	EXPECT_EQ(path->device, back->device);
	ASSERT_TRUE(establish(client.get()).has_value());
	EXPECT_EQ(type(event(passive_)), RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(Connecting, AnEndThatDisconnectsIsNamedAsTheOneThatClosed) {
	start_server();
	const ConnectionId client = resolved(port_);
	ASSERT_TRUE(client);
	const ConnectionId served = request(client, "hello");
	ASSERT_TRUE(served && accept(served.get(), {}, OwnQueuePair{.number = 18, .reads = 1}));
	ASSERT_EQ(type(event(active_)), RDMA_CM_EVENT_CONNECT_RESPONSE);
	ASSERT_TRUE(establish(client.get()).has_value());
	ASSERT_EQ(type(event(passive_)), RDMA_CM_EVENT_ESTABLISHED);
	ASSERT_EQ(rdma_disconnect(served.get()), 0);
	const auto end = event(active_);
	ASSERT_EQ(type(end), RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(trouble_of(*end, "the server").text, "the server closed the connection");
}

TEST_F(Connecting, ARejectedClientReadsTheServersReason) {
	start_server();
	const ConnectionId client = resolved(port_);
	ASSERT_TRUE(client);
	const ConnectionId served = request(client, "hello");
	ASSERT_TRUE(served);
	reject(served.get(), "come back later" + std::string(reject_data_max, '.'));
	const auto answer = event(active_);
	ASSERT_EQ(type(answer), RDMA_CM_EVENT_REJECTED);
	const ConnectError error = trouble_of(*answer, "the server");
	EXPECT_EQ(error.trouble, ConnectTrouble::rejected);
	EXPECT_THAT(error.text, HasSubstr("the server rejects the connection: come back later..."));
}

TEST_F(Connecting, APortWithoutAServerIsRefused) {
	start_server();
	const std::uint16_t closed = port_;
	listener_.reset();
	const ConnectionId client = resolved(closed);
	ASSERT_TRUE(client);
	ASSERT_TRUE(begin_connect(client.get(), {}, OwnQueuePair{.number = 17, .reads = 1}).has_value());
	const auto answer = event(active_);
	ASSERT_EQ(type(answer), RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(trouble_of(*answer, "the server").trouble, ConnectTrouble::refused);
	EXPECT_THAT(trouble_of(*answer, "the server").text, HasSubstr("start the server there first"));
}

TEST_F(Connecting, APortThatIsTakenIsBusyAtEachKindOfAddress) {
	start_server();
	const auto at_the_address = listen(passive_.get(), address(port_), 8);
	ASSERT_FALSE(at_the_address.has_value());
	EXPECT_EQ(at_the_address.error().trouble, ConnectTrouble::port_busy) << at_the_address.error().text;
	EXPECT_THAT(at_the_address.error().text, HasSubstr("choose another --port"));
	// The kernel reports EADDRNOTAVAIL here.
	const auto everywhere = listen(passive_.get(), any_address(port_), 8);
	ASSERT_FALSE(everywhere.has_value());
	EXPECT_EQ(everywhere.error().trouble, ConnectTrouble::port_busy) << everywhere.error().text;
	EXPECT_THAT(everywhere.error().text, HasSubstr("port " + std::to_string(port_) + " is in use"));
}

// 192.0.2.0/24 is for documents (RFC 5737): no host has such an address.
TEST_F(Connecting, AnAddressOfAnotherHostCannotBeListenedAt) {
	const auto listener = listen(passive_.get(), address_of("192.0.2.1", 0).value(), 8);
	ASSERT_FALSE(listener.has_value());
	EXPECT_NE(listener.error().trouble, ConnectTrouble::port_busy) << listener.error().text;
	EXPECT_THAT(listener.error().text, HasSubstr("192.0.2.1"));
}

TEST_F(Connecting, WithoutPatienceAServerDoesNotAnswerInTime) {
	start_server();
	const auto id = resolve(active_.get(), address(port_), milliseconds(0));
	ASSERT_FALSE(id.has_value());
	EXPECT_EQ(id.error().trouble, ConnectTrouble::timed_out) << id.error().text;
	EXPECT_THAT(id.error().text, HasSubstr(format_address(address(port_).get()) + " does not answer in time"));
}

TEST_F(Connecting, DataThatAMessageCannotCarryIsNotSent) {
	start_server();
	const ConnectionId client = resolved(port_);
	ASSERT_TRUE(client);
	const OwnQueuePair own{.number = 17, .reads = 1};
	const std::vector<std::byte> long_request(request_data_max + 1), long_reply(reply_data_max + 1);
	EXPECT_THAT(begin_connect(client.get(), long_request, own).error().text, HasSubstr("Message too long"));
	EXPECT_FALSE(next_event(passive_.get(), milliseconds(0)).value().has_value());
	const ConnectionId served = request(client, "short");
	ASSERT_TRUE(served);
	EXPECT_THAT(accept(served.get(), long_reply, own).error().text, HasSubstr("Message too long"));
	EXPECT_TRUE(accept(served.get(), bytes_of("short"), own).has_value()) << "the refused call has changed nothing";
	EXPECT_EQ(type(event(active_)), RDMA_CM_EVENT_CONNECT_RESPONSE);
}

TEST_F(Connecting, TheDeviceOfAResolvedAddressIsTheOneThatLeadsThere) {
	const ConnectionId client = resolved(1);
	ASSERT_TRUE(client);
	const auto device = device_of(client.get());
	ASSERT_TRUE(device.has_value()) << device.error();
	EXPECT_EQ(device->choice.device, ibv_get_device_name(client->verbs->device));
	EXPECT_TRUE(device->domain);
}

}  // namespace
}  // namespace verbena::lib
