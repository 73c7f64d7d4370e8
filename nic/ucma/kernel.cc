#include "nic/ucma/kernel.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <endian.h>
#include <utility>

#include "base/random.h"
#include "nic/ucma/attributes.h"

namespace verbena::ucma {

namespace {

using State = Id::State;
using Unexpected = std::unexpected<int>;

constexpr std::uint32_t backlog_max = 1024;
// As the kernel's net.ipv4.ip_local_port_range is unless somebody has changed it.
constexpr std::uint16_t ephemeral_first = 32768, ephemeral_last = 60999;
constexpr Nanoseconds neighbour_look_interval = 20'000'000;

// The addresses of two ids that want one port leave no room for both.
bool overlap(const Address& a, const Address& b) { return a.is_any() || b.is_any() || a.gid() == b.gid(); }

// What a listener on any address of a family is listed under.
wire::Gid listening_gid(const Address& address) { return address.gid(); }

template <class Command> const Command& as(const void* in) { return *static_cast<const Command*>(in); }

wire::AddressPair pair_of(const Id& id) {
	wire::AddressPair pair{};
	std::memcpy(pair.source, id.place->gid.data(), 16);
	const wire::Gid to = id.destination.gid();
	std::memcpy(pair.destination, to.data(), 16);
	pair.traffic_class = id.traffic_class;
	pair.hop_limit = 64;
	// As the kernel's rdma_cm chooses it, so that a flow keeps its way.
	pair.flow_label = (std::uint32_t{id.source.port()} * 31 + id.destination.port()) & 0xfffff;
	return pair;
}

std::uint8_t mtu_code(std::uint32_t interface_mtu) {
	std::uint8_t code = 1;
	while (128u << code < engine::active_mtu(interface_mtu)) ++code;
	return code;
}

}  // namespace

// Channels

std::expected<int, int> Kernel::open_channel() {
	auto engine = host_.engine();
	if (!engine) return Unexpected(engine.error());
	engine_ = *engine;
	if (auto ready = engine_->prepare_connections(); !ready) return Unexpected(ready.error());
	auto channel = Channel::open();
	if (!channel) return Unexpected(channel.error());
	const int fd = (*channel)->reader.get();
	const std::lock_guard lock(channels_mutex_);
	channels_[fd] = std::move(*channel);
	return fd;
}

// The number alone would not do: the program may have closed it, and opened something else.
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
		std::vector<std::shared_ptr<Id>> theirs;
		for (const auto& [number, id] : ids_)
			if (id->channel == channel.get()) theirs.push_back(id);
		for (const auto& id : theirs) {
			if (id->owns_port) released.push_back(id->service());
			end(connections, now, *id);
		}
		return 0;
	});
	for (const cm::ServiceId service : released)
		if (!ports_.contains(service)) engine_->release_service(service);
	const std::lock_guard lock(channels_mutex_);
	channels_.erase(fd);
	channel->reader = {};
	return true;
}

void Kernel::abandon_after_fork() {
	new (&channels_mutex_) std::mutex;
	channels_.clear();
	ids_.clear();
	memberships_.clear();
	ports_.clear();
	sought_.clear();
	if (seeker_.joinable()) seeker_.detach();
	engine_ = nullptr;
}

// Commands

ssize_t Kernel::command(int fd, const void* command, std::size_t bytes) {
	const std::shared_ptr<Channel> channel = find_channel(fd);  // for as long as the command runs
	rdma_ucm_cmd_hdr header;
	Result result = Unexpected(EINVAL);
	if (channel && bytes >= sizeof header) {
		std::memcpy(&header, command, sizeof header);
		// Programs of another version may give more or less than the struct of this one; what is missing is zero.
		alignas(8) std::byte in[512] = {};
		if (header.in <= bytes - sizeof header && header.in <= sizeof in) {
			std::memcpy(in, static_cast<const std::byte*>(command) + sizeof header, header.in);
			result = run(*channel, header, in);
		}
	}
	if (result) return static_cast<ssize_t>(bytes);
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
			const auto source = Address::from(&c.src_addr, sizeof c.src_addr), destination = Address::from(&c.dst_addr, sizeof c.dst_addr);
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
		case RDMA_USER_CM_CMD_GET_EVENT: return get_event(channel, as<rdma_ucm_get_event>(in), header.out);
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
			const bool known = c.join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER || c.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
			return group && known ? join(channel, c.id, c.uid, c.response, *group, header.out) : Unexpected(EINVAL);
		}
		case RDMA_USER_CM_CMD_LEAVE_MCAST: return leave(channel, as<rdma_ucm_destroy_id>(in), header.out);
		case RDMA_USER_CM_CMD_MIGRATE_ID: return migrate(channel, as<rdma_ucm_migrate_id>(in), header.out);
		default: return Unexpected(ENOSYS);
	}
}

