// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/cell_run.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "bench/scale/process_plan.h"
#include "bench/scale/shared_array.h"
#include "lib/metrics/export.h"

namespace verbena::scale {
namespace {

constexpr useconds_t look_us = 1000;
constexpr Nanoseconds tell_interval = 100'000'000;
// The time and the count of a Sample must be taken within this time.
constexpr Nanoseconds apart_max = 1'000'000;

// One run, in the process that starts and watches the others.
//
// Owns: the processes of server and clients, which the destructor kills and reaps.
class Run {
public:
	Run(const RunOptions& options, std::uint32_t parts, const std::function<void(const Moment&)>& tell)
		: options_(options), swarm_(options.swarm), tell_(tell), parts_(parts), rows_(swarm_.clients), results_(parts) {
		swarm_.metered = !options.metrics.empty();
	}
	~Run() {
		for (const pid_t worker : workers_) kill(worker, SIGKILL);
		if (server_ > 0) kill(server_, SIGKILL);
		for (const pid_t worker : workers_) waitpid(worker, nullptr, 0);
		if (server_ > 0) waitpid(server_, nullptr, 0);
		if (from_server_ >= 0) close(from_server_);
		for (const int fd : stalled_) close(fd);
	}
	Run(const Run&) = delete;
	Run& operator=(const Run&) = delete;

	std::expected<Outcome, std::string> operator()() {
		begun_ = monotonic_now();
		if (options_.own_server)
			if (auto started = start_server(); !started) return std::unexpected(started.error());
		if (auto stalled = stall(); !stalled) return std::unexpected(stalled.error());
		kernel_before_ = kernel_socket_bytes();
		start_clients();
		if (auto opened = open_metrics(); !opened) return std::unexpected(opened.error());
		if (auto watched = watch(); !watched) return std::unexpected(watched.error());
		if (server_ > 0 && !end_server())
			return std::unexpected("the server's process ended without a report: it crashed or was killed");
		return outcome();
	}

private:
	Board& board() const { return board_.items()[0]; }
	EchoCounts& counts() const { return counts_.items()[0]; }

	std::expected<void, std::string> start_server() {
		int ends[2];
		if (pipe(ends) != 0) return std::unexpected(fmt::format("pipe: {}", std::strerror(errno)));
		server_ = fork();
		if (server_ == 0) {
			close(ends[0]);
			serve(options_, counts(), ends[1]);
			std::_Exit(0);
		}
		close(ends[1]);
		from_server_ = ends[0];
		if (server_ < 0) return std::unexpected(fmt::format("fork: {}", std::strerror(errno)));
		if (!hear()) return std::unexpected("the server's process ended before it listened: it crashed or was killed");
		if (report_.error[0] != '\0') return std::unexpected(report_.error);
		swarm_.hosts = {"127.0.0.1"};
		swarm_.port = report_.port;
		return {};
	}
	// Waits for the next report of the server's process; false if it ended without one.
	bool hear() { return read(from_server_, &report_, sizeof report_) == static_cast<ssize_t>(sizeof report_); }
	bool end_server() {
		kill(server_, SIGTERM);
		const bool heard = hear();
		waitpid(server_, nullptr, 0);
		server_ = 0;
		return heard;
	}

	void start_clients() {
		for (std::uint32_t part = 0; part < parts_; ++part) {
			const pid_t worker = fork();
			if (worker == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				std::signal(SIGINT, SIG_IGN);  // the parent gets Ctrl-C as well, and decides
				use_all_descriptors();
				const auto first = static_cast<std::uint32_t>(std::uint64_t{swarm_.clients} * part / parts_);
				const auto last = static_cast<std::uint32_t>(std::uint64_t{swarm_.clients} * (part + 1) / parts_);
				PartRows& result = results_.items()[part];
				const auto done = run_part(swarm_, first, last, board(), rows_.items().data(), result);
				if (!done) put(result.first_failure, done.error());
				std::_Exit(done ? 0 : 1);
			}
			if (worker > 0) workers_.push_back(worker);
		}
	}

