// SPDX-License-Identifier: Apache-2.0
#include "tools/udp_loopback.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/descriptor.h"

namespace verbena::tools {
namespace {

constexpr int datagram_bytes = 1024;
constexpr int datagrams = 32;
constexpr int burst_bytes = datagram_bytes * datagrams;

// A datagram of the loopback is never lost while the receive buffer has room, and a burst fits into
// the default one. The limit ends a wait that a filter of packets would make endless.
constexpr timeval patience{.tv_sec = 1, .tv_usec = 0};

std::unexpected<std::string> failure_of(const char* call) {
	return std::unexpected(std::string(call) + ": " + std::strerror(errno));
}

bool receive_burst(int fd, std::vector<std::byte>& room) {
	for (ssize_t left = burst_bytes; left > 0;) {
		const ssize_t got = recv(fd, room.data(), room.size(), 0);
		if (got <= 0) return false;
		left -= got;
	}
	return true;
}

}  // namespace

std::expected<UdpRate, std::string> measure_udp_loopback(double seconds) {
	using Clock = std::chrono::steady_clock;
	const Descriptor from(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const Descriptor to(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (!from || !to) return failure_of("socket");
	sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof address;
	if (bind(to.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return failure_of("bind");
	getsockname(to.get(), reinterpret_cast<sockaddr*>(&address), &length);
	if (connect(from.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return failure_of("connect");
	const int segment = datagram_bytes, on = 1;
	UdpRate rate;
	rate.offload = setsockopt(from.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) == 0 &&
		setsockopt(to.get(), SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
	setsockopt(to.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);

	const std::vector<std::byte> burst(burst_bytes);
	std::vector<std::byte> room(burst_bytes);
	const int step = rate.offload ? burst_bytes : datagram_bytes;
	int bursts = 0;
	const auto start = Clock::now();
	std::chrono::duration<double> took{};
	do {
		for (int at = 0; at < burst_bytes; at += step)
			if (send(from.get(), burst.data() + at, static_cast<std::size_t>(step), 0) != step)
				return failure_of("send");
		if (!receive_burst(to.get(), room)) return failure_of("recv");
		++bursts;
		took = Clock::now() - start;
	} while (took.count() < seconds);
	rate.burst_us = took.count() * 1e6 / bursts;
	rate.gib_s = static_cast<double>(burst_bytes) * bursts / took.count() / (1u << 30);
	return rate;
}

}  // namespace verbena::tools
