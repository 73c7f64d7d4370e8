// The kernel's half of rdma_cm, in process: librdmacm speaks to it through a descriptor by the commands of
// <rdma/rdma_user_cm.h>, as it would to /dev/infiniband/rdma_cm (interpose.cc sees to that). What the commands do is
// the kernel's: the same events, the same errno values.
//
// Ids and channels are used under the engine's lock. What may block (finding the process behind a port) is done without
// it.
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
#include <thread>
#include <unordered_map>
#include <vector>

#include "nic/engine/engine.h"
#include "nic/ucma/id.h"

namespace verbena::ucma {

// What the rest of the NIC is to this half.
struct Host {
	std::expected<engine::Engine*, int> (*engine)();
	std::vector<Device> (*devices)();
	bool (*is_local)(const wire::Gid&);
	ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*);  // what librdmacm's own calls of ibv_create_ah do
};

class Kernel {
public:
	explicit Kernel(const Host& host) : host_(host) {}

	// A new channel's descriptor. Errors are errno values.
	std::expected<int, int> open_channel();
	bool is_channel(int fd);
	const Host& host() const { return host_; }
	// One command of `bytes` bytes. The bytes taken, or -1 and errno, as write() would. Empty: the descriptor is no
	// channel's.
	std::optional<ssize_t> command(int fd, const void* command, std::size_t bytes);
	// Closes the descriptor and ends its ids. False: it is no channel's.
	bool close_channel(int fd);

	// What the connection manager reports, under the engine's lock.
	void deliver(cm::ConnectionManager&, Nanoseconds now, const cm::Event&);

	// The process ends: peers on other hosts are told. (Those on this one see its links end.)
	void say_goodbye();

	// In the child of a fork: the channels and ids are the parent's.
	void abandon_after_fork();

private:
	using Result = std::expected<void, int>;
	// The response's struct, or as much of it as the program knows.
	template <class Response> static Result respond(std::uint64_t address, std::size_t room, const Response& response) {
		if (!address || room == 0) return std::unexpected(EINVAL);
		std::memcpy(reinterpret_cast<void*>(address), &response, std::min(room, sizeof response));
		return {};
	}

	Result run(Channel&, const rdma_ucm_cmd_hdr&, const void* in);
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
	Result get_event(Channel&, const rdma_ucm_get_event&, std::size_t room);
	Result set_option(Channel&, const rdma_ucm_set_option&);
	Result notify(Channel&, const rdma_ucm_notify&);
	Result join(
		Channel&, std::uint32_t id, std::uint64_t uid, std::uint64_t response, const Address& group, std::size_t room);
	Result leave(Channel&, const rdma_ucm_destroy_id&, std::size_t room);
	Result migrate(Channel&, const rdma_ucm_migrate_id&, std::size_t room);

	template <class Act> auto locked(Act&& act) {
		return engine_->control(
			[&](adapter::ChannelAdapter& adapter) { return act(adapter.connections(), adapter.context().now); });
	}
	std::shared_ptr<Channel> find_channel(int fd);  // of this very file
	// Under the engine's lock.
	std::expected<std::shared_ptr<Id>, int> find(Channel&, std::uint32_t number);
	std::shared_ptr<Id> make_id(Channel&, std::uint64_t uid, std::uint16_t port_space, std::uint8_t qp_type);
	void report(const std::shared_ptr<Id>&, EventType event, int status = 0);
	void report(const std::shared_ptr<Id>&, EventType event, int status, const rdma_ucm_event_resp& filled,
		std::shared_ptr<Id> child = {});
	void end(cm::ConnectionManager&, Nanoseconds now, Id&);
	void deliver_request(cm::ConnectionManager&, Nanoseconds now, const cm::Event&);
	static void count_accepted(Id&);

	std::expected<void, int> take_port(Id&, std::uint16_t port);
	int port_conflict(const Id&, cm::ServiceId, bool to_listen) const;
	void seek_neighbour(std::shared_ptr<Id>, Nanoseconds deadline);
	void seek();

	Host host_;
	engine::Engine* engine_ = nullptr;  // from the first channel on
	std::mutex channels_mutex_;
	std::unordered_map<int, std::shared_ptr<Channel>> channels_;
	std::unordered_map<std::uint32_t, std::shared_ptr<Id>> ids_;
	std::unordered_map<std::uint32_t, std::shared_ptr<Membership>> memberships_;
	std::uint32_t next_number_ = 0;
	std::multimap<cm::ServiceId, Id*> ports_;

	struct Sought {
		std::shared_ptr<Id> id;
		Nanoseconds deadline;
	};
	std::vector<Sought> sought_;  // under the engine's lock, like what follows
	bool seeking_ = false;
	std::thread seeker_;
};

}  // namespace verbena::ucma
