// SPDX-License-Identifier: Apache-2.0
// Connections by the RDMA connection manager (rdma_cm(7)): listening at an IP address and port,
// exchanging what two queue pairs must know of each other, and moving them to RTS.
//
// Threads: one thread reads an event channel. Another thread may answer a connection request, but
//   the thread that reads the channel destroys the connection and what was made on it.
// Lifetime: declare, and so destroy in reverse, in this order: EventChannel, ConnectionId, the
//   OpenDevice of the connection, completion queue, memory, queue pair
//   (QueuePairOptions::connection).
// Errors: ConnectError, with one sentence for the user.
//
// The two ends of a connection, in the order of use:
//
//     active                                       passive
//     id = resolve(channel, where)                 listener = listen(channel, where)
//     device_of(id), queue pair                    next_event: CONNECT_REQUEST, a new id
//     connect(channel, id, private data)     ->    device_of(id), queue pair, receives
//                                            <-    accept(id, private data), or reject(id, text)
//
// Then messages flow until one end calls rdma_disconnect or dies: next_event gives DISCONNECTED.
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
	unreachable,  // no route, or no RDMA device answers there
	refused,      // no server listens at that port
	rejected,     // the listener rejected it; `text` has its reason, if it gave one
	timed_out,
	port_busy,
	failed,
};

struct ConnectError {
	ConnectTrouble trouble = ConnectTrouble::failed;
	std::string text;  // one sentence for the user, with the way out if there is one
};

template <class T> using Connected = std::expected<T, ConnectError>;

// A copy of an event of librdmacm; the original is acknowledged already.
struct ConnectionEvent {
	rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
	// A negative errno, or the reason of a REJ message (IBA 12.6).
	int status = 0;
	// For CONNECT_REQUEST a new id, which the receiver of the event owns.
	rdma_cm_id* id = nullptr;
	// Padded with zeros to the size of the message.
	std::vector<std::byte> private_data;
	void* context = nullptr;  // the `context` that begin_resolve() was given
};

struct SocketAddress {
	sockaddr_storage storage{};

	sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Bytes of private data that the messages of the manager can carry, for RDMA_PS_TCP
// (rdma_connect(3), rdma_accept(3), rdma_reject(3)).
inline constexpr std::size_t request_data_max = 56, reply_data_max = 196, reject_data_max = 148;

Connected<EventChannel> make_event_channel();
// A channel for wait_for_event(). A thread that blocks in that call wakes up sooner than one that
// polls the descriptor.
Connected<EventChannel> make_blocking_event_channel();

// The next event, or nothing if none comes within `patience`; 0 only looks. A signal ends the wait
// early.
Connected<std::optional<ConnectionEvent>> next_event(rdma_event_channel* channel, std::chrono::milliseconds patience);

// Waits without limit for the next event of a blocking channel. Empty: a signal handler ran.
Connected<std::optional<ConnectionEvent>> wait_for_event(rdma_event_channel* channel);

// Resolves a name or an address of either family. Blocks while the name is looked up.
Connected<SocketAddress> address_of(const std::string& host, std::uint16_t port);
// The wildcard address: all addresses of this host, of both families.
SocketAddress any_address(std::uint16_t port);
// The address that a RoCE v2 GID was made from (IBA Annex A17). Empty for a link-local GID, which
// is no usable address without its interface.
std::optional<SocketAddress> address_of(const ibv_gid& gid, std::uint16_t port);
// "10.0.0.1:18515", "[fd00::1]:18515"
std::string format_address(const sockaddr* address);

// Listens at `where`. Port 0 takes any free port, which rdma_get_src_port() returns.
Connected<ConnectionId> listen(rdma_event_channel* channel, const SocketAddress& where, int backlog);

// Resolves address and route, and so the device that leads there. `from`, if not null, is the local
// address to use, of the peer's family.
Connected<ConnectionId> resolve(rdma_event_channel* channel, const SocketAddress& where,
	std::chrono::milliseconds patience, const SocketAddress* from = nullptr);

// The device of a connection, with a protection domain of its own.
std::expected<OpenDevice, std::string> device_of(rdma_cm_id* id);

// READs in flight that both ends ask for, if their devices have as many.
inline constexpr int connection_reads = 16;

// Sends the request and waits for the answer. Then the queue pair, which the id must have, is in
// RTS; returns the private data of the answer.
Connected<std::vector<std::byte>> connect(rdma_event_channel* channel, rdma_cm_id* id,
	std::span<const std::byte> private_data, std::chrono::milliseconds patience);

// The steps of resolve() and connect(), for a caller with many connections on one channel. Each
// call only begins a step, and an event reports its result. ADDR_RESOLVED: call begin_route().
// ROUTE_RESOLVED: make the queue pair and call begin_connect(). ESTABLISHED: the queue pair may
// send. For any other event trouble_of() says what it means. Each event of the id carries
// `context`.
Connected<ConnectionId> begin_resolve(rdma_event_channel* channel, const SocketAddress& where,
	std::chrono::milliseconds patience, const SocketAddress* from = nullptr, void* context = nullptr);
Connected<void> begin_route(rdma_cm_id* id, std::chrono::milliseconds patience);
Connected<void> begin_connect(rdma_cm_id* id, std::span<const std::byte> private_data, const ibv_device_attr& device);

// Accepts a connection request. When it returns, the queue pair may send; messages can arrive
// before the ESTABLISHED event does.
Connected<void> accept(rdma_cm_id* id, std::span<const std::byte> private_data);

// A queue pair that ibv_create_qp made on the same device, instead of rdma_create_qp. Its owner
// moves it to RTS with the values of path_of(): the passive end before accept(), the active end
// after CONNECT_RESPONSE (which comes in place of ESTABLISHED) and before establish(). These fields
// give the manager what it does not know about such a queue pair.
struct OwnQueuePair {
	std::uint32_t number = 0;
	bool shared_receives = false;
	std::uint8_t reads = 0;  // READs and atomics in flight, each way
};
Connected<void> begin_connect(rdma_cm_id* id, std::span<const std::byte> private_data, const OwnQueuePair& own);
Connected<void> accept(rdma_cm_id* id, std::span<const std::byte> private_data, const OwnQueuePair& own);
Connected<void> establish(rdma_cm_id* id);

// The values that both managers agreed on for such a queue pair. The managers choose the first
// PSNs.
struct ManagedPath {
	RemoteEnd peer;
	std::uint32_t local_psn = 0;
	std::uint32_t mtu_bytes = 0;
	std::uint32_t gid_index = 0;
	std::uint8_t port = 1;
	std::string device;
};
Connected<ManagedPath> path_of(rdma_cm_id* id);

// Rejects a connection request. At most 148 bytes of `reason` reach the peer.
void reject(rdma_cm_id* id, std::string_view reason);

// Explains an event that was not expected. `where` is the address of the peer.
ConnectError trouble_of(const ConnectionEvent& event, const std::string& where);
// Explains the errno that a call returned.
ConnectError trouble_of(const char* call, int error, const std::string& where);

}  // namespace verbena::lib
