// SPDX-License-Identifier: Apache-2.0
// The fixture of test suites that run over each transport: a client that is connected to a server
// in another process.
#pragma once

#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/identity.h"
#include "lib/rpc/testing/server_process.h"

namespace rpc_test {

// Initializes a client for "tcp", "tls", "rdma" or "rdma-own" (receive blocks per connection).
inline void prepare(Client& client, const std::string& transport) {
	ibv_config ibv = test_ibv();
	if (transport == "rdma-own") ibv.recv_mode = recv_mode_t::per_connection;
	if (transport.starts_with("rdma")) client.init_ibv(ibv);
	if (transport == "tls") client.init_ssl();
}

class Connected : public ::testing::TestWithParam<std::string> {
protected:
	void SetUp() override {
		prepare(client_, GetParam());
		const err_code connected = syncAwait(client_.connect(server_.address()));
		ASSERT_FALSE(connected) << client_.error_text();
	}
	void TearDown() override { EXPECT_EQ(server_.stop(), 0); }
	// The result's value; an error fails the test.
	template <class T> static T value_of(rpc_result<T> result) {
		if (!result) {
			ADD_FAILURE() << result.error().val() << " " << result.error().msg;
			return T();
		}
		return *std::move(result);
	}
	template <class T> static errc code_of(const rpc_result<T>& result) {
		return result ? errc::ok : result.error().code.ec;
	}

	Identity identity_;
	ServerProcess server_{"1", GetParam()};
	Client client_;
};

#define OVER_EVERY_TRANSPORT(suite)                                                            \
	INSTANTIATE_TEST_SUITE_P(Over, suite, ::testing::Values("tcp", "tls", "rdma", "rdma-own"), \
		[](const auto& info) { return info.param == "rdma-own" ? "rdma_own" : info.param; })

}  // namespace rpc_test
