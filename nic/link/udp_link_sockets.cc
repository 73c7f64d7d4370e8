// SPDX-License-Identifier: Apache-2.0
// UdpLink: its sockets come, go and change; udp_link.cc sends and receives.
#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "base/cancellation.h"
#include "nic/link/udp_link.h"

namespace verbena::link {

namespace {

constexpr int error_queue_bytes = 32 * 1024;  // room for some ICMP messages about sent datagrams

}  // namespace

void UdpLink::open(Family family) {
	Sockets& s = at(family);
	// Paths know the ports of senders that were open before, so these stay.
	const bool sent_before = s.send_fd >= 0;
	// Binding the receiver comes last, because a bound socket already receives.
	if ((sent_before || open_senders(family)) && open_receiver(family)) {
		s.error = 0;
		return;
	}
	s.error = errno;
	if (sent_before || s.error == EADDRINUSE) return;
	for (int* fd : {&s.send_fd, &s.management.fd})
		if (*fd >= 0) close(std::exchange(*fd, -1));
}

// False, with errno, if it has opened none.
bool UdpLink::open_senders(Family family) {
	Sockets& s = at(family);
	if (epoll_fd_ < 0) epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd_ < 0) return false;
	const int out = s.send_fd = open_sender(family);
	const int management = s.management.fd = out < 0 ? -1 : open_sender(family);
	const bool ipv4 = family == Family::ipv4;
	if (management >= 0 && ask_for_icmp(management, ipv4) == 0) {
		ask_for_icmp(out, ipv4);  // may fail in a sandbox: then the log has fewer reasons
		// Before Linux 4.18 the kernel ignores a request to segment, and would send one huge
		// datagram.
		int segment = 0;
		socklen_t size = sizeof segment;
		if (getsockopt(out, SOL_UDP, UDP_SEGMENT, &segment, &size) != 0) options_.segmentation = false;
		set(out, SOL_SOCKET, SO_SNDBUF, options_.buffer_bytes);
		set(out, SOL_SOCKET, SO_RCVBUF, error_queue_bytes);  // no process sends to this port
		if (bind_to(out, family, {}, 0, s.source_port) == 0 &&
			bind_to(management, family, {}, 0, s.management.port) == 0 &&
			watch(epoll_fd_, management, &s.management, 0) == 0)
			return true;
	}
	const int error = errno;
	for (int* fd : {&s.send_fd, &s.management.fd})
		if (*fd >= 0) close(std::exchange(*fd, -1));
	errno = error;
	return false;
}

// False, with errno, if the family still receives nothing.
bool UdpLink::open_receiver(Family family) {
	Receiver& receiver = at(family).receiver;
	const int in = link::open_receiver(family, options_.buffer_bytes);
	if (in < 0) return false;
	if (bind_to(in, family, {}, options_.port, receiver.port) == 0 && watch(epoll_fd_, in, &receiver, EPOLLIN) == 0) {
		receiver.fd = in;
		int buffer = 0;
		socklen_t size = sizeof buffer;
		if (getsockopt(in, SOL_SOCKET, SO_RCVBUF, &buffer, &size) == 0)
			at(family).receive_buffer_bytes = static_cast<std::uint32_t>(buffer);
		return true;
	}
	const int error = errno;
	close(in);
	errno = error;
	return false;
}

bool UdpLink::reopen(Family family) {
	if (!up(family)) open(family);
	return up(family);
}

void UdpLink::steer(const wire::Gid& own, const wire::Gid& peer, std::uint16_t port) {
	const Family family = wire::is_ipv4_mapped(peer) ? Family::ipv4 : Family::ipv6;
	// A link-local address alone does not identify the interface.
	if (!up(family) || (peer[0] == 0xfe && peer[1] == 0x80)) return;
	for (const auto& receiver : steered_)
		if (receiver->peer == peer && receiver->peer_port == port) return;
	rlimit files{};
	getrlimit(RLIMIT_NOFILE, &files);
	// Leave most descriptors to the program.
	if (steered_.size() >= std::min<std::size_t>(steered_max, files.rlim_cur / 8) && !evict()) return;

	const NotCancellable whole;
	steered_.reserve(steered_.size() + 1);
	auto receiver = std::make_unique<Receiver>(Receiver{.last_used = receives_, .peer = peer, .peer_port = port});
	const int fd = receiver->fd = link::open_receiver(family, options_.buffer_bytes);
	if (fd < 0) return;
	SocketAddress to{};
	const socklen_t size = to_address(to, family, peer, port);
	if (bind_to(fd, family, own, at(family).receiver.port, receiver->port) != 0 || connect(fd, &to.any, size) != 0 ||
		watch(epoll_fd_, fd, receiver.get(), EPOLLIN) != 0) {
		close(fd);
		return;
	}
	++counters_.steered;
	steered_.push_back(std::move(receiver));
}

// Closes the steered socket that was silent longest, if that is long enough. Returns whether it
// did.
bool UdpLink::evict() {
	constexpr std::uint64_t receives_silent = 10'000;
	const auto oldest =
		std::ranges::min_element(steered_, {}, [](const auto& receiver) { return receiver->last_used; });
	if (oldest == steered_.end() || (*oldest)->last_used + receives_silent > receives_) return false;
	if (last_active_ == oldest->get()) last_active_ = nullptr;  // it would dangle
	close((*oldest)->fd);
	steered_.erase(oldest);
	return true;
}

int UdpLink::join(const wire::Gid& group, std::uint32_t interface_index) {
	const Sockets& s = at(wire::is_ipv4_mapped(group) ? Family::ipv4 : Family::ipv6);
	return s.receiver.fd < 0 ? s.error : memberships_.join(s.receiver.fd, group, interface_index);
}
int UdpLink::leave(const wire::Gid& group, std::uint32_t interface_index) {
	const Sockets& s = at(wire::is_ipv4_mapped(group) ? Family::ipv4 : Family::ipv6);
	return s.receiver.fd < 0 ? s.error : memberships_.leave(s.receiver.fd, group, interface_index);
}

}  // namespace verbena::link
