// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/redis.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/sizes.h"
#include "base/time.h"
#include "bench/rivals/server.h"

namespace verbena::scale {
namespace {

constexpr std::uint64_t descriptors_of_redis = 128;
constexpr const char* what_to_install =
	"install Debian's packages redis-server and redis-tools (and stop the service that they start), or leave out "
	"--with-redis";

// Starts a child whose standard output is `out`. The kernel kills it if its parent dies. It has a
// process group of its own, so that Ctrl-C does not end it in the middle of a repetition.
pid_t start(const std::vector<std::string>& words, int out) {
	const pid_t child = fork();
	if (child != 0) return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	dup2(out, STDOUT_FILENO);
	const int discarded = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (discarded >= 0) dup2(discarded, STDERR_FILENO);
	std::vector<char*> argv;
	for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
	argv.push_back(nullptr);
	execvp(argv[0], argv.data());
	std::_Exit(127);
}

// Owns a child: the destructor kills and reaps it.
struct Child {
	pid_t pid;
	~Child() {
		if (pid <= 0) return;
		kill(pid, SIGKILL);
		waitpid(pid, nullptr, 0);
	}
};

struct OpenFile {
	int fd;
	~OpenFile() { close(fd); }
};

}  // namespace

std::expected<void, std::string> find_redis() {
	for (const char* program : {"redis-server", "redis-benchmark"})
		if (!bench::is_on_path(program))
			return std::unexpected(fmt::format("cannot find {} on the PATH: {}", program, what_to_install));
	return {};
}

std::expected<void, std::string> plan_redis(std::uint32_t connections, std::uint64_t descriptors_max) {
	if (connections + descriptors_of_redis <= descriptors_max) return {};
	return std::unexpected(
		fmt::format("a shortage of descriptors on this host, not a failure of redis: redis-benchmark needs {} for {} "
					"connections, and a process may have {}: use fewer clients, or raise the limit (ulimit -Hn)",
			connections + descriptors_of_redis, connections, descriptors_max));
}

std::expected<RedisRun, std::string> measure_redis(
	std::uint32_t connections, std::uint32_t bytes, std::uint64_t requests) {
	bench::RivalServer server("redis");
	const std::string at = std::to_string(server.port());
	if (auto started = server.start(
			{"redis-server", "--bind", "127.0.0.1", "--port", at, "--save", "", "--appendonly", "no", "--daemonize",
				"no", "--maxclients", std::to_string(connections + 32), "--tcp-backlog", "4096"},
			bench::RivalServer::At::tcp);
		!started)
		return std::unexpected(started.error());

	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(fmt::format("pipe: {}", std::strerror(errno)));
	const Nanoseconds begun = monotonic_now();
	const Child client{start({"redis-benchmark", "-h", "127.0.0.1", "-p", at, "-c", std::to_string(connections), "-n",
								 std::to_string(requests), "--csv", "ECHO", std::string(bytes, 'x')},
		ends[1])};
	close(ends[1]);
	const OpenFile output{ends[0]};
	std::string text;
	char piece[4096];
	for (ssize_t got; (got = read(output.fd, piece, sizeof piece)) > 0;)
		text.append(piece, static_cast<std::size_t>(got));
	const Nanoseconds elapsed = monotonic_now() - begun;
	const auto rate = read_redis_csv(text);
	if (!rate) return std::unexpected(rate.error());
	// Its clock has milliseconds, so a shorter run has no rate.
	if (!std::isfinite(*rate)) return std::unexpected("redis-benchmark was done too soon to have a rate");
	return RedisRun{
		.requests = requests, .elapsed_ns = elapsed, .requests_per_s = *rate, .latency = read_redis_latency(text)};
}

std::expected<double, std::string> read_redis_csv(std::string_view text) {
	std::optional<double> rate;
	for (const std::string_view line : split(text, '\n')) {
		const auto from = line.find("\",\"");
		if (!line.starts_with('"') || from == line.npos) continue;
		double number = 0;
		const char* const begin = line.data() + from + 3;
		const auto [end, error] = std::from_chars(begin, line.data() + line.size(), number);
		if (error == std::errc() && end < line.data() + line.size() && *end == '"') rate = number;
	}
	if (!rate || *rate <= 0) return std::unexpected("redis-benchmark printed no rate");
	return *rate;
}

RedisLatency read_redis_latency(std::string_view text) {
	std::vector<std::string_view> names, values;  // in the first and the last quoted line
	for (const std::string_view line : split(text, '\n')) {
		if (!line.starts_with('"')) continue;
		values = split(line, ',');
		if (names.empty()) names = values;
	}
	const auto of = [&](std::string_view name) -> std::optional<double> {
		const auto found = std::ranges::find(names, name);
		const auto at = static_cast<std::size_t>(found - names.begin());
		if (found == names.end() || at >= values.size() || values[at].size() < 3) return {};
		double ms = 0;
		const char* const begin = values[at].data() + 1;
		const auto [end, error] = std::from_chars(begin, begin + values[at].size() - 2, ms);
		return error == std::errc() && *end == '"' ? std::optional(ms) : std::nullopt;
	};
	return {.mean_ms = of("\"avg_latency_ms\""),
		.p50_ms = of("\"p50_latency_ms\""),
		.p99_ms = of("\"p99_latency_ms\""),
		.max_ms = of("\"max_latency_ms\"")};
}

}  // namespace verbena::scale
