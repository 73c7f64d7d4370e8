// SPDX-License-Identifier: Apache-2.0
// The part of rdma_cm that the Linux kernel has on other hosts, as a class of this process
// (docs/decisions/0013). librdmacm writes the commands of <rdma/rdma_user_cm.h> to a descriptor,
// which it takes for /dev/infiniband/rdma_cm; interpose.cc redirects librdmacm's system calls on
// this descriptor to the class. Events, states and errno values are those of the Linux kernel.
//
// A neighbour is an IP neighbour in this folder: a host that answers ARP or neighbour discovery.
// In nic/engine, a neighbour is another process of this host.
//
// Threads: any. Ids, events and ports are used under the engine's lock, the table of channels under
//   a mutex. Steps that may block, such as finding the process behind a port, hold neither.
// Owns: channels, ids, memberships, a thread that runs while an id waits for its neighbour, and one
//   that looks for the processes of services and starts with the first refused connect.
// Errors: a command's errno value is the error of its Result. A program's mistake is EINVAL, an
//   unknown id ENOENT, an unknown command or option ENOSYS, as in the Linux kernel.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "nic/engine/connector.h"
#include "nic/engine/engine.h"
#include "nic/engine/thread.h"
#include "nic/engine/waiting.h"
#include "nic/ucma/attributes.h"
#include "nic/ucma/id.h"

namespace verbena::ucma {

// The functions of nic/verbs that this folder needs. None may be called under the engine's lock.
struct Host {
	std::expected<engine::Engine*, int> (*engine)();  // starts the engine at the first call
	std::vector<Device> (*devices)();  // the present ones; may make system calls
	bool (*is_local)(const wire::Gid&);  // true for an address of this host; may make system calls
	ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*);  // replaces ibv_create_ah for librdmacm
	// Detaches the queue pair from its multicast groups. Precedes each destroy_qp() of librdmacm.
	void (*leave_groups)(ibv_qp*);
	int (*destroy_qp)(ibv_qp*);  // ibv_destroy_qp
	void (*id_ends)(std::uint32_t qpn);  // the program destroys the id that was connected with it
	ReadLimits reads;
};

class Kernel {
public:
	explicit Kernel(const Host& host) : host_(host) {}

	// Opens an event channel and returns its descriptor. Errors are errno values.
	std::expected<int, int> open_channel();
	bool is_channel(int fd);
	const Host& host() const { return host_; }
	// Executes one command of `bytes` bytes. Returns the number of bytes, or -1 and sets errno, as
	// write() does; nullopt if the descriptor is no channel. The command GET_EVENT needs a `call`,
	// and blocks until there is an event, unless the descriptor is non-blocking.
	std::optional<ssize_t> command(int fd, const void* command, std::size_t bytes, engine::BlockingCall* call);
	// Closes the descriptor and ends its ids. False if it is no channel.
	bool close_channel(int fd);

	// Handles an event of the connection manager, mostly by queueing an rdma_cm event. Called under
	// the engine's lock.
	void deliver(cm::ConnectionManager&, Nanoseconds now, const cm::Event&);

	// To call when the process ends. Disconnects every connection, so that peers on other hosts are
	// notified; peers on this host see that the links of the process end.
	void disconnect_all();

	// In the child of a fork: drops the channels and ids, which belong to the parent.
	void abandon_after_fork();

private:
	using Result = std::expected<void, int>;
	// Writes a command's response to `address`, where librdmacm expects it, but at most `room`
	// bytes: an older librdmacm knows fewer fields of the struct.
	template <class Response> static Result respond(std::uint64_t address, std::size_t room, const Response& response) {
		if (!address || room == 0) return std::unexpected(EINVAL);
		std::memcpy(reinterpret_cast<void*>(address), &response, std::min(room, sizeof response));
		return {};
	}

	// Executes the command of the header; `in` is the command's struct.
	Result run(Channel&, const rdma_ucm_cmd_hdr&, const void* in);
	// One function for each command. `room` is the size of librdmacm's response struct.
	Result create_id(Channel&, const rdma_ucm_create_id&, std::size_t room);
	Result destroy_id(Channel&, const rdma_ucm_destroy_id&, std::size_t room);
	Result bind(Channel&, std::uint32_t id, const void* address, std::size_t bytes);
	Result resolve_address(
		Channel&, std::uint32_t id, const Address& source, const Address& destination, std::uint32_t timeout_ms);
	Result resolve_route(Channel&, const rdma_ucm_resolve_route&);
	Result query_route(Channel&, const rdma_ucm_query&, std::size_t room);
	Result query(Channel&, const rdma_ucm_query&, std::size_t room);
	Result connect(Channel&, const rdma_ucm_connect&);
	Result listen(Channel&, const rdma_ucm_listen&);
	Result accept(Channel&, const rdma_ucm_accept&);
	Result reject(Channel&, const rdma_ucm_reject&);
	Result disconnect(Channel&, const rdma_ucm_disconnect&);
	Result init_qp_attr(Channel&, const rdma_ucm_init_qp_attr&, std::size_t room);
	Result get_event(Channel&, const rdma_ucm_get_event&, std::size_t room, engine::BlockingCall&);
	Result set_option(Channel&, const rdma_ucm_set_option&);
	Result notify(Channel&, const rdma_ucm_notify&);
	Result join(
		Channel&, std::uint32_t id, std::uint64_t uid, std::uint64_t response, const Address& group, std::size_t room);
	Result leave(Channel&, const rdma_ucm_destroy_id&, std::size_t room);
	Result migrate(Channel&, const rdma_ucm_migrate_id&, std::size_t room);  // to this channel

