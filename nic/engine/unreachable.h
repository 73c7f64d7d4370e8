// SPDX-License-Identifier: Apache-2.0
// Says in the log why a peer cannot be reached, with the way out.
//
// Threads: any; explain_no_accept() and the functions with an `icmp_error` are called under the
//   engine's lock.
// Errors: none; a line that cannot be printed is lost (base/log.h).
#pragma once

#include <cstdint>
#include <optional>

#include "nic/cm/connection_manager.h"
#include "nic/wire/flow.h"
#include "nic/wire/numbers.h"

namespace verbena::engine {

// The NIC cannot start in this process.
void explain_no_start(int error);

// The kernel did not list the interfaces, so there are no devices.
void explain_no_interfaces(int error);

// No path to another host, because UDP port 4791 could not be opened: `error` is the errno.
void explain_no_wire(int error);

// As explain_no_wire(), for a process that sends nothing, but could receive from other hosts.
void explain_unheard(int error);
// The user `holder` has the port and passes on what arrives for this process.
void explain_relay(std::uint32_t holder);
// Another user, who does not have the port, passes on packets.
void explain_no_relay(std::uint32_t user);

// No link to a process of this host that owns a queue pair or serves a port.
void explain_no_neighbour(int error, const char* wanted);

// As explain_no_neighbour(), if a process of another user has it.
void explain_other_user(std::uint32_t owner, std::uint32_t user, const char* wanted);

// A process of this host could not connect to this one. Prints a line if descriptors are missing;
// other failures are the other process's.
void explain_no_accept(int error);

// A process of another user could not connect to this one, because that user has its share of
// links (stranger_share.h).
void explain_no_share(std::uint32_t user);
// Only this user's processes reach `what`, although VERBENA_PEERS=host: the user `holder`, if
// known, has its public name.
void explain_private(std::optional<std::uint32_t> holder, const char* what);

// A peer on another host has answered no request until the retries were exhausted. `icmp_error`:
// the errno of an ICMP message about the host that came in this time, or 0.
void explain_silence(const wire::Gid& peer, wire::Qpn destination, int icmp_error);
// A peer on another host has acknowledged a request after a packet in its name refused the request.
void explain_forgery(const wire::Gid& peer, wire::Qpn destination);
// Only what ICMP reported. False: nothing.
bool explain_icmp(const wire::Gid& peer, int icmp_error);
// As explain_silence(), for a request for a connection.
void explain_no_answer(const wire::Gid& peer, int icmp_error);
// A message of rdma_cm named a connection of this process and did not come from its peer. It has
// changed nothing.
void explain_mismatch(cm::Mismatch);
// No host on the local network answers for the address.
void explain_no_host(const wire::Gid& peer);

}  // namespace verbena::engine
