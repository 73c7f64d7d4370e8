// SPDX-License-Identifier: Apache-2.0
// Plays a scenario of one-sided operations between two processes, and prints what both have seen.
//
//     direct SCENARIO [ROUNDS]
//
// The program uses only public verbs, so what it prints must not depend on the way that the
// operations take. A line that begins with "note" may differ.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>
#include <string_view>

#include "scenarios.h"

extern char** environ;

Initiator::Initiator(const char* scenario, int rounds) {
	int ends[2];
	demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
	const int inherited = fcntl(ends[1], F_DUPFD, 3);
	std::string words[] = {"direct", scenario, std::to_string(rounds), std::to_string(inherited)};
	char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
	demand(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0, "spawn");
	close(ends[1]);
	close(inherited);
	socket = ends[0];
}
void Initiator::await_stop() const {
	int status;
	demand(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "the initiator is stopped");
}
void Initiator::await_end() const {
	int status;
	demand(waitpid(pid, &status, 0) == pid, "the initiator has ended");
}
void Initiator::kill(int signal) const { demand(::kill(pid, signal) == 0, "kill"); }

namespace {

void play(std::string_view name, Side& s, Initiator* other, int rounds) {
	const bool target = other != nullptr;
	if (name == "all_lengths") {
		target ? all_lengths_target(s) : all_lengths_initiator(s);
	} else if (name == "reads") {
		target ? reads_target(s) : reads_initiator(s);
	} else if (name == "order") {
		target ? order_target(s, rounds) : order_initiator(s, rounds);
	} else if (name == "last_byte") {
		target ? last_byte_target(s, rounds) : last_byte_initiator(s, rounds);
	} else if (name == "atomics") {
		target ? atomics_target(s, rounds) : atomics_initiator(s, rounds);
	} else if (name == "mixture") {
		target ? mixture_target(s) : mixture_initiator(s, rounds);
	} else if (name == "self") {
		if (target) self_target(s);
	} else if (name == "threads") {
		target ? threads_target(s, rounds) : threads_initiator(s, rounds);
	} else if (name == "stopped") {
		target ? stopped_target(s) : stopped_initiator(s);
	} else if (name == "asleep") {
		target ? asleep_target(s) : asleep_initiator(s);
	} else if (name == "asleep_beside") {
		target ? asleep_beside_target(s) : asleep_beside_initiator(s, rounds);
	} else if (name == "answers") {
		target ? answers_target(s, rounds, 1) : answers_initiator(s, rounds, 1);
	} else if (name == "unsignaled_answers") {
		target ? answers_target(s, rounds, 4) : answers_initiator(s, rounds, 4);
	} else if (name == "killed") {
		target ? killed_target(s) : killed_initiator(s);
	} else {
		if (!target) return taken_initiator(s);
		const bool kills = name.ends_with("_killed");
		taken_target(
			s, *other, rounds, kills ? SIGKILL : SIGSTOP, name.starts_with("key") ? Taken::key : Taken::queue_pair);
	}
}

}  // namespace

int main(int argc, char** argv) {
	if (argc < 2) return std::fprintf(stderr, "usage: direct SCENARIO [ROUNDS]\n"), 2;
	const std::string_view name = argv[1];
	const int rounds = argc > 2 ? std::atoi(argv[2]) : 1;
	alarm(60);
	if (argc > 3) {
		Side side(std::atoi(argv[3]), region_bytes);
		side.connect();
		play(name, side, nullptr, rounds);
		return 0;
	}
	// The socket comes first, so that the initiator inherits nothing of the device.
	Initiator other(argv[1], rounds);
	Side side(other.socket, region_bytes);
	side.connect();
	play(name, side, &other, rounds);
	std::fflush(stdout);
	if (!name.ends_with("_killed")) other.await_end();
	return 0;
}
