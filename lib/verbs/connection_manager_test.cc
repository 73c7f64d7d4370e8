// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/connection_manager.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace verbena::lib {
namespace {

std::vector<std::byte> data_of(std::string_view text) {
	std::vector<std::byte> data(reject_data_max);
	for (std::size_t i = 0; i < text.size(); ++i) data[i] = static_cast<std::byte>(text[i]);
	return data;
}

ConnectTrouble trouble(rdma_cm_event_type type, int status) {
	return trouble_of({.type = type, .status = status}, "10.0.0.1:18515").trouble;
}

TEST(ConnectionTrouble, EachEventMeansOneThing) {
	EXPECT_EQ(trouble(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV), ConnectTrouble::no_device);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH), ConnectTrouble::unreachable);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT), ConnectTrouble::unreachable);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), ConnectTrouble::unreachable);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_REJECTED, 8), ConnectTrouble::refused);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_REJECTED, -ECONNREFUSED), ConnectTrouble::refused);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_REJECTED, 28), ConnectTrouble::rejected);
	EXPECT_EQ(trouble(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL), ConnectTrouble::failed);
}

TEST(ConnectionTrouble, ARejectCarriesTheListenersReason) {
	const ConnectionEvent event{.type = RDMA_CM_EVENT_REJECTED, .status = 28, .private_data = data_of("too\nmuch")};
	EXPECT_EQ(trouble_of(event, "10.0.0.1:1").text, "10.0.0.1:1 rejects the connection: too?much");
	EXPECT_NE(
		trouble_of({.type = RDMA_CM_EVENT_REJECTED, .status = 10}, "x").text.find("reason 10"), std::string::npos);
}

TEST(ConnectionTrouble, SaysTheWayOut) {
	EXPECT_NE(trouble_of("rdma_create_event_channel", ENODEV, "").text.find("verbena run"), std::string::npos);
	EXPECT_NE(trouble_of("rdma_bind_addr", EADDRINUSE, "port 1").text.find("--port"), std::string::npos);
	EXPECT_EQ(trouble_of("rdma_bind_addr", EADDRINUSE, "port 1").trouble, ConnectTrouble::port_busy);
}

TEST(SocketAddress, OfAGidIsTheAddressItWasMadeFrom) {
	const auto text = [](const char* gid) {
		const auto address = address_of(parse_gid(gid).value(), 18515);
		return address ? format_address(address->get()) : "none";
	};
	EXPECT_EQ(text("::ffff:10.0.0.1"), "10.0.0.1:18515");
	EXPECT_EQ(text("::ffff:127.0.0.1"), "127.0.0.1:18515");
	EXPECT_EQ(text("fd00::12"), "[fd00::12]:18515");
	EXPECT_EQ(text("fe80::1"), "none") << "the GID does not say of which interface";
}

TEST(SocketAddress, IsReadInEitherFamilyAndShownAsIPv4WhereItIsThat) {
	EXPECT_EQ(format_address(address_of("10.0.0.1", 7).value().get()), "10.0.0.1:7");
	EXPECT_EQ(format_address(address_of("::ffff:10.0.0.1", 7).value().get()), "10.0.0.1:7");
	EXPECT_EQ(format_address(any_address(7).get()), "[::]:7");
	EXPECT_EQ(address_of("no-such.invalid", 7).error().trouble, ConnectTrouble::unreachable);
}

}  // namespace
}  // namespace verbena::lib
