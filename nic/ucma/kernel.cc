// SPDX-License-Identifier: Apache-2.0
// Kernel: channels and events, and the dispatch of all commands.
#include "nic/ucma/kernel.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "nic/engine/boundary.h"
#include "nic/ucma/reasons.h"

namespace verbena::ucma {

using Unexpected = std::unexpected<int>;

namespace {

// AF_IB. When librdmacm starts, it asks by a bind whether the kernel knows such addresses. That is
// no mistake of the program, so its refusal is not printed.
constexpr int ib_address_family = 27;

template <class Command> const Command& as(const void* in) { return *static_cast<const Command*>(in); }

}  // namespace

// Channels

std::expected<int, int> Kernel::open_channel() {
	auto engine = host_.engine();
	if (!engine) return Unexpected(engine.error());
	{
		const std::lock_guard lock(channels_mutex_);
		if (!engine_)
			service_lookups_ = std::make_unique<engine::Connector>(**engine,
				[this](adapter::ChannelAdapter& adapter, engine::Place service,
					std::expected<transport::Outlet*, int> outlet) {
					resume_requests(adapter.connections(), adapter.context().now, service, outlet);
				});
		engine_ = *engine;
	}
	if (auto ready = engine_->prepare_connections(); !ready) return Unexpected(ready.error());
	auto channel = Channel::open();
	if (!channel) return Unexpected(channel.error());
	const int fd = (*channel)->reader.get();
	const std::lock_guard lock(channels_mutex_);
	channels_[fd] = std::move(*channel);
	return fd;
}

// The inode is compared because the program may have closed the descriptor and opened another file
// under the same number.
std::shared_ptr<Channel> Kernel::find_channel(int fd) {
	const std::lock_guard lock(channels_mutex_);
	const auto at = channels_.find(fd);
	struct stat status;
	if (at == channels_.end() || fstat(fd, &status) != 0 || status.st_ino != at->second->inode) return nullptr;
	return at->second;
}

bool Kernel::is_channel(int fd) { return find_channel(fd) != nullptr; }

bool Kernel::close_channel(int fd) {
	const std::shared_ptr<Channel> channel = find_channel(fd);
	if (!channel) return false;
	std::vector<cm::ServiceId> released;
	locked([&](cm::ConnectionManager& connections, Nanoseconds now) {
		std::vector<std::shared_ptr<Id>> theirs;  // end() erases from `ids_`
		for (const auto& [number, id] : ids_)
			if (id->channel == channel.get()) theirs.push_back(id);
		for (const auto& id : theirs) {
			if (id->owns_port) released.push_back(id->service());
			end(connections, now, *id);
		}
		std::erase_if(released, [&](cm::ServiceId service) { return ports_.contains(service); });
		return 0;
	});
	for (const cm::ServiceId service : released) engine_->release_service(service);
	const std::lock_guard lock(channels_mutex_);
	channels_.erase(fd);
	channel->reader = {};
	return true;
}

void Kernel::disconnect_all() {
	if (!engine_) return;
	locked([&](cm::ConnectionManager& connections, Nanoseconds now) {
		for (const auto& [number, id] : ids_)
			if (id->connection.value) connections.destroy(now, id->connection);
		return 0;
	});
}

void Kernel::abandon_after_fork() {
	new (&channels_mutex_) std::mutex;
	channels_.clear();
	ids_.clear();
	memberships_.clear();
	ports_.clear();
	pending_lookups_.clear();
	lookup_thread_.forget();
	// Leaked, because the destructor would wait for the parent's thread.
	if (service_lookups_) service_lookups_.release()->abandon_after_fork();
	engine_ = nullptr;
}

// Commands

std::optional<ssize_t> Kernel::command(int fd, const void* command, std::size_t bytes, engine::BlockingCall* call) {
	const std::shared_ptr<Channel> channel = find_channel(fd);  // keeps it alive during the command
	if (!channel) return std::nullopt;
	rdma_ucm_cmd_hdr header{};
	Result result = Unexpected(EINVAL);
	bool asks_for_ib = false;
	if (bytes >= sizeof header) {
		std::memcpy(&header, command, sizeof header);
		// A librdmacm of another version may pass a longer or shorter struct; missing fields are
		// zero.
		alignas(8) std::byte in[512] = {};
		if (header.in <= bytes - sizeof header && header.in <= sizeof in) {
			std::memcpy(in, static_cast<const std::byte*>(command) + sizeof header, header.in);
			asks_for_ib =
				header.cmd == RDMA_USER_CM_CMD_BIND && as<rdma_ucm_bind>(in).addr.ss_family == ib_address_family;
			const auto failed = [](int error) { return Result(Unexpected(error)); };
			result = engine::bounded(
				{},  // the reason is printed below
				[&] {
					return call && header.cmd == RDMA_USER_CM_CMD_GET_EVENT
						? get_event(*channel, as<rdma_ucm_get_event>(in), header.out, *call)
						: run(*channel, header, in);
				},
				failed);
		}
	}
	if (result) return static_cast<ssize_t>(bytes);
	// EAGAIN and EINTR end a wait for an event; they refuse nothing.
	if (result.error() != EAGAIN && result.error() != EINTR && !asks_for_ib)
		log::refuse(result.error(), "%s: %s", function_of(header.cmd), reason_of(header.cmd, result.error()));
	errno = result.error();
	return -1;
}

Kernel::Result Kernel::run(Channel& channel, const rdma_ucm_cmd_hdr& header, const void* in) {
	switch (header.cmd) {
		case RDMA_USER_CM_CMD_CREATE_ID: return create_id(channel, as<rdma_ucm_create_id>(in), header.out);
		case RDMA_USER_CM_CMD_DESTROY_ID: return destroy_id(channel, as<rdma_ucm_destroy_id>(in), header.out);
		case RDMA_USER_CM_CMD_BIND_IP: {
			const auto& c = as<rdma_ucm_bind_ip>(in);
			return bind(channel, c.id, &c.addr, sizeof c.addr);
		}
		case RDMA_USER_CM_CMD_BIND: {
			const auto& c = as<rdma_ucm_bind>(in);
			return bind(channel, c.id, &c.addr, std::min<std::size_t>(c.addr_size, sizeof c.addr));
		}
		case RDMA_USER_CM_CMD_RESOLVE_IP: {
			const auto& c = as<rdma_ucm_resolve_ip>(in);
			const auto source = Address::from(&c.src_addr, sizeof c.src_addr),
					   destination = Address::from(&c.dst_addr, sizeof c.dst_addr);
			if (!destination) return Unexpected(EINVAL);
			return resolve_address(channel, c.id, source.value_or(Address()), *destination, c.timeout_ms);
		}
		case RDMA_USER_CM_CMD_RESOLVE_ADDR: {
			const auto& c = as<rdma_ucm_resolve_addr>(in);
			const auto source = Address::from(&c.src_addr, std::min<std::size_t>(c.src_size, sizeof c.src_addr));
			const auto destination = Address::from(&c.dst_addr, std::min<std::size_t>(c.dst_size, sizeof c.dst_addr));
			if (!destination || (c.src_size && !source)) return Unexpected(EINVAL);
			return resolve_address(channel, c.id, source.value_or(Address()), *destination, c.timeout_ms);
		}
		case RDMA_USER_CM_CMD_RESOLVE_ROUTE: return resolve_route(channel, as<rdma_ucm_resolve_route>(in));
		case RDMA_USER_CM_CMD_QUERY_ROUTE: return query_route(channel, as<rdma_ucm_query>(in), header.out);
		case RDMA_USER_CM_CMD_QUERY: return query(channel, as<rdma_ucm_query>(in), header.out);
		case RDMA_USER_CM_CMD_CONNECT: return connect(channel, as<rdma_ucm_connect>(in));
		case RDMA_USER_CM_CMD_LISTEN: return listen(channel, as<rdma_ucm_listen>(in));
		case RDMA_USER_CM_CMD_ACCEPT: return accept(channel, as<rdma_ucm_accept>(in));
		case RDMA_USER_CM_CMD_REJECT: return reject(channel, as<rdma_ucm_reject>(in));
		case RDMA_USER_CM_CMD_DISCONNECT: return disconnect(channel, as<rdma_ucm_disconnect>(in));
		case RDMA_USER_CM_CMD_INIT_QP_ATTR: return init_qp_attr(channel, as<rdma_ucm_init_qp_attr>(in), header.out);
		case RDMA_USER_CM_CMD_SET_OPTION: return set_option(channel, as<rdma_ucm_set_option>(in));
		case RDMA_USER_CM_CMD_NOTIFY: return notify(channel, as<rdma_ucm_notify>(in));
		case RDMA_USER_CM_CMD_JOIN_IP_MCAST: {
			const auto& c = as<rdma_ucm_join_ip_mcast>(in);
			const auto group = Address::from(&c.addr, sizeof c.addr);
			return group ? join(channel, c.id, c.uid, c.response, *group, header.out) : Unexpected(EINVAL);
		}
		case RDMA_USER_CM_CMD_JOIN_MCAST: {
			const auto& c = as<rdma_ucm_join_mcast>(in);
			const auto group = Address::from(&c.addr, std::min<std::size_t>(c.addr_size, sizeof c.addr));
			const bool known =
				c.join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER || c.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
			return group && known ? join(channel, c.id, c.uid, c.response, *group, header.out) : Unexpected(EINVAL);
		}
		case RDMA_USER_CM_CMD_LEAVE_MCAST: return leave(channel, as<rdma_ucm_destroy_id>(in), header.out);
		case RDMA_USER_CM_CMD_MIGRATE_ID: return migrate(channel, as<rdma_ucm_migrate_id>(in), header.out);
		default: return Unexpected(ENOSYS);
	}
}

// Events

void Kernel::report(const std::shared_ptr<Id>& id, EventType event, int status) { report(id, event, status, {}); }

void Kernel::report(const std::shared_ptr<Id>& id, EventType event, int status, const rdma_ucm_event_resp& filled,
	std::shared_ptr<Id> child) {
	QueuedEvent queued{filled, id, std::move(child), {}};
	queued.content.event = static_cast<std::uint32_t>(event);
	queued.content.status = static_cast<std::uint32_t>(status);
	id->channel->push(std::move(queued), id->spare_events);
}

Kernel::Result Kernel::get_event(
	Channel& channel, const rdma_ucm_get_event& c, std::size_t room, engine::BlockingCall& call) {
	for (;;) {
		std::optional<QueuedEvent> event;
		locked([&](cm::ConnectionManager&, Nanoseconds) {
			if (channel.events.empty()) return 0;
			event = channel.pop();
			if (event->membership) {
				++event->membership->events_reported;
				event->content.uid = event->membership->uid;
				event->content.id = event->membership->number;
				return 0;
			}
			++event->id->events_reported;
			event->content.uid = event->id->uid;
			event->content.id = event->child ? event->child->number : event->id->number;
			return 0;
		});
		if (event) {
			// Not under the lock, because devices() may ask the kernel for its interfaces.
			if (event->child) event->child->place = place_of(host_.devices(), event->child->source);
			return respond(c.response, room, event->content);
		}
		if (fcntl(channel.watched.get(), F_GETFL) & O_NONBLOCK) return Unexpected(EAGAIN);
		if (engine_->drive_until_readable(*channel.waiting, call) != engine::Engine::Wait::ready)
			return Unexpected(errno);
	}
}

Kernel::Result Kernel::migrate(Channel& to, const rdma_ucm_migrate_id& c, std::size_t room) {
	const std::shared_ptr<Channel> from = find_channel(static_cast<int>(c.fd));
	if (!from) return Unexpected(EINVAL);
	std::uint32_t reported = 0;
	const Result found = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto id = find(*from, c.id);
		if (!id) return Unexpected(id.error());
		if (from.get() != &to) {
			auto moved = from->take_if([&](const QueuedEvent& queued) { return queued.id == *id; });
			for (QueuedEvent& event : moved)
				if (event.child) event.child->channel = &to;
			to.push(std::move(moved));
			(*id)->channel = &to;
		}
		reported = (*id)->events_reported;
		return {};
	});
	return found ? respond(c.response, room, rdma_ucm_migrate_resp{reported}) : found;
}

}  // namespace verbena::ucma