// The response's struct, or as much of it as the program knows.
template <class Response> Kernel::Result Kernel::respond(std::uint64_t address, std::size_t room, const Response& response) {
	if (!address || room == 0) return Unexpected(EINVAL);
	std::memcpy(reinterpret_cast<void*>(address), &response, std::min(room, sizeof response));
	return {};
}

std::expected<std::shared_ptr<Id>, int> Kernel::find(Channel& channel, std::uint32_t number) {
	const auto at = ids_.find(number);
	if (at == ids_.end()) return Unexpected(ENOENT);
	if (at->second->channel != &channel) return Unexpected(EINVAL);
	return at->second;
}

std::shared_ptr<Id> Kernel::make_id(Channel& channel, std::uint64_t uid, std::uint16_t port_space, std::uint8_t qp_type) {
	auto id = std::make_shared<Id>();
	do id->number = next_number_++;
	while (ids_.contains(id->number));
	id->uid = uid;
	id->channel = &channel;
	id->port_space = port_space;
	id->qp_type = qp_type;
	id->starting_psn = secure_random<std::uint32_t>() & 0xffffff;
	ids_[id->number] = id;
	return id;
}

void Kernel::report(const std::shared_ptr<Id>& id, EventType event, int status) { report(id, event, status, {}); }

void Kernel::report(
	const std::shared_ptr<Id>& id, EventType event, int status, const rdma_ucm_event_resp& filled, std::shared_ptr<Id> child) {
	QueuedEvent queued{filled, id, std::move(child), {}};
	queued.content.event = static_cast<std::uint32_t>(event);
	queued.content.status = static_cast<std::uint32_t>(status);
	id->channel->push(std::move(queued));
}

Kernel::Result Kernel::create_id(Channel& channel, const rdma_ucm_create_id& c, std::size_t room) {
	std::uint8_t qp_type;
	switch (c.ps) {
		case RDMA_PS_TCP: qp_type = IBV_QPT_RC; break;
		case RDMA_PS_UDP:
		case RDMA_PS_IPOIB: qp_type = IBV_QPT_UD; break;
		case RDMA_PS_IB: qp_type = c.qp_type; break;
		default: return Unexpected(EINVAL);
	}
	const std::uint32_t number =
		locked([&](cm::ConnectionManager&, Nanoseconds) { return make_id(channel, c.uid, c.ps, qp_type)->number; });
	return respond(c.response, room, rdma_ucm_create_id_resp{number});
}

// Takes the id out of everything. The service that it owned is released by the caller, without the lock.
void Kernel::end(cm::ConnectionManager& connections, Nanoseconds now, Id& id) {
	const auto events = id.channel->take_if([&](const QueuedEvent& event) { return event.id.get() == &id; });
	for (const QueuedEvent& event : events)
		if (event.child) end(connections, now, *event.child);
	if (id.state == State::listening) connections.unlisten(id.service(), &id);
	if (id.connection.value) connections.destroy(now, id.connection);
	if (id.owns_port) {
		const auto [first, last] = ports_.equal_range(id.service());
		for (auto at = first; at != last; ++at)
			if (at->second == &id) {
				ports_.erase(at);
				break;
			}
		id.owns_port = false;
	}
	count_accepted(id);
	id.state = State::destroyed;
	std::erase_if(sought_, [&](const Sought& sought) { return sought.id.get() == &id; });
	std::erase_if(memberships_, [&](const auto& entry) { return entry.second->id == id.number; });
	ids_.erase(id.number);
}

