#include "bench/kv/redis.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>

#include "base/statistics.h"
#include "base/time.h"
#include "bench/scale/redis.h"
#include "lib/async/socket.h"

namespace verbena::kvbench {
namespace {

constexpr Nanoseconds start_patience = 10'000'000'000;

// A redis-server without persistence in a folder of its own.
class Server {
public:
	Server() {
		char name[] = "/tmp/verbena-redis-XXXXXX";
		if (mkdtemp(name) != nullptr) folder_ = name;
		async::Loop loop;
		if (const auto socket = async::listen(loop, async::resolve("127.0.0.1", 0).value()); socket)
			port_ = async::local_address(**socket).port();
	}
	~Server() {
		if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
		if (folder_.empty()) return;
		unlink(socket().c_str());
		rmdir(folder_.c_str());
	}
	Server(const Server&) = delete;
	Server& operator=(const Server&) = delete;

	std::string socket() const { return folder_ + "/socket"; }
	std::uint16_t port() const { return port_; }
	bool start() {
		const std::string port = std::to_string(port_), path = socket();
		pid_ = fork();
		if (pid_ == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
			dup2(nowhere, STDOUT_FILENO);
			dup2(nowhere, STDERR_FILENO);
			execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port.c_str(), "--unixsocket", path.c_str(), "--save",
				"", "--appendonly", "no", "--daemonize", "no", "--dir", folder_.c_str(), nullptr);
			std::_Exit(127);
		}
		for (const Nanoseconds deadline = monotonic_now() + start_patience; !answers();) {
			if (waitpid(pid_, nullptr, WNOHANG) != 0 || monotonic_now() > deadline) return false;
			usleep(10'000);
		}
		return true;
	}

private:
	bool answers() const {
		sockaddr_un where{.sun_family = AF_UNIX, .sun_path = {}};
		socket().copy(where.sun_path, sizeof where.sun_path - 1);
		const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		const bool good = ::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
		::close(fd);
		return good;
	}
	std::string folder_;
	std::uint16_t port_ = 0;
	pid_t pid_ = 0;
};

std::expected<double, std::string> benchmark(
	const std::string& where, const std::string& op, std::uint64_t size, std::uint64_t window, std::uint64_t requests) {
	const std::string command =
		fmt::format("redis-benchmark {} -c 1 -P {} -d {} -n {} -t {} --csv 2>/dev/null", where, window, size, requests, op);
	std::FILE* const output = popen(command.c_str(), "r");
	if (output == nullptr) return std::unexpected("redis-benchmark cannot be started");
	std::string text;
	char piece[4096];
	while (const std::size_t got = std::fread(piece, 1, sizeof piece, output)) text.append(piece, got);
	pclose(output);
	return scale::read_redis_csv(text);
}

}  // namespace

std::expected<void, std::string> find_redis() { return scale::find_redis(); }

std::expected<void, std::string> add_redis(std::vector<Json>& rows, std::uint32_t repetitions, std::uint32_t iters) {
	Server server;
	if (!server.start()) return std::unexpected("redis-server did not start");
	std::map<std::string, double> known;
	for (Json& row : rows) {
		const auto size = row["value_bytes"].get<std::uint64_t>(), window = row["window"].get<std::uint64_t>();
		const std::string op = row["op"] == "SET" ? "set" : "get";
		const std::uint64_t requests = std::clamp<std::uint64_t>((std::uint64_t{1} << 30) / std::max<std::uint64_t>(size, 1), 200, iters);
		for (const bool unix : {true, false}) {
			const std::string where = unix ? "-s " + server.socket() : fmt::format("-h 127.0.0.1 -p {}", server.port());
			const std::string name = fmt::format("{} {} {} {}", op, size, window, unix);
			if (!known.contains(name)) {
				// So that a GET finds its key.
				if (const auto set = benchmark(where, "set", size, window, 100); !set) return std::unexpected(set.error());
				std::vector<double> rates;
				for (std::uint32_t i = 0; i < repetitions; ++i) {
					const auto rate = benchmark(where, op, size, window, requests);
					if (!rate) return std::unexpected(rate.error());
					rates.push_back(*rate);
				}
				known[name] = median(rates);
			}
			row[unix ? "redis_unix_per_second" : "redis_tcp_per_second"] = known[name];
		}
	}
	return {};
}

}  // namespace verbena::kvbench
