// Many clients of an echo server, of one process each a part: every client is a connection of its own, none sends or
// ends before all have connected, and a message counts when its echo came back right. With `queue_pairs` above 0 the
// clients are logical channels that share so many connections.
//
// Processes share a Board in memory that all map; each runs its part of the clients on one loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "lib/channel/connect.h"
#include "lib/channel/mux.h"
#include "lib/metrics/families.h"

namespace verbena::scale {

enum class Transport : std::uint8_t { rdma, tcp };
inline std::string_view name_of(Transport transport) { return transport == Transport::rdma ? "rdma" : "tcp"; }

// How RDMA clients connect: over TCP, or by rdma_cm. Both shake hands in TLS.
enum class ConnectBy : std::uint8_t { tls_psn, rdmacm };
inline std::string_view name_of(ConnectBy by) { return by == ConnectBy::tls_psn ? "tls-psn" : "rdmacm"; }

// What is switched off, to see what it is worth: messages that share a frame (of either end); of the server, the
// receive buffers that its clients share, and completions that are taken many at a time.
enum class Without : std::uint8_t { nothing, coalescing, pooling, batched_polling };
std::string_view name_of(Without what);  // of nothing: ""

struct SwarmOptions {
	std::vector<std::string>
		hosts;  // of one server or several, which share the clients evenly; each may have a port of its own
	std::uint16_t port = 0;
	channel::Protection protection;
	lib::Wish wish;
	Transport transport = Transport::rdma;
	ConnectBy connect_by = ConnectBy::tls_psn;
	std::uint32_t clients = 10;
	std::uint32_t queue_pairs = 0;  // of all processes together, shared by logical clients; 0: each client has its own
	Without without = Without::nothing;
	std::uint32_t messages = 100;  // each; 0: as many as the time allows
	std::uint32_t handshakes = 64;  // set-ups under way at once, of one process, the others wait for their turn; 0: all
	std::uint32_t message_bytes = 1024;
	std::uint32_t window = 1;  // messages of a client that are under way at once
	Nanoseconds think = 10'000'000;  // between an echo and the next message
	Nanoseconds stagger = 0;  // client i waits (i mod 10) times this before it connects
	double rate = 0;  // messages a second of all clients together, evenly; 0: each as its echoes come
	Nanoseconds warmup = 0;  // with a duration: before what is measured
	Nanoseconds duration = 0;  // how long is measured; 0: until each has sent its messages
	Nanoseconds hold = 0;  // all stay connected so long after the last message
	bool metered = false;  // the board has histograms too
	std::uint32_t first_address = 0;  // on a host of its own: clients come from 127.0.0.1 and so many further on
	Nanoseconds patience = 120'000'000'000;
	Nanoseconds spin = 0;

	bool logical() const { return queue_pairs > 0; }
	bool timed() const { return duration > 0; }
};

// Why a client failed. A shortage of this side is no failure of the server's.
enum class Cause : std::uint8_t { none, connect, timed_out, descriptors, ports, lost, wrong_echo };
inline constexpr std::size_t causes = 7;
std::string_view name_of(Cause cause);
// Of a connection that was not made.
Cause cause_of(channel::ConnectTrouble trouble);

// What one client found; its row of the board.
struct ClientRow {
	std::uint32_t echoes = 0;
	Cause cause = Cause::none;
	bool connected = false;
	float connect_ms = 0;
	float latency_ms = 0;  // mean
};

// One process's figures; times in nanoseconds. With a duration only messages that began and ended in it are in
// `latency`.
struct PartRows {
	Histogram connect, latency;
	double latency_sum = 0;
	char first_failure[256] = {};
	char device[64] = {}, gid[64] = {};  // what its clients run on; empty over TCP
	std::uint32_t mtu = 0;
};

// Times are monotonic.
struct Board {
	std::atomic<std::uint32_t> settled{0};  // clients that are connected or have failed to
	std::atomic<std::uint32_t> connected{0};
	std::atomic<std::uint32_t> finished{0};  // clients that have sent everything, or failed
	std::atomic<std::uint64_t> connecting_began{UINT64_MAX},
		connecting_ended{0};  // the first that asks, the last that is ready
	std::atomic<std::uint64_t> began{0}, ended{0};  // of the messages
	std::atomic<std::uint64_t> first_finished{UINT64_MAX};  // of those that had all their echoes
	metrics::Buckets connects, round_trips;
	std::atomic<std::uint64_t> failures[causes]{};
};

// What so many connections need, on either side.
channel::RcOptions rc_options(const SwarmOptions& options, std::uint32_t connections);
// Of carriers of logical clients, on either side.
channel::MuxOptions mux_options(const SwarmOptions& options);

// Runs clients [first, last) of options.clients and returns when all clients of all parts are done. `rows` is that of
// all clients.
std::expected<void, std::string> run_part(const SwarmOptions& options, std::uint32_t first, std::uint32_t last,
	Board& board, ClientRow* rows, PartRows& part);

}  // namespace verbena::scale