Kernel::Result Kernel::destroy_id(Channel& channel, const rdma_ucm_destroy_id& c, std::size_t room) {
	std::optional<cm::ServiceId> released;
	std::uint32_t reported = 0;
	const Result found = locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if ((*id)->owns_port) released = (*id)->service();
		end(connections, now, **id);
		reported = (*id)->events_reported;
		if (released && ports_.contains(*released)) released.reset();
		return {};
	});
	if (!found) return found;
	if (released) engine_->release_service(*released);
	return respond(c.response, room, rdma_ucm_destroy_id_resp{reported});
}

// Addresses

bool Kernel::port_conflicts(const Id& id, cm::ServiceId service) const {
	const auto [first, last] = ports_.equal_range(service);
	return std::any_of(first, last, [&](const auto& entry) {
		const Id& other = *entry.second;
		return overlap(id.source, other.source) && !(id.reuse_address && other.reuse_address && other.state != State::listening);
	});
}

// A port is this process's as long as one of its ids has it; between them, addresses tell.
std::expected<void, int> Kernel::take_port(Id& id, std::uint16_t wanted) {
	Random random(secure_random<std::uint64_t>());
	for (int attempt = 0; attempt < (wanted ? 1 : 200); ++attempt) {
		const std::uint16_t port =
			wanted ? wanted : static_cast<std::uint16_t>(ephemeral_first + random.below(ephemeral_last - ephemeral_first + 1));
		const cm::ServiceId service = cm::service_of(id.port_space, port);
		enum {
			ours,
			taken,
			free
		} verdict = locked([&](cm::ConnectionManager&, Nanoseconds) {
			if (!ports_.contains(service)) return free;
			return !wanted || port_conflicts(id, service) ? taken : ours;
		});
		if (verdict == taken) continue;
		if (verdict == free) {
			const auto claimed = engine_->claim_service(service);
			if (!claimed && claimed.error() == EADDRINUSE) continue;
			if (!claimed) return claimed;
		}
		locked([&](cm::ConnectionManager&, Nanoseconds) {
			id.source.set_port(port);
			id.owns_port = true;
			ports_.insert({service, &id});
			return 0;
		});
		return {};
	}
	return Unexpected(wanted ? EADDRINUSE : EADDRNOTAVAIL);
}

Kernel::Result Kernel::bind(Channel& channel, std::uint32_t number, const void* bytes, std::size_t size) {
	const auto address = Address::from(bytes, size);
	if (!address) return Unexpected(EINVAL);
	auto id = locked([&](cm::ConnectionManager&, Nanoseconds) { return find(channel, number); });
	if (!id) return Unexpected(id.error());
	if ((*id)->state != State::idle) return Unexpected(EINVAL);
	std::optional<Place> place;
	if (!address->is_any()) {
		const auto devices = host_.devices();
		place = place_of(devices, *address);
		// As the real stack: an address that is nobody's here, and one without a device.
		if (!place) return Unexpected(source_for(*address, *address) ? ENODEV : EADDRNOTAVAIL);
	}
	(*id)->source = *address;
	if (auto taken = take_port(**id, address->port()); !taken) {
		(*id)->source = {};
		return taken;
	}
	return locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		(*id)->place = std::move(place);
		(*id)->state = State::bound;
		return {};
	});
}