	// Opens the stalled connections: each sends the first byte of a TLS record (RFC 8446, 5.1) and
	// nothing more.
	std::expected<void, std::string> stall() {
		const auto address = async::resolve(swarm_.hosts.front(), swarm_.port);
		if (options_.stalled > 0 && !address) return std::unexpected(address.error());
		for (std::uint32_t i = 0; i < options_.stalled; ++i) {
			const int fd = socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (fd >= 0) stalled_.push_back(fd);
			const char record = 22;
			if (fd < 0 || ::connect(fd, address->get(), address->length) != 0 || write(fd, &record, 1) != 1)
				return std::unexpected(fmt::format("cannot open stalled connection {}: {}", i, std::strerror(errno)));
		}
		return {};
	}

	// Call after all forks: a forked process has only the forking thread, and locks that another
	// thread held stay locked in it.
	std::expected<void, std::string> open_metrics() {
		if (!swarm_.metered) return {};
		auto opened =
			metrics::Endpoint::open(options_.metrics, [this] { return families_of(board(), swarm_.clients); });
		if (!opened) return std::unexpected(opened.error());
		endpoint_ = std::move(*opened);
		if (options_.metrics_opened) options_.metrics_opened(endpoint_->port());
		return {};
	}

	Sample sample() const {
		Sample now;
		// A rate is computed from time and count, so take both again if this process was preempted
		// in between.
		do {
			now.at = monotonic_now();
			now.echoed = counts().echoed.load();
		} while (monotonic_now() - now.at > apart_max);
		if (server_ > 0) now.server = use_of_process(server_);
		for (const pid_t worker : workers_) now.clients += use_of_process(worker);
		return now;
	}

	void say(const char* doing) {
		const Nanoseconds now = monotonic_now();
		if (now - told_ < tell_interval) return;
		told_ = now;
		tell_(
			{.doing = doing, .connected = board().connected.load(), .clients = swarm_.clients, .since = now - begun_});
	}

	// Takes the two samples of the idle server, while all clients stay connected after the last
	// echo: the first at the beginning of that time, the second a little before its end.
	void sample_idle(bool finished) {
		const Nanoseconds now = monotonic_now();
		if (!finished || !is_idle_time(now, board().ended.load(), swarm_.hold)) return;
		if (idle_from_.at == 0) idle_from_ = sample();
		else if (now - std::max(idle_from_.at, idle_to_.at) > tell_interval) idle_to_ = sample();
	}

	// Reaps client processes that have ended. The error is that of the first one that failed.
	std::expected<void, std::string> reap() {
		for (std::size_t i = 0; i < workers_.size();) {
			int status = 0;
			if (waitpid(workers_[i], &status, WNOHANG) != workers_[i]) {
				++i;
				continue;
			}
			workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
			if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
			if (WIFSIGNALED(status))
				return std::unexpected(fmt::format("a client process was killed by signal {}", WTERMSIG(status)));
			for (const PartRows& each : results_.items())
				if (each.first_failure[0] != '\0') return std::unexpected(each.first_failure);
			return std::unexpected("a client process failed");
		}
		return {};
	}

	// Watches the clients' processes until all have ended, and takes the samples at the beginning
	// and the end of the measured time. The board says when each stage is over; it is read every
	// millisecond.
	std::expected<void, std::string> watch() {
		enum class Stage { connecting, warming_up, measuring, ending } stage = Stage::connecting;
		if (workers_.size() < parts_) return std::unexpected(fmt::format("fork: {}", std::strerror(errno)));
		while (true) {
			const std::uint64_t began = board().began.load(), now = monotonic_now();
			const bool finished = board().finished.load() == swarm_.clients;
			switch (stage) {
				case Stage::connecting:
					say("connecting");
					if (began == 0) break;
					if (server_ > 0) connected_ = use_of_process(server_);
					kernel_connected_ = kernel_socket_bytes();
					told_ = 0;
					say("connected");
					stage = Stage::warming_up;
					[[fallthrough]];
				case Stage::warming_up:
					say("warming up");
					if (swarm_.timed() && now < began + swarm_.warmup && !finished) break;
					from_ = to_ = sample();
					stage = Stage::measuring;
					[[fallthrough]];
				case Stage::measuring: {
					say("measuring");
					const bool time_is_up = swarm_.timed() &&
						(now >= began + swarm_.warmup + swarm_.duration || board().first_finished.load() <= now);
					if (!time_is_up && !finished) break;
					to_ = sample();
					board().sampled.store(true);
					stage = Stage::ending;
					break;
				}
				case Stage::ending:
					say("ending");
					sample_idle(finished);
					break;
			}
			if (auto reaped = reap(); !reaped) return reaped;
			if (workers_.empty()) {
				if (stage == Stage::ending) return {};
				// A short run may begin and end between two reads of the board. The remaining
				// stages are then due one after the other.
				if (board().finished.load() != swarm_.clients)
					return std::unexpected("the client processes ended before all messages were sent");
				continue;
			}
			usleep(look_us);
		}
	}

