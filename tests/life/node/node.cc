// SPDX-License-Identifier: Apache-2.0
// A process on the NIC that a test controls. It reads commands from its standard input, one on each
// line, and answers each on one line: `ok ...`, `error ERRNO` with the name of an errno value, or
// `error no such object`. It uses the NIC through the public verbs only.
//
// The list has each command with its arguments, its effect, and the answer if it succeeds.
//
// Devices and queue pairs:
//   open DEVICE                     open a context, which becomes the current one
//                                   ok
//   close                           destroy the current context and all objects in it; the context
//                                   opened before it becomes the current one
//                                   ok
//   devices                         list the devices
//                                   ok NAME ...
//   port                            report the port of the current context: its state (ACTIVE or
//                                   DOWN), physical state (LINK_UP, POLLING or DISABLED) and MTU
//                                   ok STATE PHYSICAL-STATE BYTES
//   gids                            list the GID table of the current context
//                                   ok INDEX=GID ...
//   counter NAME                    read ports/1/counters/NAME of the current context
//                                   ok VALUE
//   event MS                        sleep until an asynchronous event of the current context comes,
//                                   or MS milliseconds have passed (ETIMEDOUT); its name is without
//                                   IBV_EVENT_
//                                   ok EVENT
//   qp TYPE SENDS RECEIVES          create a QP in the current context: rc or uc in INIT, or ud in
//                                   RTS; SENDS and RECEIVES are the sizes of its queues
//                                   ok INDEX QPN
//   qps COUNT SENDS RECEIVES FILE   create COUNT RC QPs and write their numbers to FILE, each on a
//                                   line of its own
//                                   ok FIRST-INDEX NANOSECONDS
//   connect INDEX QPN [SGID-INDEX GID]
//                                   connect a QP to the QP with number QPN up to RTS: from the GID
//                                   with this index to the port with this GID; without them, from
//                                   GID 0 to this host
//                                   ok
//   connect_all FIRST FILE          connect the QPs from index FIRST on to the QPs whose numbers
//                                   are in FILE
//                                   ok NANOSECONDS
//   modify INDEX STATE              modify only the state: reset, init, rtr, rts, sqd, sqe, err
//                                   ok
//   state INDEX                     report the state
//                                   ok STATE
//   destroy INDEX                   destroy a QP
//                                   ok
// Work:
//   receive INDEX COUNT             post COUNT receives of 64 bytes
//                                   ok
//   send INDEX COUNT BYTES [QPN]    post COUNT SENDs of BYTES bytes; QPN is the destination of a
//                                   datagram. A SEND of 8 to 64 bytes carries a stamp, which the
//                                   receiver checks unless it is a datagram
//                                   ok
//   write|read|add INDEX COUNT BYTES ADDRESS RKEY
//                                   post COUNT WRITEs, READs or fetch-and-adds
//                                   ok
//   latency OP INDEX COUNT BYTES ADDRESS RKEY
//                                   post and poll COUNT operations, one at a time; OP is send,
//                                   write, read or add
//                                   ok MEDIAN-NANOSECONDS
//   poll COUNT MS                   poll until there are COUNT completions or MS milliseconds have
//                                   passed
//                                   ok MICROSECONDS STATUS=COUNT ...
//   wait COUNT MS                   like poll, but sleep on the completion channel
//                                   ok MICROSECONDS STATUS=COUNT ...
//   exit COUNT MS                   poll, then exit at once; the objects are not destroyed
//                                   no answer
// Memory:
//   region BYTES                    map and register memory
//                                   ok INDEX ADDRESS RKEY
//   unmap REGION, remap REGION      unmap the memory, or map new memory at its address; the
//                                   registration stays
//                                   ok
//   load REGION OFFSET              load the eight bytes at OFFSET, without verbs
//                                   ok VALUE
//   await REGION OFFSET VALUE MS    load them until they have this value or MS milliseconds have
//                                   passed (ETIMEDOUT)
//                                   ok
// Signals:
//   handle FUNCTION                 call this function of libc so that it takes SIGSEGV and SIGBUS
//                                   away from the NIC: it sets a handler, which ends the process
//                                   with status 42, or ignores or blocks them
//                                   ok
// Processes:
//   fork FD                         fork; the child reads its commands from the socket FD and
//                                   writes its answers to it, the answer to this command first
//                                   ok PID (0 in the child)
//
// poll and wait count completions by status, in the order in which each status first appeared. A
// status is the name of an ibv_wc_status without IBV_WC_. A successful receive counts as RECEIVED,
// or as WRONG_STAMP if its stamp is not the next one.
#include <unistd.h>

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "commands.h"

namespace {

void obey(const std::string& word, std::istream& in, std::ostream& out) {
	const bool known = obey_device(word, in, out) || obey_qp(word, in, out) || obey_work(word, in, out) ||
		obey_memory(word, in, out) || obey_process(word, in, out);
	if (!known) throw Failure{ENOSYS};
}

}  // namespace

int main() {
	// read() and not std::cin, because a forked child must not find its parent's lines in a buffer.
	std::string line;
	for (char c; read(STDIN_FILENO, &c, 1) == 1;) {
		if (c != '\n') {
			line += c;
			continue;
		}
		std::istringstream in(line);
		line.clear();
		std::ostringstream out;
		out << "ok";
		try {
			obey(next<std::string>(in), in, out);
		} catch (const Failure& failure) {
			out.str(std::string("error ") + strerrorname_np(failure.error));
		} catch (const std::out_of_range&) {
			out.str("error no such object");
		}
		const std::string answer = out.str() + "\n";
		if (write(STDOUT_FILENO, answer.data(), answer.size()) < 0) return 1;
	}
	return 0;
}