Kernel::Result Kernel::resolve_address(
	Channel& channel, std::uint32_t number, const Address& given_source, const Address& given_destination, std::uint32_t timeout_ms) {
	const auto found = locked([&](cm::ConnectionManager&, Nanoseconds) { return find(channel, number); });
	if (!found) return Unexpected(found.error());
	const std::shared_ptr<Id>& id = *found;
	if (id->state != State::idle && id->state != State::bound) return Unexpected(EINVAL);
	Address destination = given_destination;
	if (destination.is_any()) {
		// To any address is to this host.
		wire::Gid loopback{};
		if (destination.family() == AF_INET) loopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
		else loopback[15] = 1;
		destination = Address::from(loopback, destination.port());
	}
	const Address& from = id->state == State::bound ? id->source : given_source;
	if (from.given() && from.family() != destination.family()) return Unexpected(EINVAL);
	const auto source = source_for(destination, from);
	if (!source) return Unexpected(source.error());
	const auto devices = host_.devices();
	auto place = place_of(devices, *source);
	if (!place) return Unexpected(ENODEV);
	const Neighbour neighbour = look_for(destination, *source);
	return locked([&](cm::ConnectionManager&, Nanoseconds now) -> Result {
		if (id->state == State::destroyed) return Unexpected(EINVAL);
		const std::uint16_t port = id->owns_port ? id->source.port() : given_source.given() ? given_source.port() : 0;
		id->source = *source;
		// A port that nobody will be called at: it need not be anybody's alone.
		if (port) id->source.set_port(port);
		else if (!id->owns_port)
			id->source.set_port(
				static_cast<std::uint16_t>(ephemeral_first + secure_random<std::uint32_t>() % (ephemeral_last - ephemeral_first + 1)));
		id->destination = destination;
		id->place = std::move(place);
		if (neighbour == Neighbour::there) {
			id->state = State::address_resolved;
			report(id, EventType::address_resolved);
			return {};
		}
		id->state = State::resolving;
		seek_neighbour(id, now + Nanoseconds{timeout_ms} * 1'000'000);
		return {};
	});
}

void Kernel::seek_neighbour(std::shared_ptr<Id> id, Nanoseconds deadline) {
	sought_.push_back({std::move(id), deadline});
	if (std::exchange(seeking_, true)) return;
	if (seeker_.joinable()) seeker_.join();  // it has seen an empty list, and ends
	sigset_t all, before;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	seeker_ = std::thread([this] { seek(); });
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	pthread_setname_np(seeker_.native_handle(), "verbena-seek");
}

// While an id waits to hear whether its neighbour is there.
void Kernel::seek() {
	for (;;) {
		std::vector<std::pair<std::shared_ptr<Id>, Nanoseconds>> now_sought;
		locked([&](cm::ConnectionManager&, Nanoseconds) {
			for (const Sought& sought : sought_) now_sought.emplace_back(sought.id, sought.deadline);
			seeking_ = !sought_.empty();
			return 0;
		});
		if (now_sought.empty()) return;
		for (const auto& [id, deadline] : now_sought) {
			const Neighbour neighbour = look_for(id->destination, id->source);
			const bool over = monotonic_now() >= deadline;
			if (neighbour == Neighbour::unknown && !over) continue;
			locked([&](cm::ConnectionManager&, Nanoseconds) {
				std::erase_if(sought_, [&](const Sought& sought) { return sought.id == id; });
				if (id->state != State::resolving) return 0;
				const bool there = neighbour == Neighbour::there;
				id->state = there ? State::address_resolved : id->owns_port ? State::bound : State::idle;
				report(id, there ? EventType::address_resolved : EventType::address_error,
					there                                ? 0
						: neighbour == Neighbour::absent ? -EHOSTUNREACH
														 : -ETIMEDOUT);
				return 0;
			});
		}
		const timespec pause{0, static_cast<long>(neighbour_look_interval)};
		nanosleep(&pause, nullptr);
	}
}

Kernel::Result Kernel::resolve_route(Channel& channel, const rdma_ucm_resolve_route& c) {
	return locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if ((*id)->state != State::address_resolved) return Unexpected(EINVAL);
		(*id)->state = State::route_resolved;
		report(*id, EventType::route_resolved);
		return {};
	});
}

namespace {

bool has_route(const Id& id) { return id.state >= State::route_resolved && id.state != State::listening && id.destination.given(); }

// In RoCE a path record says what the two GIDs say.
ib_user_path_rec path_of(const Id& id) {
	ib_user_path_rec path{};
	const wire::Gid to = id.destination.gid();
	std::ranges::copy(to, path.dgid);
	std::ranges::copy(id.place->gid, path.sgid);
	path.reversible = 1;
	path.mtu = mtu_code(id.place->device.interface.mtu);
	path.pkey = htobe16(0xffff);
	path.hop_limit = 64;
	path.traffic_class = id.traffic_class;
	path.numb_path = 1;
	path.mtu_selector = path.rate_selector = path.packet_life_time_selector = 2;  // exactly
	path.packet_life_time = 16;
	return path;
}

}  // namespace

