#include "bench/kv/redis.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "bench/scale/redis.h"

namespace verbena::kvbench {
namespace {

std::expected<double, std::string> benchmark_once(const std::string& where, const Load& load) {
	const std::string command = fmt::format("redis-benchmark {} -c 1 -P {} -d {} -n {} -t {} --csv 2>/dev/null", where,
		load.window, load.size, load.requests, load.op == Op::set ? "set" : "get");
	std::FILE* const output = popen(command.c_str(), "r");
	if (output == nullptr) return std::unexpected("redis-benchmark cannot be started");
	std::string text;
	char piece[4096];
	while (const std::size_t got = std::fread(piece, 1, sizeof piece, output)) text.append(piece, got);
	pclose(output);
	return scale::read_redis_csv(text);
}

// redis-benchmark has a clock of milliseconds, so a shorter run has no rate and is repeated with
// more requests. It sometimes gives up if the last pipeline is not full, so the number of requests
// is rounded up to whole pipelines.
std::expected<double, std::string> benchmark(const std::string& where, Load load) {
	load.requests = (load.requests + load.window - 1) / load.window * load.window;
	while (true) {
		const auto rate = benchmark_once(where, load);
		if (!rate || std::isfinite(*rate)) return rate;
		load.requests *= 10;
	}
}

}  // namespace

std::expected<void, std::string> find_redis() { return scale::find_redis(); }

std::expected<void, std::string> add_redis(std::vector<Json>& rows, const Effort& effort) {
	Neighbour server("redis");
	if (!server.start(
			{"redis-server", "--bind", "127.0.0.1", "--port", std::to_string(server.port()), "--unixsocket",
				server.socket(), "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", server.folder()},
			Neighbour::At::socket))
		return std::unexpected("redis-server did not start");
	return add_rates(rows, "redis", effort, [&](Neighbour::At at, const Load& load) {
		return benchmark(
			at == Neighbour::At::socket ? "-s " + server.socket() : fmt::format("-h 127.0.0.1 -p {}", server.port()),
			load);
	});
}

}  // namespace verbena::kvbench