	// Combines the counts of all processes.
	Outcome outcome() const {
		Outcome out{.cell = cell_of(swarm_, options_.own_server ? report_.engine : options_.engine, options_.stalled,
						options_.own_server),
			.rows = {rows_.items().begin(), rows_.items().end()}};
		const PartRows& any = results_.items().front();
		const char* const tcp = out.cell.in_clear ? "tcp" : "tcp+tls";
		out.path = {.transport = swarm_.transport == Transport::tcp ? tcp : "rc",
			.device = any.device,
			.gid = any.gid,
			.mtu = any.mtu,
			.peer = {}};
		for (const PartRows& each : results_.items()) {
			out.connect.merge(each.connect);
			out.latency.merge(each.latency);
			out.connect_sum_ns += each.connect_sum_ns;
			out.latency_sum_ns += each.latency_sum_ns;
			if (each.first_failure[0] != '\0') out.first_failures.emplace_back(each.first_failure);
		}
		for (const ClientRow& row : out.rows) {
			++out.failures[static_cast<std::size_t>(row.cause)];
			out.echoes += row.echoes;
			out.good += row.cause == Cause::none;
			out.connected += row.connected;
		}
		const auto between = [](std::uint64_t from, std::uint64_t to) { return to > from ? to - from : 0; };
		out.connecting_ns = between(board().connecting_began.load(), board().connecting_ended.load());
		out.messages_ns = between(board().began.load(), board().ended.load());
		out.from = from_;
		out.to = to_;
		out.idle_from = idle_from_;
		out.idle_to = idle_to_;
		if (options_.own_server) out.server = server_account();
		return out;
	}

	ServerAccount server_account() const {
		return {.path = {.transport = std::string(name_of(swarm_.transport)),
					.device = report_.device,
					.gid = report_.gid,
					.mtu = report_.mtu,
					.peer = {}},
			.before = report_.before,
			.connected = connected_,
			.after = report_.after,
			.kernel_before = kernel_before_,
			.kernel_connected = kernel_connected_,
			.threads_peak = counts().threads_peak.load(),
			.peak = report_.peak,
			.echoed = report_.echoed,
			.lost = report_.lost,
			.refused = report_.refused,
			.engine_fallback_reason = report_.engine_fallback_reason,
			.queue_pairs_max = report_.queue_pairs_max,
			.queue_pairs = swarm_.transport == Transport::tcp ? 0
				: swarm_.logical()                            ? counts().carriers_peak.load()
															  : report_.peak,
			.labels = counts().labels.load(),
			.counters = report_.counters};
	}

	const RunOptions& options_;
	SwarmOptions swarm_;
	const std::function<void(const Moment&)>& tell_;
	std::uint32_t parts_;
	SharedArray<Board> board_{1};
	SharedArray<EchoCounts> counts_{1};
	SharedArray<ClientRow> rows_;
	SharedArray<PartRows> results_;
	pid_t server_ = 0;
	int from_server_ = -1;
	std::vector<int> stalled_;
	ServerReport report_;
	std::vector<pid_t> workers_;
	ProcessUse connected_;
	std::uint64_t kernel_before_ = 0, kernel_connected_ = 0;
	Sample from_, to_, idle_from_, idle_to_;
	Nanoseconds begun_ = 0, told_ = 0;
	std::unique_ptr<metrics::Endpoint> endpoint_;  // last: must be destroyed before what it reads
};

}  // namespace

std::expected<Outcome, std::string> run_cell(
	const RunOptions& options, const std::function<void(const Moment&)>& tell) {
	if (options.own_server && options.engine == Engine::threads && options.swarm.clients > engine_threads_max)
		return std::unexpected(too_many_threads());
	const auto parts = plan_processes(options.swarm, options.processes, options.own_server, descriptors_max());
	if (!parts) return std::unexpected(parts.error());
	std::signal(SIGPIPE, SIG_IGN);
	return Run(options, *parts, tell)();
}

}  // namespace verbena::scale
