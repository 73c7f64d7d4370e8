// SPDX-License-Identifier: Apache-2.0
// Waits for the first message of a client's set-up, without reading it: the ClientHello of TLS, or
// in clear its parameters.
//
// A client that has not sent all of it yet costs its server one descriptor, and neither a handshake
// nor wake-ups, however slowly it sends: the kernel reports the socket when all bytes are there.
//
// Threads: the thread of the socket's loop.
#pragma once

#include "lib/async/socket.h"

namespace verbena::channel {

enum class FirstMessage : std::uint8_t {
	there,  // all of it, or bytes that are no first message, or the stream has ended
	part,  // the deadline passed, and only a part has arrived
	none,  // the deadline passed, and nothing has arrived
};

async::Task<FirstMessage> await_first_message(async::Descriptor& socket, Nanoseconds deadline);

}  // namespace verbena::channel
