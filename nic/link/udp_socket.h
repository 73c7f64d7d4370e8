// SPDX-License-Identifier: Apache-2.0
// The UDP sockets of RoCEv2: their addresses and options.
//
// Threads: any; each socket belongs to its caller.
// Errors: -1 with errno, as the system calls.
#pragma once

#include <cstdint>
#include <netinet/in.h>
#include <sys/socket.h>

#include "nic/wire/flow.h"

namespace verbena::link {

enum class Family : std::uint8_t { ipv4, ipv6 };

constexpr int native(Family family) { return family == Family::ipv4 ? AF_INET : AF_INET6; }

union SocketAddress {
	sockaddr any;
	sockaddr_in ipv4;
	sockaddr_in6 ipv6;
};

// Fills in an address and returns its length. `gid` is of the family, or zero for any address.
socklen_t to_address(SocketAddress& address, Family family, const wire::Gid& gid, std::uint16_t port);

// Binds and reads the port back. The zero address means any address, port 0 any free port.
int bind_to(int fd, Family family, const wire::Gid& own, std::uint16_t port, std::uint16_t& bound);

// A socket, not yet bound, with the options of one that receives packets. All sockets of one user
// may share its port. `buffer_bytes` is limited by the kernel (rmem_max).
int open_receiver(Family family, int buffer_bytes);

// A socket, not yet bound, with the options of one that sends packets: the kernel neither
// fragments them nor changes the identification of their IPv4 header, which the ICRC covers.
int open_sender(Family family);

// Adds a socket to an epoll set; events carry `owner`. epoll reports errors even if `events` is 0.
int watch(int epoll, int fd, void* owner, std::uint32_t events);

// Sets an option whose value is an int.
int set(int fd, int level, int option, int value);

}  // namespace verbena::link