Kernel::Result Kernel::query_route(Channel& channel, const rdma_ucm_query& c, std::size_t room) {
	rdma_ucm_query_route_resp response{};
	const Result found = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto at = find(channel, c.id);
		if (!at) return Unexpected(at.error());
		const Id& id = **at;
		std::memcpy(&response.src_addr, id.source.get(), id.source.size());
		std::memcpy(&response.dst_addr, id.destination.get(), id.destination.size());
		if (!id.place) return {};
		response.node_guid = htobe64(id.place->device.guid);
		response.ibdev_index = static_cast<std::uint32_t>(id.place->device.index);
		response.port_num = 1;
		if (!id.destination.given()) return {};
		response.ib_route[0] = path_of(id);
		response.num_paths = has_route(id);
		return {};
	});
	return found ? respond(c.response, room, response) : found;
}

Kernel::Result Kernel::query(Channel& channel, const rdma_ucm_query& c, std::size_t room) {
	rdma_ucm_query_addr_resp response{};
	std::uint32_t paths = 0;
	const Result found = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto at = find(channel, c.id);
		if (!at) return Unexpected(at.error());
		const Id& id = **at;
		paths = has_route(id);
		response.src_size = static_cast<std::uint16_t>(id.source.size());
		response.dst_size = static_cast<std::uint16_t>(id.destination.size());
		std::memcpy(&response.src_addr, id.source.get(), id.source.size());
		std::memcpy(&response.dst_addr, id.destination.get(), id.destination.size());
		response.pkey = 0xffff;
		if (!id.place) return {};
		response.node_guid = htobe64(id.place->device.guid);
		response.ibdev_index = static_cast<std::uint32_t>(id.place->device.index);
		response.port_num = 1;
		return {};
	});
	if (!found) return found;
	switch (c.option) {
		case RDMA_USER_CM_QUERY_ADDR: return respond(c.response, room, response);
		// Path records and GID addresses are InfiniBand's; here the addresses say all.
		case RDMA_USER_CM_QUERY_PATH:
			return respond(c.response, std::min(room, sizeof(rdma_ucm_query_path_resp)), rdma_ucm_query_path_resp{});
		default: return Unexpected(ENOSYS);
	}
}

// Connections

Kernel::Result Kernel::listen(Channel& channel, const rdma_ucm_listen& c) {
	auto found = locked([&](cm::ConnectionManager&, Nanoseconds) { return find(channel, c.id); });
	if (!found) return Unexpected(found.error());
	Id& id = **found;
	if (id.state == State::idle) {
		// A listener that was never bound gets any address, and a port.
		id.source = Address::from(wire::Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 0);
		if (auto taken = take_port(id, 0); !taken) return taken;
		id.state = State::bound;
	}
	if (id.state != State::bound) return Unexpected(EINVAL);
	return locked([&](cm::ConnectionManager& connections, Nanoseconds) -> Result {
		if (!connections.listen(id.service(), listening_gid(id.source), &id)) return Unexpected(EADDRINUSE);
		id.backlog_left = c.backlog == 0 || c.backlog > backlog_max ? backlog_max : c.backlog;
		id.state = State::listening;
		return {};
	});
}

