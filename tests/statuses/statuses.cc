// SPDX-License-Identifier: Apache-2.0
// Plays a table of mistakes of users and peers between two processes (rows.h), and compares the
// completion statuses, QP states and events that both see with the table.
//
//     statuses [OPTION...] DEVICE [TARGET_DEVICE TARGET_NETNS]
//
//     --list          print the results of each row, tab-separated, and do not judge them
//     --skip TEXT     leave out the rows that have TEXT in their names
//
// Prints a line for each row that is wrong, and then the count. The program uses only public verbs,
// so it runs on any RDMA device. With TARGET_NETNS, the file of a network namespace, the target
// runs there.
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "rows.h"

namespace {

struct Options {
	bool list = false;
	const char* skip = nullptr;
	bool skips(const Row& row) const { return skip && std::strstr(row.name, skip); }
};

// The target's result, which it sends to the source at the end of a row.
struct Report {
	char completions[256], state[16], events[128];
};

// The events are last: the target does not live longer than its last row.
std::vector<Row> all_rows() {
	std::vector<Row> all;
	for (const auto rows : {rows_of_connections(), rows_of_mappings(), rows_of_unreliable(), rows_of_events()})
		all.insert(all.end(), rows.begin(), rows.end());
	return all;
}

Report packed(const Seen& seen) {
	Report r{};
	std::snprintf(r.completions, sizeof r.completions, "%s", seen.completions.c_str());
	std::snprintf(r.state, sizeof r.state, "%s", seen.state.c_str());
	std::snprintf(r.events, sizeof r.events, "%s", seen.events.c_str());
	return r;
}

void play_target(Side& side, const Options& options) {
	for (const Row& row : all_rows()) {
		if (options.skips(row)) continue;
		side.begin(row.setup);
		const Aim aim = row.target(side);
		side.send_bytes(&aim, sizeof aim);
		if (row.target_ends) _exit(0);
		const Report report = packed(side.observe(row.target_sees));
		side.send_bytes(&report, sizeof report);
		side.end();
	}
}

int judge(const char* name, const char* side, const Seen& expected, const Seen& seen, bool list) {
	if (list) {
		std::printf(
			"%s\t%s\t%s\t%s\t%s\n", name, side, seen.completions.c_str(), seen.state.c_str(), seen.events.c_str());
		return 0;
	}
	if (seen == expected) return 0;
	std::printf("%s: the %s saw [%s] %s [%s], expected [%s] %s [%s]\n", name, side, seen.completions.c_str(),
		seen.state.c_str(), seen.events.c_str(), expected.completions.c_str(), expected.state.c_str(),
		expected.events.c_str());
	return 1;
}

int play_source(Side& side, const Options& options) {
	int run = 0, wrong = 0;
	for (const Row& row : all_rows()) {
		if (options.skips(row)) continue;
		++run;
		side.begin(row.setup);
		Aim aim;
		side.receive_bytes(&aim, sizeof aim);
		if (row.target_ends) side.await_peer_exit();
		row.source(side, aim);
		const Seen seen = side.observe(row.source_sees);
		int row_wrong = judge(row.name, "source", row.source_sees, seen, options.list);
		if (!row.target_ends) {
			Report r;
			side.receive_bytes(&r, sizeof r);
			row_wrong += judge(row.name, "target", row.target_sees, {r.completions, r.state, r.events}, options.list);
		}
		wrong += row_wrong != 0;
		side.end();
		std::fflush(stdout);
	}
	if (!options.list) std::printf("%d rows, %d wrong\n", run, wrong);
	return wrong ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
	Options options;
	static constexpr option known[] = {
		{"list", no_argument, nullptr, 'l'}, {"skip", required_argument, nullptr, 's'}, {}};
	bool usage = false;
	for (int c; (c = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
		options.list |= c == 'l';
		if (c == 's') options.skip = optarg;
		usage |= c == '?';
	}
	char** words = argv + optind;
	const int count = argc - optind;
	if (usage || (count != 1 && count != 3))
		return std::fprintf(stderr, "usage: statuses [--list] [--skip TEXT] DEVICE [TARGET_DEVICE TARGET_NETNS]\n"), 2;
	alarm(options.list ? 600 : 120);
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return std::perror("socketpair"), 1;
	const pid_t target = fork();
	if (target < 0) return std::perror("fork"), 1;
	const bool is_target = target == 0;
	try {
		close(sockets[is_target ? 0 : 1]);
		if (!is_target) {
			Side side(Side::source, sockets[0], words[0]);
			side.peer = target;
			const int result = play_source(side, options);
			waitpid(target, nullptr, 0);
			return result;
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (count == 3) {
			const int netns = open(words[2], O_RDONLY | O_CLOEXEC);
			if (netns < 0 || setns(netns, CLONE_NEWNET))
				throw Failure(std::string(words[2]) + ": " + std::strerror(errno));
		}
		Side side(Side::target, sockets[1], words[count == 3 ? 1 : 0]);
		play_target(side, options);
		return 0;
	} catch (const std::exception& failure) {
		std::fprintf(stderr, "%s: %s\n", is_target ? "target" : "source", failure.what());
		return 1;
	}
}