	// Runs act(connection manager, now) under the engine's lock. The caller does not hold it.
	template <class Act> auto locked(Act&& act) {
		return engine_->control(
			[&](adapter::ChannelAdapter& adapter) { return act(adapter.connections(), adapter.context().now); });
	}
	std::shared_ptr<Channel> find_channel(int fd);

	// The functions from here on are called under the engine's lock, unless a line says otherwise.

	std::expected<std::shared_ptr<Id>, int> find(Channel&, std::uint32_t number);
	std::shared_ptr<Id> make_id(Channel&, std::uint64_t uid, std::uint16_t port_space, std::uint8_t qp_type);
	// Queue an rdma_cm event for the id's channel. `filled` has the event's other fields; `child`
	// is the new id of a connect request.
	void report(const std::shared_ptr<Id>&, EventType event, int status = 0);
	void report(const std::shared_ptr<Id>&, EventType event, int status, const rdma_ucm_event_resp& filled,
		std::shared_ptr<Id> child = {});
	void end(cm::ConnectionManager&, Nanoseconds now, Id&);  // removes the id from every table
	void deliver_request(cm::ConnectionManager&, Nanoseconds now, const cm::Event&);
	// Looks for the process that has the id's service, without waiting for the outcome.
	void look_for_service(cm::ConnectionManager&, Nanoseconds now, const std::shared_ptr<Id>&);
	// The outcome of a lookup: sends the requests that wait for this service, or refuses them.
	void resume_requests(
		cm::ConnectionManager&, Nanoseconds now, engine::Place service, std::expected<transport::Outlet*, int> outlet);
	// Reports that the request of `id` cannot be sent, for an errno value of service_outlet().
	void report_no_outlet(const std::shared_ptr<Id>&, int error);
	void explain_rejection(const Id&, std::uint16_t reason);  // prints a line
	bool explain_absence(const Id&);  // by an ICMP message; false: there was none
	static void release_backlog_place(Id&);  // frees the request's place in its listener's backlog

	// Takes a port (0: any free one) for an id in the state `binding`. The next state is `bound`
	// or, after an error, `idle`. EINVAL: the id was destroyed meanwhile. Not under the lock.
	std::expected<void, int> take_port(Id&, std::uint16_t port, const std::optional<Place>&);
	std::expected<void, int> find_port(Id&, std::uint16_t port, const std::optional<Place>&);
	std::expected<void, int> fail_binding(Id&, int error);  // returns the error; not under the lock
	int port_conflict(const Id&, cm::ServiceId, bool to_listen) const;  // 0: none; else errno
	Result start_neighbour_lookup(std::shared_ptr<Id>, Nanoseconds deadline);
	void seek();  // the body of `lookup_thread_`; not under the lock
	bool seek_once();  // false: no id waits for its neighbour any more

	Host host_;
	engine::Engine* engine_ = nullptr;  // null before the first channel, and in a fork's child
	std::mutex channels_mutex_;
	std::unordered_map<int, std::shared_ptr<Channel>> channels_;  // by descriptor

	// All members from here on are used under the engine's lock.

	std::unordered_map<std::uint32_t, std::shared_ptr<Id>> ids_;
	std::unordered_map<std::uint32_t, std::shared_ptr<Membership>> memberships_;
	std::uint32_t next_number_ = 0;  // ids and memberships share one sequence
	std::multimap<cm::ServiceId, Id*> ports_;  // the ids that own each port of this process

	// An id whose neighbour has not answered yet. If there is no answer by `deadline`, the id gets
	// an ADDR_ERROR event.
	struct NeighbourLookup {
		std::shared_ptr<Id> id;
		Nanoseconds deadline;
	};
	std::vector<NeighbourLookup> pending_lookups_;
	bool lookup_running_ = false;  // `lookup_thread_` runs and will read `pending_lookups_` again
	engine::Thread lookup_thread_;
	std::unique_ptr<engine::Connector> service_lookups_;  // set with `engine_`
};

}  // namespace verbena::ucma
