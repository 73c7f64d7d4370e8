// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/unreachable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/udp_port_owner.h"
#include "nic/wire/gid_text.h"

namespace verbena::engine {

using wire::text_of;

void explain_no_start(int error) {
	switch (error) {
		case EMFILE:
		case ENFILE:
			return log::error(
				"the NIC cannot start: no descriptor is left; raise the limit (ulimit -n), or close some");
		case EAGAIN:
			return log::error(
				"the NIC cannot start: no thread can be made; raise the limit (ulimit -u, or the container's pids "
				"limit)");
		case ENOMEM:
		case ENOSPC:
			return log::error(
				"the NIC cannot start: no memory for its pages (%s); raise the limit of the process or the "
				"container",
				std::strerror(error));
		default:
			return log::error("the NIC cannot start: %s; 'verbena doctor' examines this machine", std::strerror(error));
	}
}

void explain_no_interfaces(int error) {
	if (error == EMFILE || error == ENFILE)
		return log::error("no device is found: no descriptor is left; raise the limit (ulimit -n), or close some");
	log::error("no device is found: the kernel lists no interfaces: %s", std::strerror(error));
}

void explain_no_wire(int error) {
	switch (error) {
		case EADDRINUSE: {
			if (access("/sys/module/rdma_rxe", F_OK) == 0)
				return log::error(
					"other hosts cannot be reached: the kernel's Soft-RoCE (rdma_rxe) has UDP port 4791; remove its "
					"links "
					"(rdma link delete NAME) or run in another network namespace");
			const auto owner = udp_port_owner(wire::roce_port);
			if (owner && *owner != geteuid())
				return log::error(
					"other hosts cannot be reached: user id %u has UDP port 4791; the programs of two users share "
					"it if all have VERBENA_PEERS=host in their environment; otherwise stop that program (ss -ulpn "
					"'sport = 4791' names it) or run in another network namespace",
					*owner);
			return log::error(
				"other hosts cannot be reached: another program has UDP port 4791; stop it (ss -ulpn 'sport = 4791' "
				"names it) or run in another network namespace");
		}
		case EINVAL: return log::info("no path: one of the two addresses is of IPv4, the other of IPv6");
		case ENOSPC:
			return log::error(
				"no path to another address: 1,024 paths by UDP are in use, by queue pairs or by datagrams that were "
				"not sent yet; destroy queue pairs that are not needed");
		case EMFILE:
			return log::error(
				"other hosts cannot be reached: the process has no descriptor left for UDP sockets; raise the limit "
				"(ulimit -n)");
		default:
			return log::error(
				"other hosts cannot be reached: UDP port 4791 cannot be opened: %s ('verbena doctor' "
				"examines this machine)",
				std::strerror(error));
	}
}

void explain_unheard(int error) {
	const auto owner = error == EADDRINUSE ? udp_port_owner(wire::roce_port) : std::nullopt;
	if (owner && *owner != geteuid())
		return log::warn(
			"other hosts cannot reach this process: user id %u has UDP port 4791; the programs of two users share "
			"it if all have VERBENA_PEERS=host in their environment",
			*owner);
	log::warn("other hosts cannot reach this process: UDP port 4791 cannot be bound: %s", std::strerror(error));
}

void explain_relay(std::uint32_t holder) {
	log::warn(
		"user id %u has UDP port 4791: what arrives from other hosts comes through that user's programs, all of which "
		"need VERBENA_PEERS=host",
		holder);
}

void explain_no_relay(std::uint32_t user) {
	log::warn(
		"user id %u passes on packets of other hosts, but does not have UDP port 4791: they may be forged and are "
		"dropped",
		user);
}

void explain_no_neighbour(int error, const char* wanted) {
	switch (error) {
		case ECONNREFUSED: return log::info("%s: no process of this user and host owns it", wanted);
		case ECONNRESET: return log::info("%s: its process is ending, or has no descriptor left for the link", wanted);
		case EPERM:
		case EACCES:
			return log::error(
				"%s: it belongs to a process of another user; processes of two users connect if both have "
				"VERBENA_PEERS=host in their environment",
				wanted);
		case EUSERS:
			return log::error(
				"%s: this process has as many links with that user, or with all other users, as it may", wanted);
		case ETIMEDOUT: return log::error("%s: its process does not answer; it may be stopped (SIGSTOP)", wanted);
		case EMFILE:
			return log::error(
				"%s: the process has no descriptor left, and a link needs four; raise the limit (ulimit -n)", wanted);
		default: return log::error("%s: no link to its process: %s", wanted, std::strerror(error));
	}
}

void explain_other_user(std::uint32_t owner, std::uint32_t user, const char* wanted) {
	log::error(
		"%s: it belongs to a process of user id %u, and this one is of user id %u; processes of two users connect if "
		"both have VERBENA_PEERS=host in their environment",
		wanted, owner, user);
}

// The same text for every queue pair and connection, so that the log's filter of repeats leaves one
// line for each host.
bool explain_icmp(const wire::Gid& peer, int error) {
	if (error == ECONNREFUSED)
		log::error(
			"host %s has no NIC on UDP port 4791: start the program there with 'verbena run', or load rdma_rxe; if it "
			"ran, it has ended",
			text_of(peer).bytes);
	else if (error != 0)
		log::error(
			"host %s cannot be reached: %s; it is down, the address is wrong, or a router or firewall refuses UDP port "
			"4791",
			text_of(peer).bytes, std::strerror(error));
	return error != 0;
}

void explain_no_accept(int error) {
	if (error == EMFILE || error == ENFILE)
		log::error(
			"a process of this host cannot connect to this one: no descriptor is left, and a link needs four; raise "
			"the limit (ulimit -n)");
}

void explain_no_share(std::uint32_t user) {
	log::warn("user id %u cannot connect: it has as many links with this process as one other user may", user);
}

void explain_private(std::optional<std::uint32_t> holder, const char* what) {
	if (holder)
		log::warn("%s: only processes of this user reach it, because user id %u holds its public name", what, *holder);
	else log::warn("%s: only processes of this user reach it, because another user holds its public name", what);
}

void explain_silence(const wire::Gid& peer, wire::Qpn destination, int icmp_error) {
	if (explain_icmp(peer, icmp_error)) return;
	log::error(
		"%s does not answer requests to queue pair 0x%x: its program has ended, or has no NIC (start it by 'verbena "
		"run', "
		"or load rdma_rxe), or a firewall drops UDP port 4791",
		text_of(peer).bytes, destination.value);
}

void explain_forgery(const wire::Gid& peer, wire::Qpn destination) {
	log::warn(
		"a NAK in the name of %s, queue pair 0x%x, was forged and has no effect: the peer has acknowledged the "
		"request; "
		"a process of that host, or of the network, sends such packets",
		text_of(peer).bytes, destination.value);
}

void explain_no_answer(const wire::Gid& peer, int icmp_error) {
	if (explain_icmp(peer, icmp_error)) return;
	log::error(
		"%s does not answer requests for a connection: its program is stopped, or a firewall drops UDP port 4791",
		text_of(peer).bytes);
}

// One text for each mismatch, so that the log's filter of repeats leaves five lines a second at the
// most.
void explain_mismatch(cm::Mismatch what) {
	const char* const wrong = [what] {
		switch (what) {
			case cm::Mismatch::carrier: return "way (UDP, or another process's shared memory)";
			case cm::Mismatch::address: return "address";
			case cm::Mismatch::number: return "sender's number";
			case cm::Mismatch::transaction: return "transaction id";
			case cm::Mismatch::queue_pair: return "queue pair number";
		}
		return "content";
	}();
	log::warn(
		"a message about an rdma_cm connection had the wrong %s and was dropped: it was late, or another program "
		"forged it (counter cm_mismatched)",
		wrong);
}

void explain_no_host(const wire::Gid& peer) {
	log::error(
		"host %s cannot be reached: no host of the local network answers for this address (ARP, neighbour discovery)",
		text_of(peer).bytes);
}

}  // namespace verbena::engine
