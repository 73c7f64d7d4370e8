// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/connection_manager.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>

namespace verbena::lib {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Reasons of a REJ message (IBA 12.6).
constexpr int reason_invalid_service_id = 8;
constexpr int reason_consumer_defined = 28;
constexpr const char* unreachable_advice = "is it up, with an RDMA device, and no firewall in between (UDP port 4791)?";
constexpr const char* no_device_advice =
	"run under 'verbena run -- PROGRAM' for a software one ('verbena doctor' says what stands in the way)";

std::unexpected<ConnectError> failed(const char* call, int error, const std::string& where) {
	return std::unexpected(trouble_of(call, error, where));
}

std::string reason_text(std::span<const std::byte> data) {
	std::string text;
	for (const std::byte each : data) {
		const auto letter = static_cast<char>(each);
		if (letter == '\0') break;
		text += letter >= ' ' && letter <= '~' ? letter : '?';
	}
	return text;
}

std::string peer_of(rdma_cm_id* id) { return format_address(rdma_get_peer_addr(id)); }

// Waits for the next event of this id. Events of other ids are dropped: the caller waits for one
// connection.
Connected<ConnectionEvent> event_of(
	rdma_event_channel* channel, rdma_cm_id* id, Clock::time_point deadline, const std::string& where) {
	while (true) {
		const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
		if (left.count() <= 0) return failed("", ETIMEDOUT, where);
		auto event = next_event(channel, left);
		if (!event) return std::unexpected(event.error());
		if (*event && (*event)->id == id) return std::move(**event);
	}
}

Connected<void> await(rdma_event_channel* channel, rdma_cm_id* id, rdma_cm_event_type wanted,
	Clock::time_point deadline, const std::string& where) {
	const auto event = event_of(channel, id, deadline, where);
	if (!event) return std::unexpected(event.error());
	if (event->type != wanted) return std::unexpected(trouble_of(*event, where));
	return {};
}

// The manager's own value is 655 ms.
Connected<void> shorten_rnr_timer(ibv_qp* qp) {
	ibv_qp_attr attributes{};
	attributes.min_rnr_timer = rnr_timer;
	if (const int error = ibv_modify_qp(qp, &attributes, IBV_QP_MIN_RNR_TIMER); error != 0)
		return failed("ibv_modify_qp of the RNR timer", error, "");
	return {};
}

rdma_conn_param parameters_of(std::span<const std::byte> private_data) {
	return {.private_data = private_data.data(),
		.private_data_len = static_cast<std::uint8_t>(private_data.size()),
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = 6,  // as in rc_connect
		.rnr_retry_count = 7};  // no limit
}

}  // namespace

ConnectError trouble_of(const char* call, int error, const std::string& where) {
	switch (error) {
		case ENODEV:
		case ENOENT:
			return {ConnectTrouble::no_device,
				"no RDMA device" + (where.empty() ? "" : " leads to " + where) + ": " + no_device_advice};
		case EADDRINUSE:
			return {
				ConnectTrouble::port_busy, where + " is in use: another server listens there; choose another --port"};
		case EADDRNOTAVAIL:
			return {ConnectTrouble::unreachable,
				where + " is not an address of an RDMA device of this host ('verbena devices' shows them)"};
		case ENETUNREACH:
		case EHOSTUNREACH: return {ConnectTrouble::unreachable, where + " cannot be reached: " + std::strerror(error)};
		case ECONNREFUSED:
			return {ConnectTrouble::refused, "no server listens at " + where + ": start the server there first"};
		case ETIMEDOUT: return {ConnectTrouble::timed_out, where + " does not answer in time: " + unreachable_advice};
		default: return {ConnectTrouble::failed, (where.empty() ? "" : where + ": ") + failure(call, error)};
	}
}

