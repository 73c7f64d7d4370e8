// SPDX-License-Identifier: Apache-2.0
// The packets of a trace as a pcapng file, for tshark(1) and Wireshark.
//
// Packets of shared memory are written as the RoCEv2 packets that they stand for, with the
// addresses of their queue pairs, and an acknowledgement of 8 bytes as an ACK packet (its MSN is 0,
// because it has none). Those between hosts are written as they are before UDP has them: the source
// port, the IPv4 identification and so the ICRC may differ from those on the wire. Each process is
// an interface, so a packet between two traced processes is there twice: outbound of one, inbound
// of the other. The comment of a packet names the process and both queue pairs.
//
// Threads: any; no function keeps state.
// Errors: a packet of which the trace has too few bytes is cut off, as by a short snapshot length.
#pragma once

#include <string>

#include "nic/trace/read/trace_files.h"

namespace verbena::trace {

// The bytes of the file.
std::string render_pcapng(const Trace&);

}  // namespace verbena::trace
