// SPDX-License-Identifier: Apache-2.0
// run_cell(): runs one cell of the benchmark's matrix: a server and a client, each in a process of
// its own, with a given number of requests in flight for a given time.
//
// A request counts if it began and ended within the measured time and its answer was right. On a
// loaded machine the time is longer than asked for if no request has counted yet.
//
// Threads: run_cell() forks, so the calling process must have one thread.
// Errors: one sentence, from the server, the client, or the process that runs both.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <type_traits>

#include "base/histogram.h"
#include "base/time.h"
#include "lib/rpc/io_threads.h"

namespace verbena::rpcbench {

// sink: a word of 13 bytes comes back; echo: the request's bytes come back.
enum class Mode : std::uint8_t { sink, echo };

// A behaviour of this library that a cell can be run without (--ablate).
//
//   inline_data      small messages are sent inline in their work requests
//   coalescing       requests and responses of one turn of the loop share messages, and messages
//                    that find no room share a frame
//   send_queue       several parts of large data are in flight: one is filled, others are fetched
//   pool             data is copied into memory that is registered already; without it the
//                    caller's memory is registered for each call
//   connection_pool  connections are kept and shared; without it each call makes its own
enum class Behaviour : std::uint8_t { none, inline_data, coalescing, send_queue, pool, connection_pool };

// The RPC system that runs the cell; `verbena` is this library.
enum class System : std::uint8_t { verbena, grpc, capnp };

struct CellOptions {
	System system = System::verbena;
	bool rdma = false;
	Mode mode = Mode::sink;
	std::uint64_t size = 128;  // bytes of a request's attachment
	std::uint32_t concurrency = 1;  // requests in flight on all connections together
	std::uint32_t connections = 1;
	std::uint32_t server_threads = 1;
	bool per_connection = false;  // recv_mode per_connection instead of srq
	bool registered = false;  // requests are in registered memory, which the server fetches
	std::uint32_t send_buffers = 0;  // ibv_config::send_buffer_cnt; 0: its default
	Behaviour ablation = Behaviour::none;  // the behaviour in which this cell and its twin differ
	bool without = false;  // this cell is the twin without it
	Nanoseconds warmup = 500'000'000, duration = 5'000'000'000;
	Nanoseconds spin = 50'000;  // threads poll this long after their last work

	bool lacks(Behaviour behaviour) const { return without && ablation == behaviour; }
};

// The result of a run. Plain bytes: it is copied between processes.
struct Outcome {
	// Requests that counted; that failed or had a wrong answer; that the server saw, with warm-up.
	std::uint64_t requests = 0, failed = 0, served = 0;
	std::uint32_t callers = 0;  // those that still called at the end of the measured time
	double seconds = 0;  // the measured time
	double latency_sum_us = 0;
	double core_to_core_ns = 0;  // the round trip between the two processes before the run; 0: none
	double client_cpu_s = 0, server_cpu_s = 0;  // all threads, in the measured time
	std::uint64_t frames = 0, messages = 0;  // sent by the client
	std::uint64_t connections = 0;  // accepted by the server
	rpc::RdmaUse rdma;  // the client's
	double pinned_kib = 0;  // memory that the server registered for each connection
	Histogram latency;  // nanoseconds
};
static_assert(std::is_trivially_copyable_v<Outcome>);

// The end of a measured time in which no request counts.
inline constexpr Nanoseconds measured_at_most = 10'000'000'000;

// Runs the cell, which takes `warmup` and `duration`; another system's by its program (peer.h).
std::expected<Outcome, std::string> run_cell(const CellOptions& options);

}  // namespace verbena::rpcbench
