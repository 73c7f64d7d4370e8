// SPDX-License-Identifier: Apache-2.0
// Certificates of an authority: which clients a server accepts, and which servers a client trusts,
// over TLS and in the set-up of RDMA.
#include <gtest/gtest.h>
#include <verbena/rpc.h>

#include "lib/channel/setup/fixture.h"
#include "lib/rpc/protection.h"
#include "lib/rpc/testing/functions.h"
#include "lib/rpc/testing/identity.h"

namespace verbena::rpc {
namespace {

using channel::issue;
using channel::testing_tools::Folder;

// An authority, and the files of a server and a client whose certificates it signed.
class Authority {
public:
	explicit Authority(const std::string& server_host) {
		const auto authority = channel::make_authority("tests", 1).value();
		folder_.write("ca.pem", authority.certificate_pem);
		write("server", issue(authority, channel::Use::server, {.name = "server", .hosts = {server_host}}).value());
		write("client", issue(authority, channel::Use::client, {.name = "client"}).value());
	}
	ssl_config of(const std::string& side) const {
		return {
			.base_path = folder_.path(), .ca_file = "ca.pem", .cert_file = side + ".pem", .key_file = side + ".key"};
	}

private:
	void write(const std::string& side, const channel::Credential& credential) const {
		folder_.write(side + ".pem", credential.certificate_pem);
		folder_.write(side + ".key", credential.key_pem);
	}
	Folder folder_;
};

// Returns the client's error when the side `clear` speaks in clear and the other one wants TLS.
std::string words_of_client(Side clear, bool rdma) {
	Server server({.address = "127.0.0.1", .port = 0, .thread_num = 1, .log = [](std::string_view) {}});
	Client client;
	if (clear == Side::client) server.init_ssl();
	else if (rdma) client.init_ibv(rpc_test::test_ibv());
	else client.init_ssl();
	const auto started = server.async_start();
	EXPECT_FALSE(started.hasResult());
	EXPECT_TRUE(syncAwait(client.connect("127.0.0.1:" + std::to_string(server.port()))));
	return client.error_text();
}

TEST(Advice, AClientOfAServerWithoutInitIbvIsNotToldOfAnOptionThatNoneOfThemHas) {
	const rpc_test::Identity identity;
	for (const bool rdma : {false, true}) {
		const std::string text = words_of_client(Side::server, rdma);
		EXPECT_NE(text.find("call init_ibv() or init_ssl() in the server too"), text.npos) << text;
		EXPECT_EQ(text.find("--insecure"), text.npos) << text;
	}
}

TEST(Advice, AClientInClearOfAServerWithTlsIsToldOfInitSsl) {
	const rpc_test::Identity identity;
	const std::string text = words_of_client(Side::client, false);
	EXPECT_NE(text.find("call init_ssl() in the client too"), text.npos) << text;
}

class Certificates : public ::testing::TestWithParam<std::string> {
protected:
	// Makes a call. Returns an empty string, or the reason for a failure at either end.
	std::string call(const ssl_config& at_server, const ssl_config& at_client) {
		Server server({.address = "127.0.0.1", .port = 0, .thread_num = 1, .log = [](std::string_view) {}});
		server.register_handler<rpc_test::add>();
		server.init_ssl(at_server);
		if (GetParam() == "rdma") server.init_ibv(rpc_test::test_ibv());
		const auto started = server.async_start();
		if (started.hasResult()) return "server: " + server.error_text();
		Client client;
		client.init_ssl(at_client);
		if (GetParam() == "rdma") client.init_ibv(rpc_test::test_ibv());
		if (syncAwait(client.connect("127.0.0.1:" + std::to_string(server.port())))) {
			EXPECT_FALSE(client.error_text().empty());
			EXPECT_EQ(server.connection_count(), 0u);
			return client.error_text();
		}
		const auto sum = syncAwait(client.call<rpc_test::add>(1, 2));
		return sum && *sum == 3 ? "" : "no sum";
	}
	Authority good_{"127.0.0.1"}, other_{"127.0.0.1"}, elsewhere_{"db1.example.org"};
};
INSTANTIATE_TEST_SUITE_P(
	Over, Certificates, ::testing::Values("tls", "rdma"), [](const auto& info) { return info.param; });

TEST_P(Certificates, OfOneAuthorityAreAccepted) { EXPECT_EQ(call(good_.of("server"), good_.of("client")), ""); }

TEST_P(Certificates, OfAnotherAuthorityAreRefusedByEitherSide) {
	EXPECT_NE(call(good_.of("server"), other_.of("client")), "");
	ssl_config stranger = other_.of("client");
	stranger.base_path.clear();
	// It trusts the server, which does not trust it.
	stranger.ca_file = good_.of("client").base_path + "/ca.pem";
	stranger.cert_file = other_.of("client").base_path + "/client.pem";
	stranger.key_file = other_.of("client").base_path + "/client.key";
	EXPECT_NE(call(good_.of("server"), stranger), "");
}

TEST_P(Certificates, AServerOfAnotherNameIsRefusedUnlessAnyNameIsAllowed) {
	EXPECT_NE(call(elsewhere_.of("server"), elsewhere_.of("client")), "");
	ssl_config any = elsewhere_.of("client");
	any.any_name = true;
	EXPECT_EQ(call(elsewhere_.of("server"), any), "");
}

TEST_P(Certificates, AClientCertificateDoesNotIdentifyAServer) {
	EXPECT_NE(call(good_.of("client"), good_.of("client")), "");
}

TEST_P(Certificates, TheErrorNamesAMissingFile) {
	ssl_config missing = good_.of("server");
	missing.key_file = "nowhere.key";
	const std::string why = call(missing, good_.of("client"));
	EXPECT_TRUE(why.starts_with("server: ")) << why;
	EXPECT_NE(why.find("nowhere.key"), std::string::npos) << why;
}

}  // namespace
}  // namespace verbena::rpc
