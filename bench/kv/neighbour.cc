#include "bench/kv/neighbour.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "base/statistics.h"
#include "base/time.h"
#include "lib/async/socket.h"

namespace verbena::kvbench {
namespace {

constexpr Nanoseconds start_patience = 10'000'000'000;
constexpr unsigned look_us = 10'000;  // between two attempts to connect

// Operation, bytes of a value and window. Other stores have no choice of protocol, so one
// measurement serves all rows that agree in these.
using WorkOf = std::tuple<Op, std::uint64_t, std::uint64_t>;
WorkOf work_of(const Json& row) {
	return {row["op"] == "SET" ? Op::set : Op::get, row["value_bytes"].get<std::uint64_t>(),
		row["window"].get<std::uint64_t>()};
}

}  // namespace

Neighbour::Neighbour(const std::string& name) {
	std::string folder = "/tmp/verbena-" + name + "-XXXXXX";
	if (mkdtemp(folder.data()) != nullptr) folder_ = folder;
	async::Loop loop;
	if (const auto socket = async::listen(loop, async::resolve("127.0.0.1", 0).value()); socket)
		port_ = async::local_address(**socket).port();
}

Neighbour::~Neighbour() {
	if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
	if (folder_.empty()) return;
	unlink(socket().c_str());
	rmdir(folder_.c_str());
}

bool Neighbour::start(std::vector<std::string> command, At at) {
	pid_ = fork();
	if (pid_ == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) {
			dup2(nowhere, STDOUT_FILENO);
			dup2(nowhere, STDERR_FILENO);
		}
		std::vector<char*> words;
		for (std::string& word : command) words.push_back(word.data());
		words.push_back(nullptr);
		execvp(words.front(), words.data());
		std::_Exit(127);
	}
	for (const Nanoseconds deadline = monotonic_now() + start_patience;;) {
		if (const int fd = connect(at); fd >= 0) {
			::close(fd);
			return true;
		}
		if (waitpid(pid_, nullptr, WNOHANG) != 0) {
			pid_ = 0;
			return false;
		}
		if (monotonic_now() > deadline) return false;
		usleep(look_us);
	}
}

int Neighbour::connect(At at) const {
	sockaddr_un by_name{.sun_family = AF_UNIX, .sun_path = {}};
	socket().copy(by_name.sun_path, sizeof by_name.sun_path - 1);
	sockaddr_in by_port{
		.sin_family = AF_INET, .sin_port = htons(port_), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
	const int fd = ::socket(at == At::socket ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const auto* const where =
		at == At::socket ? reinterpret_cast<const sockaddr*>(&by_name) : reinterpret_cast<const sockaddr*>(&by_port);
	if (fd >= 0 && ::connect(fd, where, at == At::socket ? sizeof by_name : sizeof by_port) == 0) {
		const int on = 1;
		if (at == At::port) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		return fd;
	}
	if (fd >= 0) ::close(fd);
	return -1;
}

std::size_t measurements(const std::vector<Json>& rows) {
	std::set<WorkOf> works;
	for (const Json& row : rows) works.insert(work_of(row));
	return works.size() * 2;
}

std::expected<void, std::string> add_rates(
	std::vector<Json>& rows, const std::string& name, const Effort& effort, const Measure& measure) {
	constexpr std::uint64_t bytes_max = std::uint64_t{1} << 30, requests_min = 200;
	std::map<std::pair<WorkOf, Neighbour::At>, double> known;
	for (Json& row : rows) {
		const WorkOf work = work_of(row);
		const auto [op, size, window] = work;
		const auto most = std::max<std::uint64_t>(effort.iters, requests_min);
		const std::uint64_t requests = std::clamp(bytes_max / std::max<std::uint64_t>(size, 1), requests_min, most);
		for (const auto at : {Neighbour::At::socket, Neighbour::At::port}) {
			const auto [entry, fresh] = known.try_emplace({work, at}, 0.0);
			if (fresh) {
				if (!effort.next(fmt::format("{} over {}, {} {} window {}", name,
						at == Neighbour::At::socket ? "a unix socket" : "TCP", name_of(op), bytes_text(size), window)))
					return std::unexpected("interrupted");
				// A GET must find its key.
				if (const auto set = measure(at, {Op::set, size, window, window}); !set)
					return std::unexpected(set.error());
				std::vector<double> rates;
				for (std::uint32_t i = 0; i < effort.repetitions; ++i) {
					const auto rate = measure(at, {op, size, window, requests});
					if (!rate) return std::unexpected(rate.error());
					rates.push_back(*rate);
				}
				entry->second = median(rates);
			}
			row[name + (at == Neighbour::At::socket ? "_unix_per_second" : "_tcp_per_second")] = entry->second;
		}
	}
	return {};
}

}  // namespace verbena::kvbench