Kernel::Result Kernel::connect(Channel& channel, const rdma_ucm_connect& c) {
	if (!c.conn_param.valid) return Unexpected(EINVAL);
	auto found = locked([&](cm::ConnectionManager&, Nanoseconds) -> std::expected<std::shared_ptr<Id>, int> {
		auto id = find(channel, c.id);
		if (id && (*id)->state != State::route_resolved) return Unexpected(EINVAL);
		if (id) (*id)->state = State::connecting;
		return id;
	});
	if (!found) return Unexpected(found.error());
	const std::shared_ptr<Id>& id = *found;
	const wire::AddressPair pair = pair_of(*id);
	const auto outlet =
		engine_->service_outlet(pair, id->destination.is_loopback() || host_.is_local(id->destination.gid()), id->remote_service());
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		if (id->state != State::connecting) return {};
		if (!outlet) {
			// What its own Communication Manager would answer if nobody serves the port; and if the process behind it stands still, nobody
			// does.
			if (outlet.error() == ECONNREFUSED && id->is_datagram()) report(id, EventType::unreachable, cm::sidr_status::unsupported);
			else if (outlet.error() == ECONNREFUSED || outlet.error() == ECONNRESET)
				report(id, EventType::rejected,
					outlet.error() == ECONNRESET ? cm::reject_reason::consumer : cm::reject_reason::invalid_service);
			else report(id, EventType::unreachable, -outlet.error());
			id->state = State::disconnected;
			return {};
		}
		cm::ConnectionManager::Request request{.service = id->remote_service(),
			.addresses = {id->source.gid(), id->destination.gid(), id->source.port()},
			.ca_guid = id->place->device.guid,
			.own = half_of(c.conn_param, id->starting_psn),
			.transport = id->qp_type == IBV_QPT_UC ? cm::Transport::uc : cm::Transport::rc,
			.path_mtu = mtu_code(id->place->device.interface.mtu),
			.ack_timeout = id->ack_timeout,
			.data = std::as_bytes(std::span(c.conn_param.private_data, c.conn_param.private_data_len))};
		id->connected_once = true;
		const cm::Route route{pair, *outlet};
		if (id->is_datagram()) id->connection = connections.resolve(now, route, request, id.get());
		else id->connection = connections.connect(now, route, request, id.get());
		return {};
	});
}

Kernel::Result Kernel::accept(Channel& channel, const rdma_ucm_accept& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto found = find(channel, c.id);
		if (!found) return Unexpected(found.error());
		Id& id = **found;
		if (!c.conn_param.valid) {
			if (!connections.confirm(id.connection)) return Unexpected(EINVAL);
			id.state = State::connected;
			return {};
		}
		const auto data = std::as_bytes(std::span(c.conn_param.private_data, c.conn_param.private_data_len));
		if (id.is_datagram()) {
			id.q_key = c.conn_param.qkey ? c.conn_param.qkey : default_q_key;
			if (!connections.answer(now, id.connection, cm::sidr_status::success, {c.conn_param.qp_num & 0xffffff}, id.q_key, data))
				return Unexpected(EINVAL);
		} else if (!connections.reply(now, id.connection, half_of(c.conn_param, id.starting_psn), id.place->device.guid, data)) {
			return Unexpected(EINVAL);
		}
		id.uid = c.uid;
		count_accepted(id);
		id.connected_once = true;
		if (cm::Connection* connection = connections.find(id.connection)) connection->user = &id;
		return {};
	});
}

Kernel::Result Kernel::reject(Channel& channel, const rdma_ucm_reject& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		const std::uint16_t reason = c.reason ? c.reason : cm::reject_reason::consumer;
		const auto data = std::as_bytes(std::span(c.private_data, std::min<std::size_t>(c.private_data_len, sizeof c.private_data)));
		if (!connections.reject(now, (*id)->connection, reason, data)) return Unexpected(EINVAL);
		return {};
	});
}

Kernel::Result Kernel::disconnect(Channel& channel, const rdma_ucm_disconnect& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds now) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if (!(*id)->connected_once || (*id)->is_datagram()) return Unexpected(EINVAL);
		connections.disconnect(now, (*id)->connection);  // once more does no harm
		return {};
	});
}

Kernel::Result Kernel::notify(Channel& channel, const rdma_ucm_notify& c) {
	return locked([&](cm::ConnectionManager& connections, Nanoseconds) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if (c.event == IBV_EVENT_COMM_EST) connections.establish((*id)->connection);
		return {};
	});
}

Kernel::Result Kernel::init_qp_attr(Channel& channel, const rdma_ucm_init_qp_attr& c, std::size_t room) {
	ib_uverbs_qp_attr attributes{};
	const Result found = locked([&](cm::ConnectionManager& connections, Nanoseconds) -> Result {
		const auto id = find(channel, c.id);
		if (!id) return Unexpected(id.error());
		if (c.qp_state > IBV_QPS_ERR || !(*id)->place) return Unexpected(EINVAL);
		const cm::Connection* connection = (*id)->connection.value ? connections.find((*id)->connection) : nullptr;
		if (!fill_qp_attributes(attributes, **id, connection, c.qp_state)) return Unexpected(EINVAL);
		return {};
	});
	return found ? respond(c.response, room, attributes) : found;
}

