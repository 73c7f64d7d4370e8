// SPDX-License-Identifier: Apache-2.0
// ICMP messages about datagrams that this host has sent: no socket at the port, or no way to the
// host. The kernel keeps them in a socket's error queue if the socket asked for them.
//
// Anyone can forge an ICMP message. So none changes what the link sends or receives: it explains a
// failure that was found otherwise. The one exception is UdpLink::take_refusals().
//
// Threads: as their owner, a UdpLink.
// Errors: none; a message that the kernel had no room for is missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "nic/wire/flow.h"

namespace verbena::link {

struct IcmpError {
	wire::Gid destination{};  // where the datagram went
	// ECONNREFUSED: no socket at the port; EHOSTUNREACH and others: no way to the host. 0: this is
	// no ICMP message.
	int error = 0;
	std::span<const std::byte> quoted;  // the beginning of the datagram's payload
};

// Asks for the ICMP messages of a socket. Returns 0, or -1 with errno.
//
// From then on, a message also makes the next send on the socket fail once with its errno
// (may_be_icmp), and the kernel reports ENOBUFS if the interface's queue drops a datagram.
int ask_for_icmp(int fd, bool ipv4);

// True for an errno of a send that an ICMP message about an earlier datagram may have caused.
bool may_be_icmp(int error);

// Takes the next message out of the socket's error queue. `room` is for the quotation. Nothing: the
// queue is empty.
std::optional<IcmpError> next_icmp(int fd, std::span<std::byte> room);

// The last error of each of a few hosts.
class UnreachableHosts {
public:
	struct Report {
		int error;
		Nanoseconds at;
	};

	// Forgets the host with the oldest report if there is no room for another one.
	void note(const wire::Gid& host, int error, Nanoseconds now);
	std::optional<Report> find(const wire::Gid& host) const;

	static constexpr std::size_t hosts_max = 16;

private:
	struct Entry {
		wire::Gid host{};
		Report report{};  // `error` is 0 in an unused entry
	};
	std::array<Entry, hosts_max> entries_{};
};

}  // namespace verbena::link
