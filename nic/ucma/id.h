// SPDX-License-Identifier: Apache-2.0
// An rdma_cm id and its event channel, with the state that the kernel's rdma_cm keeps for each.
//
// Threads: used under the engine's lock, except for Channel's descriptors.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <expected>
#include <list>
#include <memory>
#include <optional>

#include "base/descriptor.h"
#include "base/time.h"
#include "nic/cm/connection_manager.h"
#include "nic/engine/waiting.h"
#include "nic/ucma/address.h"

namespace verbena::ucma {

struct Channel;
struct QueuedEvent;

// `enum rdma_cm_event_type` of <rdma/rdma_cma.h>, which conflicts with <rdma/rdma_user_cm.h>.
enum class EventType : std::uint32_t {
	address_resolved,
	address_error,
	route_resolved,
	route_error,
	connect_request,
	connect_response,
	connect_error,
	unreachable,
	rejected,
	established,
	disconnected,
	device_removal,
	multicast_join,
	multicast_error,
	address_change,
	timewait_exit,
};

struct Id {
	// The order matters: an id with a destination has a route in the states from route_resolved on,
	// except listening (has_route() in kernel_addresses.cc).
	enum class State : std::uint8_t {
		idle,
		binding,  // a thread takes a port for the id; it alone uses `source`, without the lock
		bound,
		resolving,
		address_resolved,
		route_resolved,
		listening,
		connecting,
		connected,
		disconnected,
		destroyed
	};

	std::uint32_t number = 0;
	std::uint64_t uid = 0;  // librdmacm's own identifier, returned with each event
	Channel* channel = nullptr;  // outlives the id
	std::uint16_t port_space = 0;
	std::uint8_t qp_type = 0;
	State state = State::idle;
	Address source, destination;
	// The device and GID of `source`. A wildcard address has none until the id has a destination.
	std::optional<Place> place;
	bool owns_port = false;  // the id is in Kernel::ports_
	bool reuse_address = false;  // RDMA_OPTION_ID_REUSEADDR
	std::uint8_t traffic_class = 0;
	std::uint8_t ack_timeout = 17;  // 4.096 us * 2^n
	// A listener: the number of further requests that may wait for accept.
	std::uint32_t backlog_left = 0;
	std::weak_ptr<Id> listener;  // set while this id is a request that waits for accept
	cm::CommId connection;
	bool connected_once = false;  // connect or accept was called
	bool is_active = false;  // rdma_connect was called
	bool peer_is_local = false;  // an active id: the destination is an address of this host
	std::uint32_t own_qpn = 0;  // the queue pair that connect or accept was called with; 0: none
	std::uint32_t starting_psn = 0;
	std::uint32_t q_key = 0;
	std::uint32_t events_reported = 0;  // events that librdmacm has fetched; destroy returns it
	// Memory for events that come when there is no other.
	static constexpr std::size_t spare_events_max = 2;
	std::list<QueuedEvent> spare_events;

	// The id is bound to every device. As in the kernel, a loopback address means that too. Not for
	// datagrams: the kernel makes no exception, and datagram rsockets crash on such an id.
	bool is_wildcard() const { return source.is_any() || (source.is_loopback() && !is_datagram()); }
	wire::Gid listening_gid() const { return (is_wildcard() ? source.any_of_family() : source).gid(); }

	bool is_datagram() const { return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB; }
	cm::ServiceId service() const { return cm::service_of(port_space, source.port()); }
	// Packets to the loopback go to the address of the device that the id got for it, as in the
	// kernel (cma_resolve_loopback), because both ends of a path are of one family.
	wire::Gid destination_gid() const { return destination.is_loopback() && place ? place->gid : destination.gid(); }
	cm::ServiceId remote_service() const { return cm::service_of(port_space, destination.port()); }
};

// The membership of an id in a multicast group. librdmacm passes `number` to leave the group, in
// the place where other commands have the number of an id.
struct Membership {
	std::uint32_t number = 0;
	std::uint64_t uid = 0;
	std::uint32_t id = 0;  // the number of the id that joined
	std::uint32_t events_reported = 0;  // events that librdmacm has fetched; leave returns it
};

struct QueuedEvent {
	rdma_ucm_event_resp content{};
	std::shared_ptr<Id> id;
	std::shared_ptr<Id> child;  // a connect request's new id
	std::shared_ptr<Membership> membership;  // set for a multicast event
};

// An event channel: its queue of events, and a pipe whose read end librdmacm gets when it opens
// /dev/infiniband/rdma_cm.
//
// Owns: both ends of the pipe.
// Invariants: the pipe holds one byte while there are events and is empty otherwise, so `reader` is
//   readable exactly while an event waits.
struct Channel {
	Descriptor reader, writer;  // `reader` is the program's descriptor
	// A duplicate of `reader`, on which a thread in GET_EVENT waits. The duplicate stays open if
	// the program closes `reader` meanwhile.
	Descriptor watched;
	std::optional<engine::WaitSet> waiting;  // for `watched`
	std::uint64_t inode = 0;  // identifies the pipe
	std::list<QueuedEvent> events;

	// Errors are errno values, for example EMFILE.
	static std::expected<std::shared_ptr<Channel>, int> open();
	// Uses a node of `spare` if there is no memory. Throws std::bad_alloc, and changes nothing, if
	// there is no such node either.
	void push(QueuedEvent, std::list<QueuedEvent>& spare);
	void push(std::list<QueuedEvent>&& queued);
	QueuedEvent pop();  // `events` must not be empty
	// Removes the events for which predicate(event) is true, and returns them in order.
	template <class Predicate> std::list<QueuedEvent> take_if(Predicate&& predicate) {
		std::list<QueuedEvent> taken;
		for (auto at = events.begin(); at != events.end();) {
			const auto event = at++;
			if (predicate(*event)) taken.splice(taken.end(), events, event);
		}
		if (events.empty() && !taken.empty()) clear_signal();
		return taken;
	}

private:
	void clear_signal();
};

}  // namespace verbena::ucma
