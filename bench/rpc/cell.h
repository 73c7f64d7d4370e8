// One cell of the matrix: a server and a client, each a process of its own, and so many requests in flight for so long.
//
// The calling process must have no threads: it forks. Requests count when their answer was checked, within the measured time only.
#pragma once

#include <expected>
#include <string>

#include "base/histogram.h"
#include "base/time.h"

namespace verbena::rpcbench {

enum class Mode : std::uint8_t { sink, echo };

struct CellOptions {
	bool rdma = false;
	Mode mode = Mode::sink;
	std::uint64_t size = 128;
	std::uint32_t concurrency = 1;  // requests in flight on all connections together
	std::uint32_t connections = 1;
	std::uint32_t server_threads = 1;
	Nanoseconds warmup = 500'000'000, duration = 5'000'000'000;
	Nanoseconds spin = 50'000;  // how long threads poll after their last work
};

struct Outcome {
	std::uint64_t requests = 0, failed = 0, served = 0;  // served: what the server counted, warm-up included
	double seconds = 0;
	double latency_sum_us = 0;
	double client_cpu_s = 0, server_cpu_s = 0;
	std::uint64_t frames = 0, messages = 0;  // that the client sent
	Histogram latency;                      // nanoseconds

	double qps() const { return seconds > 0 ? static_cast<double>(requests) / seconds : 0; }
	double mean_us() const { return requests > 0 ? latency_sum_us / static_cast<double>(requests) : 0; }
	double cpu_us() const { return requests > 0 ? (client_cpu_s + server_cpu_s) * 1e6 / static_cast<double>(requests) : 0; }
};

std::expected<Outcome, std::string> run_cell(const CellOptions& options);

}  // namespace verbena::rpcbench
