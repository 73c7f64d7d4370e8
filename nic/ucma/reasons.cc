// SPDX-License-Identifier: Apache-2.0
#include "nic/ucma/reasons.h"

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace verbena::ucma {
namespace {

struct Name {
	std::uint32_t command;
	const char* function;
};
constexpr Name names[] = {
	{RDMA_USER_CM_CMD_CREATE_ID, "rdma_create_id"},
	{RDMA_USER_CM_CMD_DESTROY_ID, "rdma_destroy_id"},
	{RDMA_USER_CM_CMD_BIND_IP, "rdma_bind_addr"},
	{RDMA_USER_CM_CMD_BIND, "rdma_bind_addr"},
	{RDMA_USER_CM_CMD_RESOLVE_IP, "rdma_resolve_addr"},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, "rdma_resolve_addr"},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, "rdma_resolve_route"},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, "the query of a route"},
	{RDMA_USER_CM_CMD_QUERY, "the query of an id"},
	{RDMA_USER_CM_CMD_CONNECT, "rdma_connect"},
	{RDMA_USER_CM_CMD_LISTEN, "rdma_listen"},
	{RDMA_USER_CM_CMD_ACCEPT, "rdma_accept"},
	{RDMA_USER_CM_CMD_REJECT, "rdma_reject"},
	{RDMA_USER_CM_CMD_DISCONNECT, "rdma_disconnect"},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, "rdma_init_qp_attr"},
	{RDMA_USER_CM_CMD_GET_EVENT, "rdma_get_cm_event"},
	{RDMA_USER_CM_CMD_GET_OPTION, "rdma_get_option"},
	{RDMA_USER_CM_CMD_SET_OPTION, "rdma_set_option"},
	{RDMA_USER_CM_CMD_NOTIFY, "rdma_notify"},
	{RDMA_USER_CM_CMD_JOIN_IP_MCAST, "rdma_join_multicast"},
	{RDMA_USER_CM_CMD_JOIN_MCAST, "rdma_join_multicast"},
	{RDMA_USER_CM_CMD_LEAVE_MCAST, "rdma_leave_multicast"},
	{RDMA_USER_CM_CMD_MIGRATE_ID, "rdma_migrate_id"},
};

// The states are those of the kernel's rdma_cm: idle, bound, address resolved, route resolved.
struct Reason {
	std::uint32_t command;
	int error;
	const char* text;
};
constexpr Reason reasons[] = {
	{RDMA_USER_CM_CMD_BIND, EADDRINUSE, "another program of this host has the port"},
	{RDMA_USER_CM_CMD_BIND, EADDRNOTAVAIL, "the address is not one of this host, or no port is free"},
	{RDMA_USER_CM_CMD_BIND, ENODEV, "no software device has the address; 'verbena devices' lists the devices"},
	{RDMA_USER_CM_CMD_BIND, EINVAL,
		"the id is bound already, the address is not of IPv4 or IPv6, or it is link-local without a scope id"},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, ENODEV,
		"no software device leads to the address; 'verbena devices' lists the devices"},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, EINVAL,
		"the id is beyond address resolution, or source and destination are of different families"},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, ENETUNREACH, "there is no route to the address"},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, EADDRNOTAVAIL, "the source address is not one of this host, or no port is free"},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, EINVAL, "the id's address is not resolved yet (RDMA_CM_EVENT_ADDR_RESOLVED)"},
	{RDMA_USER_CM_CMD_LISTEN, EINVAL, "the id is not bound, or listens already"},
	{RDMA_USER_CM_CMD_LISTEN, EADDRINUSE, "another id of this host listens at the port"},
	{RDMA_USER_CM_CMD_CONNECT, EINVAL,
		"the id's route is not resolved yet (RDMA_CM_EVENT_ROUTE_RESOLVED), the parameters are missing, or "
		"private_data_len is above 56 (datagrams: 180)"},
	{RDMA_USER_CM_CMD_ACCEPT, EINVAL,
		"the id is no connection request that waits for an answer, or private_data_len is above 196 (datagrams: 136)"},
	{RDMA_USER_CM_CMD_REJECT, EINVAL,
		"the id is no connection request that waits for an answer, or private_data_len is above 148 (datagrams: 136)"},
	{RDMA_USER_CM_CMD_DISCONNECT, EINVAL, "the id was never connected"},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, EINVAL, "the id has no device yet, or its connection is not that far"},
	{RDMA_USER_CM_CMD_JOIN_MCAST, EINVAL,
		"the id is not bound to a device, is no datagram id, or the group no multicast address"},
	{RDMA_USER_CM_CMD_LEAVE_MCAST, ENOENT, "the id is no member of the group"},
	{RDMA_USER_CM_CMD_SET_OPTION, EINVAL, "the option's size is wrong, or the id is bound already"},
	{RDMA_USER_CM_CMD_SET_OPTION, ENOSYS, "the option is not supported"},
	{RDMA_USER_CM_CMD_GET_OPTION, ENOSYS, "the option is not supported"},
};

// Old commands of IP addresses mean the same as those that took their place.
constexpr std::uint32_t current(std::uint32_t command) {
	switch (command) {
		case RDMA_USER_CM_CMD_BIND_IP: return RDMA_USER_CM_CMD_BIND;
		case RDMA_USER_CM_CMD_RESOLVE_IP: return RDMA_USER_CM_CMD_RESOLVE_ADDR;
		case RDMA_USER_CM_CMD_JOIN_IP_MCAST: return RDMA_USER_CM_CMD_JOIN_MCAST;
		default: return command;
	}
}

}  // namespace

const char* function_of(std::uint32_t command) {
	const auto* const found = std::ranges::find(names, command, &Name::command);
	return found != std::end(names) ? found->function : "an unknown command of rdma_cm";
}

const char* reason_of(std::uint32_t command, int error) {
	for (const Reason& reason : reasons)
		if (reason.command == current(command) && reason.error == error) return reason.text;
	switch (error) {
		case ENOENT: return "there is no such id; it may have been destroyed";
		case ENOSYS: return "the command is not supported";
		case EINVAL: return "an argument or the state of the id is wrong";
		case EMFILE: return "the process has no descriptor left";
		case ENFILE: return "the host has no descriptor left";
		case ENOMEM: return "no memory; the process or its container has reached its limit";
		default: return std::strerror(error);
	}
}

}  // namespace verbena::ucma