ConnectError trouble_of(const ConnectionEvent& event, const std::string& where) {
	const std::string name = rdma_event_str(event.type);
	switch (event.type) {
		case RDMA_CM_EVENT_REJECTED: {
			if (event.status == reason_invalid_service_id) return trouble_of("", ECONNREFUSED, where);
			if (event.status < 0) return trouble_of("rdma_connect", -event.status, where);
			const std::string reason = event.status == reason_consumer_defined ? reason_text(event.private_data) : "";
			return {ConnectTrouble::rejected,
				where +
					" rejects the connection: " + (reason.empty() ? "reason " + std::to_string(event.status) : reason)};
		}
		case RDMA_CM_EVENT_UNREACHABLE:
			return {ConnectTrouble::unreachable, where + " does not answer: " + unreachable_advice};
		case RDMA_CM_EVENT_ADDR_ERROR:
		case RDMA_CM_EVENT_ROUTE_ERROR:
			if (event.status == -ENODEV) return trouble_of("", ENODEV, where);
			return {ConnectTrouble::unreachable, where + " cannot be reached: " + std::strerror(-event.status)};
		case RDMA_CM_EVENT_DISCONNECTED: return {ConnectTrouble::failed, where + " closed the connection"};
		default:
			return {ConnectTrouble::failed,
				where + ": " + name + (event.status != 0 ? ", status " + std::to_string(event.status) : "")};
	}
}

Connected<EventChannel> make_event_channel() {
	auto channel = make_blocking_event_channel();
	if (!channel) return channel;
	const int flags = fcntl((*channel)->fd, F_GETFL);
	if (flags < 0 || fcntl((*channel)->fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return failed("fcntl of the event channel", errno, "");
	return channel;
}

Connected<EventChannel> make_blocking_event_channel() {
	EventChannel channel(rdma_create_event_channel());
	if (!channel) return failed("rdma_create_event_channel", errno, "");
	return channel;
}

Connected<std::optional<ConnectionEvent>> wait_for_event(rdma_event_channel* channel) {
	rdma_cm_event* event = nullptr;
	if (rdma_get_cm_event(channel, &event) != 0) {
		if (errno == EAGAIN || errno == EINTR) return std::nullopt;
		return failed("rdma_get_cm_event", errno, "");
	}
	ConnectionEvent copy{.type = event->event,
		.status = event->status,
		.id = event->id,
		.private_data = {},
		.context = event->id->context};
	const auto* data = static_cast<const std::byte*>(event->param.conn.private_data);
	if (data != nullptr) copy.private_data.assign(data, data + event->param.conn.private_data_len);
	rdma_ack_cm_event(event);
	return copy;
}

Connected<std::optional<ConnectionEvent>> next_event(rdma_event_channel* channel, milliseconds patience) {
	pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
	const int ready = poll(&readable, 1, static_cast<int>(patience.count()));
	if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
	if (ready < 0) return failed("poll", errno, "");
	return wait_for_event(channel);
}

Connected<SocketAddress> address_of(const std::string& host, std::uint16_t port) {
	const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	addrinfo* found = nullptr;
	if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
		return std::unexpected(ConnectError{ConnectTrouble::unreachable, host + ": " + gai_strerror(error)});
	SocketAddress address;
	std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return address;
}

SocketAddress any_address(std::uint16_t port) {
	SocketAddress address;
	const sockaddr_in6 any{.sin6_family = AF_INET6, .sin6_port = htons(port)};
	std::memcpy(&address.storage, &any, sizeof any);
	return address;
}

std::optional<SocketAddress> address_of(const ibv_gid& gid, std::uint16_t port) {
	SocketAddress address;
	if (is_ipv4_mapped(gid)) {
		sockaddr_in four{.sin_family = AF_INET, .sin_port = htons(port)};
		std::memcpy(&four.sin_addr, gid.raw + 12, sizeof four.sin_addr);
		std::memcpy(&address.storage, &four, sizeof four);
		return address;
	}
	if (kind_of(gid) == GidKind::link_local) return std::nullopt;
	sockaddr_in6 six{.sin6_family = AF_INET6, .sin6_port = htons(port)};
	std::memcpy(&six.sin6_addr, gid.raw, sizeof six.sin6_addr);
	std::memcpy(&address.storage, &six, sizeof six);
	return address;
}

std::string format_address(const sockaddr* address) {
	char host[INET6_ADDRSTRLEN] = "";
	if (address->sa_family == AF_INET) {
		sockaddr_in four;
		std::memcpy(&four, address, sizeof four);
		inet_ntop(AF_INET, &four.sin_addr, host, sizeof host);
		return std::string(host) + ":" + std::to_string(ntohs(four.sin_port));
	}
	if (address->sa_family != AF_INET6) return "?";
	sockaddr_in6 six;
	std::memcpy(&six, address, sizeof six);
	if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
		inet_ntop(AF_INET, six.sin6_addr.s6_addr + 12, host, sizeof host);
		return std::string(host) + ":" + std::to_string(ntohs(six.sin6_port));
	}
	inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof host);
	return "[" + std::string(host) + "]:" + std::to_string(ntohs(six.sin6_port));
}

