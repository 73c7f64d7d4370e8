// SPDX-License-Identifier: Apache-2.0
// answers_of(): the C library's <netinet/tcp.h> lacks the newer fields of tcp_info, and cannot be
// included together with the kernel's header.
#include <linux/tcp.h>
#include <netinet/in.h>

#include "lib/async/socket.h"

namespace verbena::async {

Answers answers_of(const Descriptor& socket) {
	tcp_info info{};
	socklen_t size = sizeof info;
	if (getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
	// A peer with a closed window answers probes, which become rare. Bytes that are unsent although
	// its window is open could not leave this host.
	const bool unsent = info.tcpi_notsent_bytes > 0 && info.tcpi_snd_wnd > 0;
	return {.awaited = info.tcpi_unacked > 0 || info.tcpi_probes > 1 || unsent,
		.silent_for = Nanoseconds{info.tcpi_last_ack_recv} * 1'000'000};
}

}  // namespace verbena::async
