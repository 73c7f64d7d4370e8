// SPDX-License-Identifier: Apache-2.0
// Many clients of an echo server, distributed over several processes. Each client has a connection
// of its own; with `queue_pairs` above 0 the clients are logical channels that share that number of
// connections. No client sends before every client has connected or failed to, and none disconnects
// before all are done. A message counts when its echo came back unchanged.
//
// Threads: each process runs its part of the clients on one loop, in one thread. The processes
//   synchronise by the atomics of a Board, in memory that all of them map.
// Errors: run_part() returns one sentence if its process cannot begin. A client that fails has the
//   cause in its ClientRow; PartRows has the text of the first failure of its process.
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

// The transport of all clients.
enum class Transport : std::uint8_t { rdma, tcp };
inline std::string_view name_of(Transport transport) { return transport == Transport::rdma ? "rdma" : "tcp"; }

// The way in which RDMA clients connect: over TCP or by rdma_cm, both with a TLS handshake.
enum class ConnectBy : std::uint8_t { tls_psn, rdmacm };
// The error message if TCP clients are to connect by rdma_cm.
inline constexpr std::string_view tcp_by_rdmacm = "rdma_cm connects queue pairs, and TCP has none";
inline std::string_view name_of(ConnectBy by) { return by == ConnectBy::tls_psn ? "tls-psn" : "rdmacm"; }

// An optimization that is switched off, to measure its effect:
// - coalescing: small messages share a frame (at both ends);
// - pooling: the server's clients share receive buffers;
// - batched_polling: the server takes many completions in one poll.
enum class Without : std::uint8_t { nothing, coalescing, pooling, batched_polling };
std::string_view name_of(Without what);  // "" for nothing

struct SwarmOptions {
	// HOST or HOST:PORT of each server; several servers share the clients evenly.
	std::vector<std::string> hosts;
	std::uint16_t port = 0;  // for hosts without a port
	channel::Protection protection;  // for the set-up of each connection
	lib::DeviceRequest wish;  // the device of RDMA clients
	Transport transport = Transport::rdma;
	ConnectBy connect_by = ConnectBy::tls_psn;
	std::uint32_t clients = 10;
	// The connections, of all processes together, that the clients share; 0: each client has its
	// own.
	std::uint32_t queue_pairs = 0;
	Without without = Without::nothing;
	std::uint32_t messages = 100;  // each client's number; 0: as many as the time allows
	std::uint32_t handshakes = 64;  // set-ups of a process at once, the others wait; 0: no limit
	std::uint32_t message_bytes = 1024;
	std::uint32_t window = 1;  // messages of a client that are under way at once
	Nanoseconds think = 10'000'000;  // without `rate`: between an echo and the next message
	Nanoseconds stagger = 0;  // client i waits (i mod 10) times this before it connects
	double rate = 0;  // messages a second of all clients; 0: as fast as echoes come
	Nanoseconds warmup = 0;  // with `duration`: time before the measured time
	Nanoseconds duration = 0;  // the measured time; 0: until each client has sent its messages
	Nanoseconds hold = 0;  // all clients stay connected this long after the last echo
	bool metered = false;  // fill the Board's histograms too
	// If all servers have IPv4 loopback addresses, every 10,000 clients share a source address, the
	// first of which is 127.0.0.1 + this number. Without effect with rdma_cm.
	std::uint32_t first_address = 0;
	Nanoseconds patience = 120'000'000'000;  // for the set-up of one client
	// For an echo: a client whose server does not answer for this long, for example because it is
	// stopped, fails as `timed_out`; 0: it waits for ever.
	Nanoseconds echo_patience = 60'000'000'000;
	Nanoseconds spin = 0;  // the time that a loop polls after its last work before it sleeps

	bool logical() const { return queue_pairs > 0; }  // clients are logical channels
	bool timed() const { return duration > 0; }  // a run ends by time
};

// The cause of a client's failure. A shortage of descriptors or ports on this side is not counted
// as the server's failure.
enum class Cause : std::uint8_t { none, connect, timed_out, descriptors, ports, lost, wrong_echo };
inline constexpr std::size_t causes = 7;  // the number of causes
std::string_view name_of(Cause cause);
// The cause for a failed attempt to connect.
Cause cause_of(channel::ConnectTrouble trouble);

// The result of one client.
struct ClientRow {
	std::uint32_t echoes = 0;  // messages whose echo came back unchanged
	Cause cause = Cause::none;
	bool connected = false;
	float connect_ms = 0;  // until its channel was ready
	float latency_ms = 0;  // the mean time from a message to its echo
};

// The result of one process; times are in nanoseconds. With `duration`, `latency` and its sum have
// only messages that began and ended in the measured time.
struct PartRows {
	Histogram connect, latency;
	std::uint64_t connect_sum_ns = 0, latency_sum_ns = 0;
	char first_failure[256] = {};  // a sentence; empty: no client failed
	char device[64] = {}, gid[64] = {};  // the device of its RDMA clients; empty over TCP
	std::uint32_t mtu = 0;  // the device's until the first connection is made, then that one's
};

// The state that all processes share, by which they agree when to begin and to end. Times are
// monotonic nanoseconds.
struct Board {
	std::atomic<std::uint32_t> settled{0};  // clients that have connected or failed to
	std::atomic<std::uint32_t> connected{0};
	std::atomic<std::uint32_t> finished{0};  // clients that have all their echoes, or have failed
	// When the first client began to connect, and when the last one was ready.
	std::atomic<std::uint64_t> connecting_began{UINT64_MAX}, connecting_ended{0};
	// When clients began to send; when the last was done.
	std::atomic<std::uint64_t> began{0}, ended{0};
	// When the first client had all its echoes.
	std::atomic<std::uint64_t> first_finished{UINT64_MAX};
	// Whether the last sample of the processes is taken. Until then no process ends: its CPU time
	// would be missing in the sample.
	std::atomic<bool> sampled{false};
	metrics::Buckets connects, round_trips;  // if `metered`
	std::atomic<std::uint64_t> failures[causes]{};  // by Cause
};

// The metrics of a run that is under way.
metrics::Families families_of(const Board& board, std::uint32_t clients);

// The options for this number of connections: of the clients of a process, and of a server with
// logical clients.
channel::RcOptions rc_options(const SwarmOptions& options, std::uint32_t connections);
// The options for the carriers of logical clients, at either end.
channel::MuxOptions mux_options(const SwarmOptions& options);

// Runs clients [first, last) in the calling process, and returns when all clients of all processes
// are done. `rows` has a row for each client of all processes; this process writes those of its
// own.
std::expected<void, std::string> run_part(const SwarmOptions& options, std::uint32_t first, std::uint32_t last,
	Board& board, ClientRow* rows, PartRows& part);

}  // namespace verbena::scale
