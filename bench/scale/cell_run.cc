#include "bench/scale/experiment.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <new>
#include <span>

#include "bench/scale/echo_service.h"
#include "lib/metrics/export.h"

namespace verbena::scale {
namespace {

// The clients of one process are limited by its descriptors and by the time of its one loop.
constexpr std::uint32_t clients_per_process = 10'000;
constexpr std::uint32_t logical_clients_per_process = 50'000;
constexpr std::uint64_t descriptors_aside = 64;  // for the process itself and its device
constexpr useconds_t look_us = 1000;
constexpr Nanoseconds tell_interval = 100'000'000;
// The time and the count of a Sample must be taken within this time.
constexpr Nanoseconds apart_max = 1'000'000;

EchoService* running = nullptr;
extern "C" void on_stop(int) {
	if (running != nullptr) running->stop();
}

// The report of the server's process, written to a pipe as raw bytes: once when it listens (port to
// `before`), and once at its end (everything).
struct ServerReport {
	std::uint16_t port = 0;
	char error[256] = {}, device[64] = {}, gid[64] = {};
	Engine engine = Engine::epoll;
	char engine_fallback_reason[256] = {};
	std::uint32_t mtu = 0;
	std::uint64_t queue_pairs_max = 0;
	ProcessUse before, after;
	std::uint64_t peak = 0, echoed = 0, lost = 0, refused = 0;
	channel::RcCounters counters;
};

template <std::size_t size> void put(char (&into)[size], const std::string& text) {
	std::strncpy(into, text.c_str(), size - 1);
}

// Raises the soft limit of open files to the hard one.
void use_all_descriptors() {
	rlimit limit{};
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

channel::RcOptions server_options(const ExperimentOptions& options) {
	const SwarmOptions& swarm = options.swarm;
	channel::RcOptions rc = options.engine == Engine::threads ? rc_options_per_thread
		: swarm.logical()                                     ? rc_options(swarm, swarm.queue_pairs)
						  : channel::many_connections({.units_max = std::max(8192u, swarm.clients * 6),
								.connections_max = swarm.clients + 16});
	rc.coalesce = swarm.without != Without::coalescing;
	if (swarm.without == Without::pooling) rc = channel::with_own_receives(rc);
	if (swarm.without == Without::batched_polling) rc.poll_batch = 1;
	return rc;
}

// The server's process: serves until SIGTERM, which it also gets when its parent dies.
void serve(const ExperimentOptions& options, EchoCounts& counts, int out) {
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	use_all_descriptors();
	ServerReport report;
	const auto say = [&] { return write(out, &report, sizeof report) == static_cast<ssize_t>(sizeof report); };
	const SwarmOptions& swarm = options.swarm;
	channel::MuxOptions mux = mux_options(swarm);
	mux.window = 16 << 10;
	EchoService service({.where = async::resolve("127.0.0.1", 0).value(),
		.protection = options.server_protection,
		.wish = {.both_ends_on_this_host = true},
		.rc = server_options(options),
		.acceptor = {.protection = options.server_protection},
		.engine = options.engine,
		.threads = swarm.clients,
		.logical = swarm.logical() ? swarm.clients : 0,
		.mux = mux,
		.spin = options.server_spin,
		.rdmacm = swarm.connect_by == ConnectBy::rdmacm,
		.counts = &counts});
	auto started = service.start();
	if (started && !service.rdmacm_error().empty()) started = std::unexpected(service.rdmacm_error());
	if (!started) {
		put(report.error, started.error());
		say();
		return;
	}
	running = &service;
	std::signal(SIGTERM, on_stop);
	const channel::Path path = service.path();
	report.port = service.port();
	put(report.device, path.device);
	put(report.gid, path.gid);
	report.engine = service.engine();
	put(report.engine_fallback_reason, service.engine_fallback_reason());
	report.mtu = path.mtu;
	report.queue_pairs_max = service.queue_pairs_max();
	report.before = use_of_process(getpid());
	if (!say()) return;
	service.run();
	report.after = use_of_process(getpid());
	report.peak = counts.peak;
	report.echoed = counts.echoed;
	report.lost = counts.lost;
	report.refused = service.acceptor_counters().refused;
	report.counters = service.counters();
	say();
}

// An array in memory that this process shares with those that it forks.
//
// Owns: the mapping; T must need no destructor.
template <class T> class Shared {
public:
	explicit Shared(std::size_t count) : bytes_(count * sizeof(T)) {
		void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED) throw std::bad_alloc();
		items_ = {new (at) T[count], count};
	}
	~Shared() { munmap(items_.data(), bytes_); }
	Shared(const Shared&) = delete;
	Shared& operator=(const Shared&) = delete;
	std::span<T> items() const { return items_; }

private:
	std::size_t bytes_;
	std::span<T> items_;
};

// One run, in the process that starts and watches the others.
//
// Owns: the processes of server and clients, which the destructor kills and reaps.
class Run {
public:
	Run(const ExperimentOptions& options, std::uint32_t parts, const std::function<void(const Moment&)>& tell)
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
		auto opened = metrics::Endpoint::open(options_.metrics, [this] { return families(); });
		if (!opened) return std::unexpected(opened.error());
		endpoint_ = std::move(*opened);
		if (options_.metrics_opened) options_.metrics_opened(endpoint_->port());
		return {};
	}

