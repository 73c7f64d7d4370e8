#include "bench/scale/redis.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/sizes.h"
#include "base/time.h"
#include "lib/async/socket.h"

namespace verbena::scale {
namespace {

constexpr std::uint64_t descriptors_of_redis = 128;
constexpr Nanoseconds start_patience = 10'000'000'000;
constexpr const char* what_to_install =
	"install Debian's packages redis-server and redis-tools (and stop the service that they start), or leave out "
	"--with-redis";

bool is_on_path(std::string_view program) {
	const char* path = std::getenv("PATH");
	for (const std::string_view folder : split(path != nullptr ? path : "", ':'))
		if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
	return false;
}

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

std::expected<std::uint16_t, std::string> free_port(async::Loop& loop) {
	const auto socket = async::listen(loop, async::resolve("127.0.0.1", 0).value());
	if (!socket) return std::unexpected(socket.error());
	return async::local_address(**socket).port();
}

// Whether a server accepts connections at the port.
bool answers(async::Loop& loop, std::uint16_t port) {
	bool connected = false;
	const auto knock = [&]() -> async::Task<void> {
		const async::Address where = async::resolve("127.0.0.1", port).value();
		auto socket = co_await async::connect(loop, where, monotonic_now() + start_patience);
		connected = socket.has_value();
	};
	loop.complete(knock());
	return connected;
}

}  // namespace

std::expected<void, std::string> find_redis() {
	for (const char* program : {"redis-server", "redis-benchmark"})
		if (!is_on_path(program))
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
	async::Loop loop;
	const auto port = free_port(loop);
	if (!port) return std::unexpected(port.error());
	const std::string at = std::to_string(*port);

	const OpenFile nowhere{open("/dev/null", O_WRONLY | O_CLOEXEC)};
	const Child server{
		start({"redis-server", "--bind", "127.0.0.1", "--port", at, "--save", "", "--appendonly", "no", "--daemonize",
				  "no", "--maxclients", std::to_string(connections + 32), "--tcp-backlog", "4096"},
			nowhere.fd)};
	for (const Nanoseconds deadline = monotonic_now() + start_patience; !answers(loop, *port);) {
		if (waitpid(server.pid, nullptr, WNOHANG) != 0 || monotonic_now() > deadline)
			return std::unexpected("redis-server did not start within 10 s");
		usleep(10'000);
	}

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