// Options

Kernel::Result Kernel::set_option(Channel& channel, const rdma_ucm_set_option& c) {
	const auto* value = reinterpret_cast<const void*>(c.optval);
	std::uint8_t byte = 0;
	int number = 0;
	if (c.level != RDMA_OPTION_ID || !value) return Unexpected(ENOSYS);
	switch (c.optname) {
		case RDMA_OPTION_ID_TOS:
		case RDMA_OPTION_ID_ACK_TIMEOUT:
			if (c.optlen != sizeof byte) return Unexpected(EINVAL);
			std::memcpy(&byte, value, sizeof byte);
			break;
		case RDMA_OPTION_ID_REUSEADDR:
		case RDMA_OPTION_ID_AFONLY:
			if (c.optlen != sizeof number) return Unexpected(EINVAL);
			std::memcpy(&number, value, sizeof number);
			break;
		default: return Unexpected(ENOSYS);
	}
	return locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto found = find(channel, c.id);
		if (!found) return Unexpected(found.error());
		Id& id = **found;
		if (c.optname == RDMA_OPTION_ID_TOS) id.traffic_class = byte;
		else if (c.optname == RDMA_OPTION_ID_ACK_TIMEOUT) id.ack_timeout = byte & 0x1f;
		else if (id.state != State::idle) return Unexpected(EINVAL);
		else if (c.optname == RDMA_OPTION_ID_REUSEADDR) id.reuse_address = number != 0;
		return {};
	});
}

// Events

Kernel::Result Kernel::get_event(Channel& channel, const rdma_ucm_get_event& c, std::size_t room) {
	const int fd = channel.watched.get();
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
			// Not under the lock: it may ask the kernel for its interfaces.
			if (event->child) event->child->place = place_of(host_.devices(), event->child->source);
			return respond(c.response, room, event->content);
		}
		if (fcntl(fd, F_GETFL) & O_NONBLOCK) return Unexpected(EAGAIN);
		if (!engine_->drive_until_readable(fd)) return Unexpected(EINTR);
	}
}

// The queue pair is attached to the group by the program's library when it has the event, and packets come from then on.
Kernel::Result Kernel::join(
	Channel& channel, std::uint32_t number, std::uint64_t uid, std::uint64_t response, const Address& group, std::size_t room) {
	std::uint32_t joined = 0;
	const Result result = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto found = find(channel, number);
		if (!found) return Unexpected(found.error());
		const std::shared_ptr<Id>& id = *found;
		if (!id->place || !id->is_datagram() || !group.is_multicast()) return Unexpected(EINVAL);
		auto membership = std::make_shared<Membership>();
		do membership->number = next_number_++;
		while (memberships_.contains(membership->number));
		membership->uid = uid;
		membership->id = id->number;
		memberships_[membership->number] = membership;
		joined = membership->number;
		QueuedEvent event{.id = id, .membership = std::move(membership)};
		event.content.event = static_cast<std::uint32_t>(EventType::multicast_join);
		rdma_ucm_ud_param& ud = event.content.param.ud;
		ud.qp_num = wire::multicast_qpn.value;
		ud.qkey = id->q_key ? id->q_key : default_q_key;
		ud.ah_attr = path_to(*id, group.gid());
		ud.ah_attr.grh.hop_limit = 1;
		channel.push(std::move(event));
		return {};
	});
	return result ? respond(response, room, rdma_ucm_create_id_resp{joined}) : result;
}

Kernel::Result Kernel::leave(Channel& channel, const rdma_ucm_destroy_id& c, std::size_t room) {
	std::uint32_t reported = 0;
	const Result result = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto at = memberships_.find(c.id);
		if (at == memberships_.end()) return Unexpected(ENOENT);
		const std::shared_ptr<Membership> membership = at->second;
		memberships_.erase(at);
		channel.take_if([&](const QueuedEvent& event) { return event.membership == membership; });
		reported = membership->events_reported;
		return {};
	});
	return result ? respond(c.response, room, rdma_ucm_destroy_id_resp{reported}) : result;
}

