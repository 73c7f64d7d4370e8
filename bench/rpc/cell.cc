#include "bench/rpc/cell.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <new>
#include <vector>

#include "bench/rpc/functions.h"
#include "lib/rpc/client.h"

namespace verbena::rpcbench {
namespace {

using async::Task;

// What the three processes share.
struct Board {
	std::atomic<int> port{0};
	std::atomic<bool> measuring{false}, measured{false}, server_told{false}, done{false};
	std::atomic<bool> failed{false};
	double server_cpu_s = 0;
	char error[256] = {};
	Outcome outcome;

	void fail(const std::string& why) {
		std::snprintf(error, sizeof error, "%s", why.c_str());
		failed = true;
	}
};

double cpu_seconds() {
	rusage use{};
	getrusage(RUSAGE_SELF, &use);
	const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; };
	return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// Polls a flag of another process, gently.
void wait_for(const std::atomic<bool>& flag, const Board& board) {
	while (!flag && !board.failed && getppid() != 1) usleep(1000);
}

void serve(const CellOptions& options, Board& board) {
	rpc::Server server(
		{.address = "127.0.0.1", .port = 0, .thread_num = options.server_threads, .spin = options.spin, .log = [](std::string_view) {}});
	server.register_handler<sink, echo>();
	if (options.rdma) server.init_ibv();
	const auto started = server.async_start();
	if (started.hasResult()) return board.fail("server: " + server.error_text());
	board.port = server.port();
	wait_for(board.measuring, board);
	const double before = cpu_seconds();
	wait_for(board.measured, board);
	board.server_cpu_s = cpu_seconds() - before;
	board.server_told = true;
	wait_for(board.done, board);
	board.outcome.served = server.totals().requests;
	server.stop();
}

struct Run {
	const CellOptions& options;
	Outcome& outcome;
	std::vector<std::unique_ptr<rpc::Client>> clients;
	std::vector<std::string> payloads, answers;
	bool counting = false, stopping = false;
	std::uint32_t active = 0;
	std::uint64_t next_number = 0;
	std::string error;
};

Task<void> caller(Run& run, std::uint32_t index) {
	rpc::Client& client = *run.clients[index % run.clients.size()];
	std::string& payload = run.payloads[index];
	std::string& answer = run.answers[index];
	++run.active;
	while (!run.stopping) {
		stamp(payload, run.next_number++);
		rpc::request_config_t config;
		config.request_attachment = payload;
		const bool counting = run.counting;
		const Nanoseconds sent = monotonic_now();
		bool good = false;
		if (run.options.mode == Mode::sink) {
			const auto result = co_await client.call<sink>(config);
			good = result && *result == reply_of_sink;
			if (!result) run.error = result.error().msg;
		} else {
			config.resp_attachment_buf = answer;
			const auto result = co_await client.call<echo>(config);
			good = result && answer == payload;
			if (!result) run.error = result.error().msg;
		}
		const Nanoseconds took = monotonic_now() - sent;
		if (!good) {
			++run.outcome.failed;
			if (client.has_closed()) break;
		} else if (counting && run.counting) {
			++run.outcome.requests;
			run.outcome.latency_sum_us += static_cast<double>(took) / 1e3;
			run.outcome.latency.record(took);
		}
	}
	--run.active;
}

Task<void> drive(Run& run, int port, Board& board) {
	async::Loop& loop = rpc::IoThread::current()->loop();
	for (const auto& client : run.clients) {
		const auto failed = co_await client->connect("127.0.0.1", std::to_string(port));
		if (failed) {
			board.fail("client: " + client->error_text());
			co_return;
		}
	}
	for (std::uint32_t i = 0; i < run.options.concurrency; ++i) loop.spawn(caller(run, i));
	co_await loop.sleep_for(run.options.warmup);
	board.measuring = true;
	run.counting = true;
	const Nanoseconds began = monotonic_now();
	const double cpu_before = cpu_seconds();
	co_await loop.sleep_for(run.options.duration);
	run.counting = false;
	run.outcome.seconds = static_cast<double>(monotonic_now() - began) / 1e9;
	run.outcome.client_cpu_s = cpu_seconds() - cpu_before;
	board.measured = true;
	run.stopping = true;
	while (run.active > 0) co_await loop.sleep_for(1'000'000);
	for (const auto& client : run.clients) {
		const auto counters = co_await client->counters();
		run.outcome.frames += counters.frames;
		run.outcome.messages += counters.messages;
	}
	if (run.outcome.requests == 0) board.fail(run.error.empty() ? "no request was answered" : run.error);
}

Task<void> on_thread(rpc::IoThread& thread, Run& run, int port, Board& board) {
	co_await thread.on();
	co_await drive(run, port, board);
}

void call(const CellOptions& options, Board& board) {
	while (board.port == 0 && !board.failed && getppid() != 1) usleep(1000);
	if (board.failed) return;
	// Polls as the server does.
	rpc::IoThread thread({.spin = options.spin});
	Run run{.options = options, .outcome = board.outcome};
	for (std::uint32_t i = 0; i < options.connections; ++i) {
		run.clients.push_back(std::make_unique<rpc::Client>(thread));
		if (options.rdma) run.clients.back()->init_ibv();
	}
	for (std::uint32_t i = 0; i < options.concurrency; ++i) {
		fill(run.payloads.emplace_back(options.size, ' '));
		run.answers.emplace_back(options.mode == Mode::echo ? options.size : 0, ' ');
	}
	rpc::syncAwait(on_thread(thread, run, board.port, board));
	wait_for(board.server_told, board);
	run.clients.clear();
}

template <class Body> pid_t start(Body body) {
	const pid_t child = fork();
	if (child != 0) return child;
	// What clients say once of plain text is no news here.
	const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(nowhere, STDERR_FILENO);
	body();
	std::_Exit(0);
}

}  // namespace

std::expected<Outcome, std::string> run_cell(const CellOptions& options) {
	void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) return std::unexpected("no memory to share with the processes");
	const std::unique_ptr<Board, void (*)(Board*)> board(new (memory) Board, [](Board* at) { munmap(at, sizeof(Board)); });
	const pid_t server = start([&] { serve(options, *board); });
	const pid_t client = start([&] { call(options, *board); });
	if (server < 0 || client < 0) return std::unexpected("no process could be started");
	int status = 0;
	waitpid(client, &status, 0);
	if (status != 0 && !board->failed) board->fail("the client's process died");
	board->done = true;
	waitpid(server, &status, 0);
	if (status != 0 && !board->failed) board->fail("the server's process died");
	if (board->failed) return std::unexpected(std::string(board->error));
	board->outcome.server_cpu_s = board->server_cpu_s;
	return board->outcome;
}

}  // namespace verbena::rpcbench
