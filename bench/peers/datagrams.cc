// SPDX-License-Identifier: Apache-2.0
// Measures the kernel's own limit for datagrams between two processes: UDP with segmentation by the
// kernel (UDP_SEGMENT), and received in trains (UDP_GRO), as our NIC uses it.
//
//     peers_datagrams receive ADDRESS PORT BYTES
//     peers_datagrams send ADDRESS PORT BYTES MILLISECONDS
//
// The sender has no window: it sends as fast as it can, and the receiver counts the datagrams that
// arrive, from the first train to the last, until none has come for 300 ms. Datagrams that do not
// fit into its buffer are lost. BYTES is the size of a datagram without UDP and IP headers.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "bench/peers/end.h"

namespace verbena::peers {
namespace {

constexpr const char* usage_line =
	"peers_datagrams receive ADDRESS PORT BYTES | peers_datagrams send ADDRESS PORT BYTES MILLISECONDS";
constexpr std::size_t train_max = 64, train_bytes_max = 65'000;  // the kernel's limits for one send
constexpr int socket_buffer_bytes = 16 << 20;  // as our NIC asks for; the kernel may allow less
constexpr int first_wait_ms = 10'000, silence_ms = 300;

sockaddr_in address_of(const char* address, const char* port) {
	sockaddr_in where{};
	where.sin_family = AF_INET;
	where.sin_port = htons(static_cast<std::uint16_t>(number(port, 65'535, usage_line)));
	if (inet_pton(AF_INET, address, &where.sin_addr) != 1) usage(usage_line);
	return where;
}

int make_socket() {
	const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (made < 0) throw Failure(lib::failure("socket", errno));
	return made;
}

void set_option(int socket, int level, int option, int value, const char* name) {
	if (setsockopt(socket, level, option, &value, sizeof value) != 0) throw Failure(lib::failure(name, errno));
}

void set_patience(int socket, int ms) {
	const timeval time{.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0)
		throw Failure(lib::failure("SO_RCVTIMEO", errno));
}

// The size of each datagram of a received train but the last; 0 if the message is one datagram.
std::size_t segment_of(msghdr& message) {
	for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO) continue;
		int bytes = 0;
		std::memcpy(&bytes, CMSG_DATA(c), sizeof bytes);
		return static_cast<std::size_t>(bytes);
	}
	return 0;
}

void receive(const sockaddr_in& where, std::size_t bytes) {
	constexpr std::size_t trains = 16;
	struct Slot {
		std::array<std::byte, 65'536> data;
		alignas(cmsghdr) std::array<std::byte, 64> control;
	};
	std::vector<Slot> slots(trains);
	std::array<iovec, trains> pieces{};
	std::array<mmsghdr, trains> messages{};
	const int socket = make_socket();
	set_option(socket, SOL_SOCKET, SO_RCVBUF, socket_buffer_bytes, "SO_RCVBUF");
	set_option(socket, SOL_UDP, UDP_GRO, 1, "UDP_GRO");
	set_patience(socket, first_wait_ms);
	if (bind(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0)
		throw Failure(lib::failure("bind", errno));

	std::uint64_t first = 0, last = 0, counted = 0, received = 0;
	for (;;) {
		for (std::size_t i = 0; i < trains; ++i) {
			pieces[i] = {.iov_base = slots[i].data.data(), .iov_len = slots[i].data.size()};
			messages[i].msg_hdr = {.msg_iov = &pieces[i], .msg_iovlen = 1, .msg_control = slots[i].control.data()};
			messages[i].msg_hdr.msg_controllen = slots[i].control.size();
		}
		const int n = recvmmsg(socket, messages.data(), trains, MSG_WAITFORONE, nullptr);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
		if (n < 0) throw Failure(lib::failure("recvmmsg", errno));
		last = rcud::now_ns();
		std::uint64_t arrived = 0;
		for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
			const std::size_t segment = segment_of(messages[i].msg_hdr);
			if (segment != 0 && segment != bytes) throw Failure("a datagram of another size arrived");
			arrived += (messages[i].msg_len + bytes - 1) / bytes;
		}
		received += arrived;
		if (first != 0) {
			counted += arrived;
			continue;
		}
		first = last;
		set_patience(socket, silence_ms);
	}
	close(socket);
	if (counted == 0) throw Failure("too few datagrams arrived");
	const double mops = static_cast<double>(counted) * 1e3 / static_cast<double>(last - first);
	std::printf("{\"mops\": %.6f, \"received\": %llu}\n", mops, static_cast<unsigned long long>(received));
}

void send(const sockaddr_in& where, std::size_t bytes, std::uint64_t ms) {
	const std::size_t train = std::clamp<std::size_t>(train_bytes_max / bytes, 1, train_max);
	std::vector<std::byte> data(train * bytes);
	const int socket = make_socket();
	set_option(socket, SOL_SOCKET, SO_SNDBUF, socket_buffer_bytes, "SO_SNDBUF");
	if (train > 1) set_option(socket, SOL_UDP, UDP_SEGMENT, static_cast<int>(bytes), "UDP_SEGMENT");
	if (connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0)
		throw Failure(lib::failure("connect", errno));
	std::uint64_t sent = 0;
	for (const std::uint64_t end = rcud::now_ns() + ms * 1'000'000; rcud::now_ns() < end;) {
		if (::send(socket, data.data(), data.size(), 0) >= 0) sent += train;
		else if (errno != ENOBUFS && errno != EAGAIN) throw Failure(lib::failure("send", errno));
	}
	close(socket);
	std::printf("{\"sent\": %llu}\n", static_cast<unsigned long long>(sent));
}

void run(int count, char** words) {
	const std::string_view what = count > 1 ? words[1] : "";
	if (!(what == "receive" && count == 5) && !(what == "send" && count == 6)) usage(usage_line);
	const sockaddr_in where = address_of(words[2], words[3]);
	const std::size_t bytes = number(words[4], train_bytes_max, usage_line);
	if (what == "receive") receive(where, bytes);
	else send(where, bytes, number(words[5], 10'000, usage_line));
}

}  // namespace
}  // namespace verbena::peers

int main(int count, char** words) { return verbena::peers::run_program(verbena::peers::run, count, words, 30); }