	metrics::Families families() const {
		using namespace metrics;
		Families all{gauge("verbena_test_clients", "Clients of this test", swarm_.clients),
			gauge("verbena_test_clients_connected", "Clients that have connected", board().connected.load()),
			board().connects.family(
				"verbena_connect_seconds", "From when a client wants to connect to its proven channel"),
			board().round_trips.family("verbena_round_trip_seconds", "From sending a message to its verified echo")};
		Family& failures = all.emplace_back(Family{.name = "verbena_test_failures_total",
			.help = "Clients that failed, by cause",
			.kind = Kind::counter,
			.samples = {}});
		for (std::size_t cause = 1; cause < causes; ++cause)
			failures.samples.push_back({.labels = {{"cause", std::string(name_of(static_cast<Cause>(cause)))}},
				.value = static_cast<double>(board().failures[cause].load()),
				.distribution = {}});
		return all;
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
		if (swarm_.hold == 0 || !finished || now > board().ended.load() + swarm_.hold * 9 / 10) return;
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
		Outcome out{.transport = swarm_.transport,
			.connect_by = swarm_.connect_by,
			.engine = options_.own_server ? report_.engine : options_.engine,
			.stalled = options_.stalled,
			.without = swarm_.without,
			.in_clear = std::holds_alternative<channel::ClearText>(swarm_.protection),
			.clients = swarm_.clients,
			.queue_pairs = swarm_.queue_pairs,
			.window = swarm_.window,
			.messages = swarm_.messages,
			.message_bytes = swarm_.message_bytes,
			.handshakes = swarm_.handshakes,
			.think_ms = static_cast<double>(swarm_.think) / 1e6,
			.stagger_ms = static_cast<double>(swarm_.stagger) / 1e6,
			.rate = swarm_.rate,
			.warmup_s = static_cast<double>(swarm_.warmup) / 1e9,
			.seconds = static_cast<double>(swarm_.duration) / 1e9,
			.rows = {rows_.items().begin(), rows_.items().end()}};
		const PartRows& any = results_.items().front();
		const char* const tcp = out.in_clear ? "tcp" : "tcp+tls";
		out.path = {.transport = swarm_.transport == Transport::tcp ? tcp : "rc",
			.device = any.device,
			.gid = any.gid,
			.mtu = any.mtu,
			.peer = {}};
		for (const PartRows& each : results_.items()) {
			out.connect.merge(each.connect);
			out.latency.merge(each.latency);
			out.latency_sum_ms += each.latency_sum / 1e6;
			if (each.first_failure[0] != '\0') out.first_failures.emplace_back(each.first_failure);
		}
		for (const ClientRow& row : out.rows) {
			++out.failures[static_cast<std::size_t>(row.cause)];
			out.echoes += row.echoes;
			out.good += row.cause == Cause::none;
			out.connected += row.connected;
			out.connect_sum_ms += row.connected ? static_cast<double>(row.connect_ms) : 0;
		}
		const auto between = [](std::uint64_t from, std::uint64_t to) {
			return to > from ? static_cast<double>(to - from) / 1e9 : 0;
		};
		out.connecting_s = between(board().connecting_began.load(), board().connecting_ended.load());
		out.messages_s = between(board().began.load(), board().ended.load());
		out.from = from_;
		out.to = to_;
		out.idle_from = idle_from_;
		out.idle_to = idle_to_;
		if (!options_.own_server) return out;
		out.server = ServerAccount{.path = {.transport = std::string(name_of(swarm_.transport)),
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
		return out;
	}

	const ExperimentOptions& options_;
	SwarmOptions swarm_;
	const std::function<void(const Moment&)>& tell_;
	std::uint32_t parts_;
	Shared<Board> board_{1};
	Shared<EchoCounts> counts_{1};
	Shared<ClientRow> rows_;
	Shared<PartRows> results_;
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

std::uint64_t descriptors_max() {
	rlimit limit{};
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_max;
}

std::expected<std::uint32_t, std::string> plan_processes(
	const SwarmOptions& swarm, std::uint32_t wanted, bool own_server, std::uint64_t descriptors_max) {
	const std::uint32_t clients = swarm.clients;
	if (swarm.logical()) {
		const std::uint32_t needed = (clients + logical_clients_per_process - 1) / logical_clients_per_process;
		return std::min({wanted == 0 ? needed : wanted, swarm.queue_pairs, clients});
	}
	const Transport transport = swarm.transport;
	const std::uint64_t room = descriptors_max > descriptors_aside ? descriptors_max - descriptors_aside : 0;
	const auto shortage = [&](const char* whose, std::uint64_t needed) {
		return std::unexpected(
			fmt::format("a shortage of descriptors on this host, not a failure of the server: {} needs {} for {} TCP "
						"clients, and a process may have {}: use fewer clients, or raise the limit (ulimit -Hn)",
				whose, needed + descriptors_aside, clients, descriptors_max));
	};
	if (transport == Transport::tcp && own_server && clients > room) return shortage("the server", clients);
	// RDMA clients close their descriptor once they are connected, but all may be connecting at
	// once.
	const std::uint64_t each = std::min<std::uint64_t>(clients_per_process, std::max<std::uint64_t>(room, 1));
	const auto needed = static_cast<std::uint32_t>((clients + each - 1) / each);
	if (wanted == 0) return needed;
	if (const std::uint64_t most = (clients + wanted - 1) / wanted; transport == Transport::tcp && most > room)
		return shortage("a client process", most);
	return std::min(wanted, clients);
}

std::expected<Outcome, std::string> run_experiment(
	const ExperimentOptions& options, const std::function<void(const Moment&)>& tell) {
	if (options.own_server && options.engine == Engine::threads && options.swarm.clients > engine_threads_max)
		return std::unexpected(too_many_threads());
	const auto parts = plan_processes(options.swarm, options.processes, options.own_server, descriptors_max());
	if (!parts) return std::unexpected(parts.error());
	std::signal(SIGPIPE, SIG_IGN);
	return Run(options, *parts, tell)();
}

}  // namespace verbena::scale
