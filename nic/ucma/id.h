// An rdma_cm id and its event channel, as the kernel keeps them. All of it is used under the engine's lock.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/time.h"
#include "nic/cm/connection_manager.h"
#include "nic/engine/descriptor.h"
#include "nic/ucma/address.h"

namespace verbena::ucma {

struct Channel;

// `enum rdma_cm_event_type`, whose header cannot be had together with the kernel's.
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
	enum class State : std::uint8_t {
		idle,
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
	std::uint64_t uid = 0;  // the program's name for it
	Channel* channel = nullptr;
	std::uint16_t port_space = 0;
	std::uint8_t qp_type = 0;
	State state = State::idle;
	Address source, destination;
	std::optional<Place> place;
	bool owns_port = false;
	bool reuse_address = false;
	std::uint8_t traffic_class = 0;
	std::uint8_t ack_timeout = 17;
	std::uint32_t backlog_left = 0;   // of a listener: requests that may still come before one is accepted
	std::weak_ptr<Id> listener;  // of a request that was not accepted yet
	cm::CommId connection;
	bool connected_once = false;
	std::uint32_t starting_psn = 0;
	std::uint32_t q_key = 0;
	std::uint32_t events_reported = 0;

	bool is_datagram() const { return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB; }
	cm::ServiceId service() const { return cm::service_of(port_space, source.port()); }
	cm::ServiceId remote_service() const { return cm::service_of(port_space, destination.port()); }
};

// An id's part in a multicast group.
struct Membership {
	std::uint32_t number = 0;
	std::uint64_t uid = 0;
	std::uint32_t id = 0;
	std::uint32_t events_reported = 0;
};

struct QueuedEvent {
	rdma_ucm_event_resp content{};
	std::shared_ptr<Id> id;
	std::shared_ptr<Id> child;  // of a connect request
	std::shared_ptr<Membership> membership;  // of a multicast event
};

// What librdmacm takes for /dev/infiniband/rdma_cm: one end of a pipe, readable while an event waits.
struct Channel {
	engine::Descriptor reader, writer;
	engine::Descriptor
		watched;  // the reader again: a thread that waits here does so also when the program has closed its own
	std::uint64_t inode = 0;
	std::deque<QueuedEvent> events;

	// EMFILE and other errno values.
	static std::expected<std::shared_ptr<Channel>, int> open();
	void push(QueuedEvent);
	QueuedEvent pop();
	// The events of an id leave its channel. True for those that were taken.
	template <class Predicate> std::deque<QueuedEvent> take_if(Predicate&& predicate) {
		std::deque<QueuedEvent> taken, rest;
		for (QueuedEvent& event : events) (predicate(event) ? taken : rest).push_back(std::move(event));
		events = std::move(rest);
		if (events.empty() && !taken.empty()) clear_signal();
		return taken;
	}

private:
	void clear_signal();
};

}  // namespace verbena::ucma
