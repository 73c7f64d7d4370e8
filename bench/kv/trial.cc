#include "bench/kv/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>

#include "bench/kv/worker.h"
#include "lib/kv/service.h"

namespace verbena::kvbench {
namespace {

// A message of the server process: first `port` or `error`, at the end the counts as well.
struct ServerMessage {
	std::uint16_t port = 0;
	char error[256] = {};
	char device[64] = {}, gid[48] = {};
	std::uint32_t mtu = 0;
	std::uint64_t requests = 0, written = 0, registrations = 0, keys = 0, used_bytes = 0;
};

// A message of a client process after each run, or an error.
struct WorkerMessage {
	Run run;
	std::uint64_t operations = 0;
	char error[256] = {};
};

template <std::size_t size> void put(char (&to)[size], const std::string& text) { text.copy(to, size - 1); }
template <class T> void write_message(int fd, const T& what) {
	[[maybe_unused]] const auto done = write(fd, &what, sizeof what);
}
template <class T> bool read_message(int fd, T& what) {
	std::size_t got = 0;
	while (got < sizeof what) {
		const ssize_t more = read(fd, reinterpret_cast<char*>(&what) + got, sizeof what - got);
		if (more == 0 || (more < 0 && errno != EINTR)) return false;
		if (more > 0) got += static_cast<std::size_t>(more);
	}
	return true;
}

kv::Service* serving = nullptr;  // for the signal handler

// The server process: reports its port or an error, serves until SIGTERM, then reports its counts.
void serve(const TrialOptions& options, int out) {
	ServerMessage told;
	kv::Service service({.where = async::resolve("127.0.0.1", 0).value(),
		.protection = options.server_protection,
		.wish = {.device = options.device, .both_ends_on_this_host = true},
		.settings = options.settings,
		.server = {.eager_max = options.settings.eager_max},
		.spin = options.spin});
	if (const auto started = service.start(); !started) {
		put(told.error, started.error());
		return write_message(out, told);
	}
	serving = &service;
	std::signal(SIGTERM, [](int) { serving->stop(); });
	const channel::Path path = service.path();
	told.port = service.port();
	told.mtu = path.mtu;
	put(told.device, path.device);
	put(told.gid, path.gid);
	write_message(out, told);
	service.run();
	told.requests = service.counters().requests;
	told.written = service.counters().written_sets;
	told.registrations = service.counts().registrations;
	told.keys = service.store().size();
	told.used_bytes = service.store().used();
	write_message(out, told);
}

std::expected<std::unique_ptr<kv::Session>, std::string> open_session(const TrialOptions& options, std::uint16_t port) {
	// The memory limit in the options is the store's; clients have the default.
	kv::Settings settings = options.settings;
	settings.memory = kv::Settings{}.memory;
	return kv::Session::open({.host = "127.0.0.1",
		.port = port,
		.protection = options.client_protection,
		.device = options.device,
		.tcp = options.tcp,
		.settings = settings,
		.spin = options.spin});
}

// Reports once the worker has done an operation.
async::Task<void> report_when_at_work(async::Loop& loop, const Worker& worker, int out, WorkerMessage told) {
	const std::uint64_t before = worker.operations();
	while (worker.operations() == before) co_await loop.sleep_for(1'000'000);
	write_message(out, told);
}

// A client that will be stopped. It reports when its operations are under way and never runs out of
// them, so it is in the middle of a rendezvous whenever it is stopped. Clients of even and odd
// index SET by the two forms of rendezvous.
void stall(const TrialOptions& options, std::uint16_t port, std::uint32_t index, int out) {
	WorkerMessage told;
	auto session = open_session(options, port);
	if (!session) return;
	Worker worker(**session, {.first_client = measured_clients_max + index});
	Cell cell{.proto = options.tcp ? Proto::eager : Proto::rndv,
		.form = index % 2 == 0 ? Form::write : Form::read,
		.size = 64 << 10,
		.window = 16,
		.warmup = 0,
		.iters = 200};
	told.run = worker.run(cell);
	if (told.run.failure[0] != '\0') return write_message(out, told);
	(*session)->loop().spawn(report_when_at_work((*session)->loop(), worker, out, told));
	cell.iters = ~0u;
	cell.seconds_max = 3600;
	worker.run(cell);
}

// The process of clients: reports after each run.
void work(const TrialOptions& options, std::uint16_t port, const std::vector<Cell>& cells, std::uint32_t repetitions,
	int out) {
	WorkerMessage told;
	auto session = open_session(options, port);
	if (!session) {
		put(told.error, session.error());
		return write_message(out, told);
	}
	Worker worker(**session, {.one_sided = options.settings.one_sided > 0});
	for (std::uint32_t repetition = 0; repetition < repetitions; ++repetition)
		for (const Cell& cell : cells) {
			told.run = worker.run(cell);
			told.operations = worker.operations();
			write_message(out, told);
		}
}

// A forked process, which is killed with this object, and the pipe through which it reports.
class Child {
public:
	template <class Work> Child(Work work) {
		int ends[2];
		if (pipe2(ends, O_CLOEXEC) != 0) return;
		pid_ = fork();
		if (pid_ == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			std::signal(SIGINT, SIG_IGN);  // the parent handles Ctrl-C and ends this one
			::close(ends[0]);
			work(ends[1]);
			std::_Exit(0);
		}
		::close(ends[1]);
		from_ = ends[0];
	}
	~Child() {
		if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
		if (from_ >= 0) ::close(from_);
	}
	Child(const Child&) = delete;
	Child& operator=(const Child&) = delete;
	template <class T> bool hear(T& what) const { return read_message(from_, what); }
	void ask_to_end() const { kill(pid_, SIGTERM); }
	// Stops all threads of the process before it returns.
	void stop() const {
		kill(pid_, SIGSTOP);
		waitpid(pid_, nullptr, WUNTRACED);
	}

private:
	pid_t pid_ = -1;
	int from_ = -1;
};

}  // namespace

std::expected<Trial, std::string> run_trial(const TrialOptions& options, const std::vector<Cell>& cells,
	std::uint32_t repetitions, const std::function<bool(const Cell&)>& is_wanted) {
	const Child server([&](int out) { serve(options, out); });
	ServerMessage served;
	if (!server.hear(served)) return std::unexpected("the server did not start");
	if (served.error[0] != '\0') return std::unexpected(served.error);
	std::deque<Child> stalled;
	for (std::uint32_t i = 0; i < options.stalled; ++i) {
		WorkerMessage begun;
		stalled.emplace_back([&](int out) { stall(options, served.port, i, out); });
		if (!stalled.back().hear(begun) || begun.run.failure[0] != '\0')
			return std::unexpected("a client that was to be stalled did not begin");
		stalled.back().stop();
	}
	std::optional<Child> clients(std::in_place, [&](int out) { work(options, served.port, cells, repetitions, out); });
	Trial trial;
	trial.runs.resize(cells.size());
	WorkerMessage told;
	for (std::size_t i = 0; i < cells.size() * repetitions; ++i) {
		if (!is_wanted(cells[i % cells.size()])) break;
		if (!clients->hear(told)) return std::unexpected("the process of clients ended early");
		if (told.error[0] != '\0') return std::unexpected(told.error);
		trial.runs[i % cells.size()].push_back(told.run);
	}
	// End the clients first, because the server waits for them when it ends.
	clients.reset();
	stalled.clear();
	server.ask_to_end();
	if (!server.hear(served)) return std::unexpected("the server process ended early");
	trial.account = {.client_operations = told.operations,
		.server_requests = served.requests,
		.server_written = served.written,
		.server_registrations = served.registrations,
		.keys = served.keys,
		.used_bytes = served.used_bytes,
		.device = served.device,
		.gid = served.gid,
		.mtu = served.mtu};
	return trial;
}

}  // namespace verbena::kvbench
