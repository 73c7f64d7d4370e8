// SPDX-License-Identifier: Apache-2.0
// Answers that no etcd sends: the address may lead to any other program.
#include "lib/discovery/etcd.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace verbena::discovery {
namespace {

// Listens at a port of 127.0.0.1, and sends the same answer to each request.
class Impostor {
public:
	explicit Impostor(std::string answer)
		: answer_("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::move(answer)) {
		sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
		socklen_t size = sizeof address;
		EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
		EXPECT_EQ(listen(listener_, 8), 0);
		getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
		port_ = ntohs(address.sin_port);
		thread_ = std::thread([this] { serve(); });
	}
	~Impostor() {
		shutdown(listener_, SHUT_RDWR);
		thread_.join();
		close(listener_);
	}
	EtcdPrefix where() const { return read_etcd("etcd://127.0.0.1:" + std::to_string(port_) + "/here").value(); }

private:
	void serve() {
		for (int client; (client = accept(listener_, nullptr, nullptr)) >= 0; close(client)) {
			std::string request;
			char bytes[4096];
			// Each request of ours is short and ends with its JSON object.
			while (!request.ends_with("}")) {
				const ssize_t got = recv(client, bytes, sizeof bytes, 0);
				if (got <= 0) break;
				request.append(bytes, static_cast<std::size_t>(got));
			}
			for (std::size_t sent = 0; sent < answer_.size();) {
				const ssize_t now = send(client, answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
				if (now <= 0) break;
				sent += static_cast<std::size_t>(now);
			}
		}
	}

	std::string answer_;
	int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	std::uint16_t port_ = 0;
	std::thread thread_;
};

// A key that is no text, and one of padding only, ended the program with an exception.
TEST(Etcd, EntriesThatAreNoneAreLeftOut) {
	const Impostor etcd(R"({"header":{"revision":1e300},"kvs":[7,null,"text",[],{},{"key":7},{"key":null},)"
						R"({"key":"="},{"key":"===="},{"key":"!!!!"},{"key":"L2hlcmUvb25l"}]})");
	Etcd calls(etcd.where());
	const auto listed = calls.list();
	ASSERT_TRUE(listed.has_value()) << listed.error();
	EXPECT_EQ(listed->names, std::vector<std::string>{"one"});
	EXPECT_EQ(listed->revision, 0);
}

TEST(Etcd, AnEntryHasItsLeaseAndTheDurationThatItStates) {
	// The values are {"lease_s":5}, {"lease_s":-1} and no JSON.
	const Impostor etcd(R"({"kvs":[{"key":"L2hlcmUvb25l","lease":"7","value":"eyJsZWFzZV9zIjo1fQ=="},)"
						R"({"key":"L2hlcmUvdHdv","value":"eyJsZWFzZV9zIjotMX0="},{"key":"L2hlcmUvc2l4","value":7}]})");
	Etcd calls(etcd.where());
	const auto entries = calls.entries();
	ASSERT_TRUE(entries.has_value()) << entries.error();
	ASSERT_EQ(entries->size(), 3u);
	EXPECT_EQ((*entries)[0].name, "one");
	EXPECT_EQ((*entries)[0].lease, "7");
	EXPECT_EQ((*entries)[0].lease_s, 5u);
	EXPECT_EQ((*entries)[1].lease, "0");
	EXPECT_EQ((*entries)[1].lease_s, 0u);
	EXPECT_EQ((*entries)[2].lease_s, 0u);
}

TEST(Etcd, AnAnswerOfAnotherShapeIsAnError) {
	for (const char* answer : {"", "hello", "[1]", "7", "{", "\xff\xfe"}) {
		const Impostor etcd(answer);
		Etcd calls(etcd.where());
		EXPECT_FALSE(calls.list().has_value()) << answer;
		EXPECT_FALSE(calls.grant(5).has_value()) << answer;
	}
	for (const char* answer : {R"({"kvs":7,"header":[]})", R"({"result":7})"}) {
		const Impostor etcd(answer);
		Etcd calls(etcd.where());
		EXPECT_TRUE(calls.list().value().names.empty());
		EXPECT_FALSE(calls.renew("1").value());
	}
}

TEST(Etcd, DeepNestingTakesNoStack) {
	constexpr std::size_t depth = 2'000'000;
	const Impostor etcd("{\"kvs\":" + std::string(depth, '[') + std::string(depth, ']') + "}");
	Etcd calls(etcd.where());
	EXPECT_TRUE(calls.list().value().names.empty());
	const Impostor other(std::string(depth, '['));
	Etcd unfinished(other.where());
	EXPECT_FALSE(unfinished.list().has_value());
}

TEST(Etcd, AWatchThatNeverReportsAnEventEndsByItsSize) {
	const Impostor etcd(std::string(1 << 20, ' '));
	Etcd calls(etcd.where());
	EXPECT_TRUE(calls.wait_for_change(1).has_value());
}

TEST(Etcd, AMachineWithoutLibcurlGetsTheNameOfThePackage) {
	const auto missing = load_curl("libcurl-that-no-machine-has.so");
	ASSERT_FALSE(missing.has_value());
	EXPECT_NE(missing.error().find("libcurl4"), std::string::npos) << missing.error();
	const auto another = load_curl("libc.so.6");
	ASSERT_FALSE(another.has_value());
	EXPECT_NE(another.error().find("has no curl_"), std::string::npos) << another.error();
}

TEST(Prefix, HasTheSchemeAndTheMembersOfItsText) {
	const auto one = read_etcd("etcd://a:2379/kv");
	ASSERT_TRUE(one) << one.error();
	EXPECT_EQ(one->urls, std::vector<std::string>{"http://a:2379"});
	EXPECT_EQ(one->prefix, "/kv/");
	const auto several = read_etcd("etcds://a:2379,[::1]:2379/kv/here/");
	ASSERT_TRUE(several) << several.error();
	EXPECT_EQ(several->urls, (std::vector<std::string>{"https://a:2379", "https://[::1]:2379"}));
	EXPECT_EQ(several->prefix, "/kv/here/");
	for (const char* text : {"etcd://", "etcd:///kv", "etcd://a", "etcd://a/", "etcds://a,/kv", "etcd://a,,b/kv", "a"})
		EXPECT_FALSE(read_etcd(text).has_value()) << text;
}

TEST(Prefix, TheEnvironmentStandsInForWhatIsNotGiven) {
	const EtcdAccess environment{.ca = "/dev/null", .certificate = "", .key = "", .user = "", .password_file = ""};
	const auto where = read_etcd("etcds://a:1/kv", {}, environment);
	ASSERT_TRUE(where) << where.error();
	EXPECT_EQ(where->access.ca, "/dev/null");
	EXPECT_FALSE(read_etcd("etcds://a:1/kv", {.ca = "/nowhere"}, environment).has_value());
	EXPECT_FALSE(read_etcd("etcd://a:1/kv", {}, environment).has_value()) << "without TLS";
}

TEST(Etcd, TheNextMemberIsAskedIfOneSendsNoResult) {
	const Impostor page("<html>"), etcd(R"({"kvs":[{"key":"L2hlcmUvb25l"}]})");
	EtcdPrefix where = page.where();
	where.urls.push_back(etcd.where().urls.front());
	std::vector<std::string> notices;
	Etcd calls(where, 0, [&](const std::string& notice) { notices.push_back(notice); });
	for (int i = 0; i < 2; ++i) {
		const auto listed = calls.list();
		ASSERT_TRUE(listed.has_value()) << listed.error();
		EXPECT_EQ(listed->names, std::vector<std::string>{"one"});
	}
	ASSERT_EQ(notices.size(), 1u) << "later calls begin with the member that has answered";
	EXPECT_NE(notices[0].find(where.urls[0]), std::string::npos) << notices[0];
}

TEST(Etcd, AnErrorOfEveryMemberIsNamed) {
	const Impostor one("1"), other(R"({"error":{"message":"etcdserver: no leader"}})");
	EtcdPrefix where = one.where();
	where.urls.push_back(other.where().urls.front());
	Etcd calls(where);
	const auto listed = calls.list();
	ASSERT_FALSE(listed.has_value());
	EXPECT_NE(listed.error().find("not JSON"), std::string::npos) << listed.error();
	EXPECT_NE(listed.error().find("no leader"), std::string::npos) << listed.error();
}

TEST(Etcd, StopEndsASleepAndResumeAllowsTheNext) {
	Etcd calls(read_etcd("etcd://127.0.0.1:1/here").value());
	std::jthread stops([&] { calls.stop(); });
	EXPECT_FALSE(calls.sleep(60'000));
	stops.join();
	calls.resume();
	EXPECT_TRUE(calls.sleep(1));
}

}  // namespace
}  // namespace verbena::discovery
