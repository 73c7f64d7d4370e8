// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/first_message.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "lib/channel/setup/parameters.h"

namespace verbena::channel {
namespace {

// A TLS record (RFC 8446, 5.1): type, version, length; then at most this many bytes.
constexpr std::size_t record_header = 5, record_max = 16 << 10;
constexpr std::byte handshake_record{22};

// Returns the length of the message that begins with these bytes, as far as they show it.
std::size_t wanted(std::span<const std::byte> seen) {
	if (seen.empty()) return 1;
	if (seen[0] == handshake_record) {
		if (seen.size() < record_header) return record_header;
		const std::size_t length = std::to_integer<std::size_t>(seen[3]) << 8 | std::to_integer<std::size_t>(seen[4]);
		return record_header + std::min(length, record_max);
	}
	if (seen.size() < parameters_header_size) return parameters_header_size;
	return message_size(seen.first<parameters_header_size>()).value_or(parameters_header_size);
}

void wake_at(const async::Descriptor& socket, std::size_t bytes) {
	const int lowest = static_cast<int>(bytes);
	setsockopt(socket.fd(), SOL_SOCKET, SO_RCVLOWAT, &lowest, sizeof lowest);
}

bool has_ended(const async::Descriptor& socket) {
	pollfd state{.fd = socket.fd(), .events = POLLRDHUP, .revents = 0};
	return poll(&state, 1, 0) > 0;
}

}  // namespace

async::Task<FirstMessage> await_first_message(async::Descriptor& socket, Nanoseconds deadline) {
	std::size_t lowest = 1;
	FirstMessage result = FirstMessage::there;
	while (true) {
		std::array<std::byte, parameters_header_size> head;
		const ssize_t got = recv(socket.fd(), head.data(), head.size(), MSG_PEEK);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
		const auto seen = std::span(head).first(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
		int there = 0;
		ioctl(socket.fd(), FIONREAD, &there);
		const std::size_t length = wanted(seen);
		if (static_cast<std::size_t>(there) >= length || has_ended(socket)) break;
		socket.readable = false;
		// Reports the socket at once if the bytes have come meanwhile.
		if (std::exchange(lowest, length) != length) wake_at(socket, length);
		if (co_await async::Wait(socket, async::Wait::For::reading, deadline)) continue;
		result = seen.empty() ? FirstMessage::none : FirstMessage::part;
		break;
	}
	if (lowest != 1) wake_at(socket, 1);
	socket.readable = true;
	co_return result;
}

}  // namespace verbena::channel