Kernel::Result Kernel::migrate(Channel& to, const rdma_ucm_migrate_id& c, std::size_t room) {
	const std::shared_ptr<Channel> from = find_channel(static_cast<int>(c.fd));
	if (!from) return Unexpected(EINVAL);
	std::uint32_t reported = 0;
	const Result found = locked([&](cm::ConnectionManager&, Nanoseconds) -> Result {
		const auto id = find(*from, c.id);
		if (!id) return Unexpected(id.error());
		if (from.get() != &to) {
			for (QueuedEvent& event : from->take_if([&](const QueuedEvent& queued) { return queued.id == *id; })) {
				if (event.child) event.child->channel = &to;
				to.push(std::move(event));
			}
			(*id)->channel = &to;
		}
		reported = (*id)->events_reported;
		return {};
	});
	return found ? respond(c.response, room, rdma_ucm_migrate_resp{reported}) : found;
}

void Kernel::count_accepted(Id& id) {
	if (const auto listener = id.listener.lock()) ++listener->backlog_left;
	id.listener.reset();
}

void Kernel::deliver_request(cm::ConnectionManager& connections, Nanoseconds now, const cm::Event& event) {
	// The listener was there when the request came: a listener leaves the manager before it goes, and its events are delivered at once.
	auto* const listener = static_cast<Id*>(event.listener);
	const auto at = ids_.find(listener->number);
	if (at == ids_.end() || listener->backlog_left == 0) {
		connections.reject(now, event.connection, cm::reject_reason::consumer, {});
		return connections.destroy(now, event.connection);
	}
	const auto& addresses = std::holds_alternative<cm::Req>(event.message) ? std::get<cm::Req>(event.message).addresses
																		   : std::get<cm::SidrReq>(event.message).addresses;
	auto child = make_id(*listener->channel, listener->uid, listener->port_space, listener->qp_type);
	child->state = State::connecting;
	child->connection = event.connection;
	// Its queue pair goes to RTR before the program accepts.
	connections.find(event.connection)->own.starting_psn = {child->starting_psn};
	child->source = Address::from(addresses.destination, listener->source.port());
	child->destination = Address::from(addresses.source, addresses.source_port);
	child->ack_timeout = listener->ack_timeout;
	child->listener = at->second;
	--listener->backlog_left;
	report(at->second, EventType::connect_request, 0, event_of(event.message), std::move(child));
}

void Kernel::deliver(cm::ConnectionManager& connections, Nanoseconds now, const cm::Event& event) {
	using Kind = cm::Event::Kind;
	if (event.kind == Kind::request || event.kind == Kind::datagram_request) return deliver_request(connections, now, event);
	auto* const user = static_cast<Id*>(event.user);
	if (!user) return;
	const auto at = ids_.find(user->number);
	if (at == ids_.end()) return;
	const std::shared_ptr<Id>& id = at->second;
	switch (event.kind) {
		case Kind::response: return report(id, EventType::connect_response, 0, event_of(event.message));
		case Kind::established: id->state = State::connected; return report(id, EventType::established);
		case Kind::rejected: id->state = State::disconnected; return report(id, EventType::rejected, event.status, event_of(event.message));
		case Kind::unreachable: id->state = State::disconnected; return report(id, EventType::unreachable, event.status);
		case Kind::disconnected: id->state = State::disconnected; return report(id, EventType::disconnected, event.status);
		case Kind::timewait_exit: return report(id, EventType::timewait_exit);
		case Kind::datagram_response: {
			if (event.status != cm::sidr_status::success) return report(id, EventType::unreachable, event.status, event_of(event.message));
			id->state = State::connected;
			rdma_ucm_event_resp filled = event_of(event.message);
			id->q_key = filled.param.ud.qkey;
			filled.param.ud.ah_attr = path_to(*id, id->destination.gid());
			return report(id, EventType::established, 0, filled);
		}
		default: return;
	}
}

}  // namespace verbena::ucma
