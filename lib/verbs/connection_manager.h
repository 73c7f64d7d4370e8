// Connections by the RDMA connection manager (librdmacm): who listens at an IP address and port, what two queue pairs
// must know of each other, and their way to RTS.
//
// Declare in the order of dependence: EventChannel, ConnectionId, the OpenDevice of the connection, completion queue,
// memory, queue pair (QueuePairOptions::connection). One thread reads a channel; a connection may be answered by
// another thread, as long as it and what was made on it is destroyed by the one that reads.
//
// A connection's two ends, in the order of use:
//
//     active                                          passive
//     id = resolve(channel, where)                    listener = listen(channel, where)
//     device_of(id), queue pair                       next_event: CONNECT_REQUEST, a new id
//     connect(channel, id, private data)      ->      device_of(id), queue pair, receives
//                                             <-      accept(id, private data)   or reject(id, text)
//     ... until one of both calls rdma_disconnect or ends: next_event gives DISCONNECTED ...
#pragma once

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/verbs/device.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::lib {

using EventChannel = std::unique_ptr<rdma_event_channel, Destroyer<rdma_destroy_event_channel>>;
using ConnectionId = std::unique_ptr<rdma_cm_id, Destroyer<rdma_destroy_id>>;

enum class ConnectTrouble : std::uint8_t {
	no_device,    // no RDMA device at all, or none for that address
	unreachable,  // no way there, or nobody there speaks RDMA
	refused,      // nobody listens at that port
	rejected,     // the listener said no; `text` has its reason, if it gave one
	timed_out,
	port_busy,
	failed,
};

struct ConnectError {
	ConnectTrouble trouble = ConnectTrouble::failed;
	std::string text;  // one sentence for the user, with the way out where there is one
};

template <class T> using Connected = std::expected<T, ConnectError>;

// A copy of what librdmacm reported; its own event is acknowledged already.
struct ConnectionEvent {
	rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
	// A negative errno, or the reason of a reject (InfiniBand specification, 12.6.7.2).
	int status = 0;
	// CONNECT_REQUEST: a new one, which whoever takes the event owns.
	rdma_cm_id* id = nullptr;
	// Padded with zeros to the message's size.
	std::vector<std::byte> private_data;
	void* context = nullptr;  // the id's, as begin_resolve() was given it
};

struct SocketAddress {
	sockaddr_storage storage{};

	sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// What the messages of the manager carry beside its own header, for RDMA_PS_TCP.
inline constexpr std::size_t request_data_max = 56, reply_data_max = 196, reject_data_max = 148;

Connected<EventChannel> make_event_channel();
// A channel for wait_for_event(): a thread that waits in the call itself is woken sooner than one that polls the
// descriptor.
Connected<EventChannel> make_blocking_event_channel();

// The next event, or nothing when none came within `patience` (0: look only). A signal ends the wait early.
Connected<std::optional<ConnectionEvent>> next_event(rdma_event_channel* channel, std::chrono::milliseconds patience);

// The next event of a blocking channel, however long it takes. Empty: a signal handler ran.
Connected<std::optional<ConnectionEvent>> wait_for_event(rdma_event_channel* channel);

// A name or an address of either family.
Connected<SocketAddress> address_of(const std::string& host, std::uint16_t port);
// All addresses of this host, of both families.
SocketAddress any_address(std::uint16_t port);
// The address that a RoCE v2 GID was made from. Empty for a link-local one, which is not an address without its
// interface.
std::optional<SocketAddress> address_of(const ibv_gid& gid, std::uint16_t port);
// "10.0.0.1:18515", "[fd00::1]:18515"
std::string format_address(const sockaddr* address);

// Port 0: any free one; rdma_get_src_port tells which.
Connected<ConnectionId> listen(rdma_event_channel* channel, const SocketAddress& where, int backlog);

// Address and route: which device leads there. `from` is the address to come from, of the peer's family.
Connected<ConnectionId> resolve(rdma_event_channel* channel, const SocketAddress& where,
	std::chrono::milliseconds patience, const SocketAddress* from = nullptr);

// The device that a connection runs on, with a protection domain of this OpenDevice's own.
std::expected<OpenDevice, std::string> device_of(rdma_cm_id* id);

// READs in flight that both ends ask for, where their devices have so many.
inline constexpr int connection_reads = 16;

// Asks the listener and waits for its answer; RTS with the private data of the answer. The id needs its queue pair.
Connected<std::vector<std::byte>> connect(rdma_event_channel* channel, rdma_cm_id* id,
	std::span<const std::byte> private_data, std::chrono::milliseconds patience);

// The steps of resolve() and connect(), for whoever has many connections under way on one channel: each only begins,
// and an event says how it went. ADDR_RESOLVED: call begin_route(). ROUTE_RESOLVED: make the queue pair and call
// begin_connect(). ESTABLISHED: the queue pair may send. Anything else: trouble_of() says what it means. `context`
// comes back with each of the id's events.
Connected<ConnectionId> begin_resolve(rdma_event_channel* channel, const SocketAddress& where,
	std::chrono::milliseconds patience, const SocketAddress* from = nullptr, void* context = nullptr);
Connected<void> begin_route(rdma_cm_id* id, std::chrono::milliseconds patience);
Connected<void> begin_connect(rdma_cm_id* id, std::span<const std::byte> private_data, const ibv_device_attr& device);

// Returns when the queue pair may send; messages can arrive before the ESTABLISHED event does.
Connected<void> accept(rdma_cm_id* id, std::span<const std::byte> private_data);

// A queue pair that was not made on the connection but by ibv_create_qp, on the same device: its owner moves it to RTS
// himself, by what path_of() says. The passive end does so before accept(), the active end when CONNECT_RESPONSE has
// come (where the other functions give ESTABLISHED), before establish(). What the manager does not know about it is
// told here.
struct OwnQueuePair {
	std::uint32_t number = 0;
	bool shared_receives = false;
	std::uint8_t reads = 0;  // in flight, each way
};
Connected<void> begin_connect(rdma_cm_id* id, std::span<const std::byte> private_data, const OwnQueuePair& own);
Connected<void> accept(rdma_cm_id* id, std::span<const std::byte> private_data, const OwnQueuePair& own);
Connected<void> establish(rdma_cm_id* id);

// What both ends' managers have agreed on for such a queue pair. The first PSNs are the managers' choice.
struct ManagedPath {
	RemoteEnd peer;
	std::uint32_t local_psn = 0;
	std::uint32_t mtu_bytes = 0;
	std::uint32_t gid_index = 0;
	std::uint8_t port = 1;
	std::string device;
};
Connected<ManagedPath> path_of(rdma_cm_id* id);

// At most 148 bytes of `reason` reach the other side.
void reject(rdma_cm_id* id, std::string_view reason);

// What an event other than the expected one means. `where` is whom we wanted to reach.
ConnectError trouble_of(const ConnectionEvent& event, const std::string& where);
// What errno means that a call gave.
ConnectError trouble_of(const char* call, int error, const std::string& where);

}  // namespace verbena::lib