namespace {

bool is_loopback(const SocketAddress& address) {
	if (address.storage.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
	sockaddr_in four;
	std::memcpy(&four, &address.storage, sizeof four);
	return four.sin_family == AF_INET && ntohl(four.sin_addr.s_addr) >> 24 == 127;
}

}  // namespace

Connected<ConnectionId> listen(rdma_event_channel* channel, const SocketAddress& where, int backlog) {
	rdma_cm_id* made = nullptr;
	if (rdma_create_id(channel, &made, nullptr, RDMA_PS_TCP) != 0) return failed("rdma_create_id", errno, "");
	ConnectionId id(made);
	SocketAddress at = where;
	const bool any = where.storage.ss_family == AF_INET6 &&
		IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&where.storage)->sin6_addr);
	const bool at_every_device = any || is_loopback(where);
	const std::string name = any
		? "port " + std::to_string(ntohs(reinterpret_cast<const sockaddr_in6*>(&where.storage)->sin6_port))
		: format_address(where.get());
	// For the wildcard and the loopback addresses the kernel reports a busy port as EADDRNOTAVAIL.
	if (rdma_bind_addr(id.get(), at.get()) != 0)
		return failed("rdma_bind_addr", at_every_device && errno == EADDRNOTAVAIL ? EADDRINUSE : errno, name);
	if (rdma_listen(id.get(), backlog) != 0) return failed("rdma_listen", errno, name);
	return id;
}

Connected<ConnectionId> begin_resolve(rdma_event_channel* channel, const SocketAddress& where, milliseconds patience,
	const SocketAddress* from, void* context) {
	rdma_cm_id* made = nullptr;
	if (rdma_create_id(channel, &made, context, RDMA_PS_TCP) != 0) return failed("rdma_create_id", errno, "");
	ConnectionId id(made);
	SocketAddress there = where, here = from != nullptr ? *from : SocketAddress{};
	if (rdma_resolve_addr(
			id.get(), from != nullptr ? here.get() : nullptr, there.get(), static_cast<int>(patience.count())) != 0)
		return failed("rdma_resolve_addr", errno, format_address(where.get()));
	return id;
}

Connected<void> begin_route(rdma_cm_id* id, milliseconds patience) {
	if (rdma_resolve_route(id, static_cast<int>(patience.count())) != 0)
		return failed("rdma_resolve_route", errno, peer_of(id));
	return {};
}

Connected<void> begin_connect(rdma_cm_id* id, std::span<const std::byte> private_data, const ibv_device_attr& device) {
	if (private_data.size() > request_data_max) return failed("rdma_connect", EMSGSIZE, peer_of(id));
	rdma_conn_param parameters = parameters_of(private_data);
	parameters.responder_resources = static_cast<std::uint8_t>(std::clamp(device.max_qp_rd_atom, 1, connection_reads));
	parameters.initiator_depth = static_cast<std::uint8_t>(std::clamp(device.max_qp_init_rd_atom, 1, connection_reads));
	if (rdma_connect(id, &parameters) != 0) return failed("rdma_connect", errno, peer_of(id));
	return {};
}

Connected<ConnectionId> resolve(
	rdma_event_channel* channel, const SocketAddress& where, milliseconds patience, const SocketAddress* from) {
	const auto deadline = Clock::now() + patience;
	const std::string name = format_address(where.get());
	auto id = begin_resolve(channel, where, patience, from);
	if (!id) return id;
	if (auto done = await(channel, id->get(), RDMA_CM_EVENT_ADDR_RESOLVED, deadline, name); !done)
		return std::unexpected(done.error());
	if (auto done = begin_route(id->get(), patience); !done) return std::unexpected(done.error());
	if (auto done = await(channel, id->get(), RDMA_CM_EVENT_ROUTE_RESOLVED, deadline, name); !done)
		return std::unexpected(done.error());
	return id;
}

