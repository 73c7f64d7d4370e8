// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/export.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

namespace verbena::metrics {
namespace {

int connected_to(std::uint16_t port) {
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const bool is_connected = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
	EXPECT_TRUE(is_connected);
	return fd;
}

// The whole answer to a request for this page at a port of this host.
std::string get(std::uint16_t port, const std::string& page, const std::string& method = "GET") {
	const int fd = connected_to(port);
	const std::string request = method + " " + page + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
	EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
	std::string answer;
	char bytes[4096];
	for (ssize_t got; (got = read(fd, bytes, sizeof bytes)) > 0;) answer.append(bytes, static_cast<std::size_t>(got));
	close(fd);
	return answer;
}

TEST(Endpoint, AScrapeHasTheTextFormatOfPrometheus) {
	const auto endpoint =
		Endpoint::open("0", [] { return Families{counter("x_total", "An x", 3, {{"label", "a\"b"}})}; });
	ASSERT_TRUE(endpoint) << endpoint.error();
	const std::string answer = get((*endpoint)->port(), "/metrics");
	EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
	EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"), answer.npos) << answer;
	EXPECT_NE(
		answer.find("\r\n\r\n# HELP x_total An x\n# TYPE x_total counter\nx_total{label=\"a\\\"b\"} 3\n"), answer.npos)
		<< answer;
}

TEST(Endpoint, HealthIsTheStatusOfItsPage) {
	std::atomic<bool> good = true;
	const auto endpoint = Endpoint::open(
		"0", [] { return Families(); }, [&] { return Condition{good, good ? "it works" : "it does not"}; });
	ASSERT_TRUE(endpoint) << endpoint.error();
	std::string answer = get((*endpoint)->port(), "/health");
	EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
	EXPECT_TRUE(answer.ends_with("\r\n\r\nit works\n")) << answer;
	good = false;
	answer = get((*endpoint)->port(), "/health");
	EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
	EXPECT_TRUE(answer.ends_with("\r\n\r\nit does not\n")) << answer;
}

// HEAD got the text too, and POST was answered as GET is.
TEST(Endpoint, AHeadHasNoTextAndOnlyGetAndHeadAreAnswered) {
	const auto endpoint = Endpoint::open("0", [] { return Families{counter("x_total", "An x", 3)}; });
	ASSERT_TRUE(endpoint) << endpoint.error();
	const std::string whole = get((*endpoint)->port(), "/metrics"), head = get((*endpoint)->port(), "/metrics", "HEAD"),
					  post = get((*endpoint)->port(), "/metrics", "POST");
	EXPECT_EQ(head, whole.substr(0, whole.find("\r\n\r\n") + 4));
	EXPECT_TRUE(post.starts_with("HTTP/1.1 405 ")) << post;
	EXPECT_NE(post.find("\r\nAllow: GET, HEAD\r\n"), post.npos) << post;
}

TEST(Endpoint, AWordThatIsNoPortIsNamed) {
	for (const char* where : {"abc", "127.0.0.1:80000", "", "127.0.0.1:", "80 "}) {
		const auto endpoint = Endpoint::open(where, [] { return Families(); });
		ASSERT_FALSE(endpoint) << where;
		EXPECT_NE(endpoint.error().find("is not a port"), std::string::npos) << endpoint.error();
	}
}

TEST(Endpoint, AMistakeInAnAddressIsKnownBeforeItIsOpened) {
	for (const char* where : {"0", "9400", "0.0.0.0:65535", "[::1]:80"}) EXPECT_EQ(mistake_in_address(where), "");
	EXPECT_EQ(mistake_in_address("99999"), "'99999' is not a port, 0 to 65535");
	EXPECT_EQ(mistake_in_address("127.0.0.1:abc"), "'abc' is not a port, 0 to 65535");
}

TEST(Endpoint, OtherPagesDoNotExist) {
	const auto endpoint = Endpoint::open("0", [] { return Families(); });
	ASSERT_TRUE(endpoint) << endpoint.error();
	for (const char* page : {"/health", "/metrics/more", "/", "/../etc/passwd"})
		EXPECT_FALSE(get((*endpoint)->port(), page).starts_with("HTTP/1.1 200")) << page;
}

// One such connection kept a probe of the health waiting for half a minute.
TEST(Endpoint, AConnectionThatSendsHalfARequestKeepsNoOtherWaiting) {
	const auto endpoint = Endpoint::open("0", [] { return Families(); }, [] { return Condition{true, "it works"}; });
	ASSERT_TRUE(endpoint) << endpoint.error();
	// If the probe had to wait, the slow connection would be served, and closed, before it. On a
	// busy machine its own time may be over, too.
	int slow = -1;
	bool open = false;
	for (int i = 0; i < 3 && !open; ++i) {
		if (slow >= 0) close(slow);
		slow = connected_to((*endpoint)->port());
		ASSERT_EQ(write(slow, "GET /", 5), 5);
		EXPECT_TRUE(get((*endpoint)->port(), "/health").starts_with("HTTP/1.1 200 "));
		char byte;
		open = recv(slow, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
	}
	EXPECT_TRUE(open) << "each probe waited for the slow connection";
	char byte;
	while (read(slow, &byte, 1) > 0) continue;  // until it is closed, because its time is over
	close(slow);
}

}  // namespace
}  // namespace verbena::metrics
