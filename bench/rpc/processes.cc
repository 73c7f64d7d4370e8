// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>

#include "bench/far_end/failure.h"
#include "bench/far_end/round_trip.h"

namespace verbena::rpcbench {
namespace {

pid_t start(const Body& body, Board& board) {
	const pid_t child = fork();
	if (child != 0) return child;
	// Discard the log, in which clients report once that TCP is in plain text.
	const int discarded = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (discarded >= 0) dup2(discarded, STDERR_FILENO);
	body(board);
	std::_Exit(0);
}

// Returns a descriptor that becomes readable when the process ends. By number, because the header
// of Debian 12's C library declares pidfd_open(2) for C only.
int end_of(pid_t process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

}  // namespace

void Board::fail(const std::string& why) {
	std::snprintf(error, sizeof error, "%s", why.c_str());
	failed = true;
}

void Board::wait_for(const std::atomic<bool>& flag) const {
	while (!flag && !failed && getppid() != 1) usleep(1000);
}

double cpu_seconds() {
	rusage use{};
	getrusage(RUSAGE_SELF, &use);
	const auto seconds = [](const timeval& time) {
		return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
	};
	return seconds(use.ru_utime) + seconds(use.ru_stime);
}

void stand_by(Board& board, int port, const std::function<void()>& account) {
	board.port = port;
	board.wait_for(board.measuring);
	const double before = cpu_seconds();
	board.wait_for(board.measured);
	board.server_cpu_s = cpu_seconds() - before;
	if (account) account();
	board.server_reported = true;
	board.wait_for(board.done);
}

int wait_for_port(const Board& board) {
	while (board.port == 0 && !board.failed && getppid() != 1) usleep(1000);
	return board.failed ? 0 : board.port.load();
}

std::expected<Outcome, std::string> run_processes(const Body& serve, const Body& call) try {
	bench::RoundTrip page = bench::RoundTrip::create();
	void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) return std::unexpected("no shared memory could be allocated");
	const std::unique_ptr<Board, void (*)(Board*)> board(
		new (memory) Board, [](Board* at) { munmap(at, sizeof(Board)); });
	const auto answer_and_serve = [&](Board& at) {
		page.answer();
		serve(at);
	};
	const auto ask_and_call = [&](Board& at) {
		at.outcome.core_to_core_ns = page.ask().value_or(0);
		call(at);
	};
	const pid_t server = start(answer_and_serve, *board);
	const pid_t client = start(ask_and_call, *board);
	if (server < 0 || client < 0) return std::unexpected("no process could be started");
	// If the server ends first, fail() lets the client stop waiting for it.
	pollfd ends[] = {{end_of(client), POLLIN, 0}, {end_of(server), POLLIN, 0}};
	while (poll(ends, 2, -1) < 0 && errno == EINTR) {}
	if (ends[1].revents != 0 && ends[0].revents == 0 && !board->failed)
		board->fail("the server's process ended too early");
	int status = 0;
	waitpid(client, &status, 0);
	if (status != 0 && !board->failed) board->fail("the client's process died");
	board->done = true;
	waitpid(server, &status, 0);
	if (status != 0 && !board->failed) board->fail("the server's process died");
	for (const pollfd& end : ends) close(end.fd);
	if (board->failed) return std::unexpected(std::string(board->error));
	board->outcome.server_cpu_s = board->server_cpu_s;
	return board->outcome;
} catch (const bench::Failure& failure) {
	return std::unexpected(failure.what());
}

}  // namespace verbena::rpcbench