std::expected<OpenDevice, std::string> device_of(rdma_cm_id* id) {
	return borrow(id->verbs, id->port_num, id->route.addr.addr.ibaddr.sgid);
}

Connected<std::vector<std::byte>> connect(
	rdma_event_channel* channel, rdma_cm_id* id, std::span<const std::byte> private_data, milliseconds patience) {
	const auto deadline = Clock::now() + patience;
	const std::string where = peer_of(id);
	ibv_device_attr device{};
	if (const int error = ibv_query_device(id->verbs, &device); error != 0)
		return failed("ibv_query_device", error, "");
	if (auto begun = begin_connect(id, private_data, device); !begun) return std::unexpected(begun.error());
	auto event = event_of(channel, id, deadline, where);
	if (!event) return std::unexpected(event.error());
	if (event->type != RDMA_CM_EVENT_ESTABLISHED) return std::unexpected(trouble_of(*event, where));
	if (auto done = shorten_rnr_timer(id->qp); !done) return std::unexpected(done.error());
	return std::move(event->private_data);
}

Connected<void> accept(rdma_cm_id* id, std::span<const std::byte> private_data) {
	if (private_data.size() > reply_data_max) return failed("rdma_accept", EMSGSIZE, peer_of(id));
	rdma_conn_param parameters = parameters_of(private_data);
	if (rdma_accept(id, &parameters) != 0) return failed("rdma_accept", errno, peer_of(id));
	return shorten_rnr_timer(id->qp);
}

namespace {

rdma_conn_param parameters_of(std::span<const std::byte> private_data, const OwnQueuePair& own) {
	rdma_conn_param parameters = parameters_of(private_data);
	parameters.responder_resources = parameters.initiator_depth = own.reads;
	parameters.qp_num = own.number;
	parameters.srq = own.shared_receives;
	return parameters;
}

Connected<ibv_qp_attr> attributes_of(rdma_cm_id* id, ibv_qp_state state) {
	ibv_qp_attr attributes{.qp_state = state};
	int mask = 0;
	if (rdma_init_qp_attr(id, &attributes, &mask) != 0) return failed("rdma_init_qp_attr", errno, peer_of(id));
	return attributes;
}

}  // namespace

Connected<void> begin_connect(rdma_cm_id* id, std::span<const std::byte> private_data, const OwnQueuePair& own) {
	if (private_data.size() > request_data_max) return failed("rdma_connect", EMSGSIZE, peer_of(id));
	rdma_conn_param parameters = parameters_of(private_data, own);
	if (rdma_connect(id, &parameters) != 0) return failed("rdma_connect", errno, peer_of(id));
	return {};
}

Connected<void> accept(rdma_cm_id* id, std::span<const std::byte> private_data, const OwnQueuePair& own) {
	if (private_data.size() > reply_data_max) return failed("rdma_accept", EMSGSIZE, peer_of(id));
	rdma_conn_param parameters = parameters_of(private_data, own);
	if (rdma_accept(id, &parameters) != 0) return failed("rdma_accept", errno, peer_of(id));
	return {};
}

Connected<void> establish(rdma_cm_id* id) {
	if (rdma_establish(id) != 0) return failed("rdma_establish", errno, peer_of(id));
	return {};
}

Connected<ManagedPath> path_of(rdma_cm_id* id) {
	const auto receiving = attributes_of(id, IBV_QPS_RTR);
	if (!receiving) return std::unexpected(receiving.error());
	const auto sending = attributes_of(id, IBV_QPS_RTS);
	if (!sending) return std::unexpected(sending.error());
	const ibv_ah_attr& route = receiving->ah_attr;
	return ManagedPath{
		.peer = {.qpn = receiving->dest_qp_num, .psn = receiving->rq_psn, .lid = route.dlid, .gid = route.grh.dgid},
		.local_psn = sending->sq_psn,
		.mtu_bytes = 128u << receiving->path_mtu,
		.gid_index = route.grh.sgid_index,
		.port = route.port_num,
		.device = ibv_get_device_name(id->verbs->device)};
}

void reject(rdma_cm_id* id, std::string_view reason) {
	rdma_reject(id, reason.data(), static_cast<std::uint8_t>(std::min(reason.size(), reject_data_max)));
}

}  // namespace verbena::lib
