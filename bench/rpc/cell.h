// One cell of the matrix: a server and a client, each a process of its own, and so many requests in flight for so long.
//
// Requests count when their answer was checked, within the measured time only.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "base/histogram.h"
#include "base/time.h"
#include "lib/rpc/io_threads.h"

namespace verbena::rpcbench {

enum class Mode : std::uint8_t { sink, echo };

// A behaviour of ours that a cell can be run without.
//
//   inline           small messages go inline in their work requests
//   coalescing       requests and answers of one turn share messages, and messages that find no room share a frame
//   send_queue       several parts of large data are under way, and one is filled while another is fetched
//   pool             data is copied into memory that is registered already; without: the caller's memory is registered
//   for each call connection_pool  connections are kept and shared; without: each call makes its own
enum class Behaviour : std::uint8_t { none, inline_data, coalescing, send_queue, pool, connection_pool };

enum class Peer : std::uint8_t { ours, grpc, capnp };

struct CellOptions {
	Peer peer = Peer::ours;
	bool rdma = false;
	Mode mode = Mode::sink;
	std::uint64_t size = 128;
	std::uint32_t concurrency = 1;  // requests in flight on all connections together
	std::uint32_t connections = 1;
	std::uint32_t server_threads = 1;
	bool per_connection = false;  // receive buffers of each connection's own
	bool registered = false;  // requests lie in registered memory
	std::uint32_t send_buffers = 0;  // blocks of a connection under way at once; 0: as many as by default
	Behaviour ablation = Behaviour::none;  // the one that this cell and another differ in
	bool without = false;  // and whether this is the one that lacks it
	Nanoseconds warmup = 500'000'000, duration = 5'000'000'000;
	Nanoseconds spin = 50'000;  // how long threads poll after their last work

	bool lacks(Behaviour behaviour) const { return without && ablation == behaviour; }
};

struct Outcome {
	std::uint64_t requests = 0, failed = 0, served = 0;  // served: what the server counted, warm-up included
	double seconds = 0;
	double latency_sum_us = 0;
	double client_cpu_s = 0, server_cpu_s = 0;
	std::uint64_t frames = 0, messages = 0;  // that the client sent
	std::uint64_t connections = 0;  // that the server was asked for
	rpc::RdmaUse rdma;  // of the client
	double pinned_kib = 0;  // registered by the server for each connection
	Histogram latency;  // nanoseconds

	double qps() const { return seconds > 0 ? static_cast<double>(requests) / seconds : 0; }
	double mean_us() const { return requests > 0 ? latency_sum_us / static_cast<double>(requests) : 0; }
	double cpu_us() const {
		return requests > 0 ? (client_cpu_s + server_cpu_s) * 1e6 / static_cast<double>(requests) : 0;
	}
};

// The calling process must have no threads: it forks. Of a peer: by its program in the folder of this one.
std::expected<Outcome, std::string> run_cell(const CellOptions& options);

}  // namespace verbena::rpcbench
