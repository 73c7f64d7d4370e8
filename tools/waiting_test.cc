// SPDX-License-Identifier: Apache-2.0
#include "tools/waiting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::tools {
namespace {

using status::Process;
using status::QueuePair;
using testing::HasSubstr;

struct Host {
	std::vector<Process> processes;
	std::vector<std::uint32_t> stopped;

	Host() {
		processes.push_back({.pid = 1, .program = "client", .counters = {}, .queue_pairs = {connected(0x10, 2, 0x20)}});
		processes.push_back({.pid = 2, .program = "server", .counters = {}, .queue_pairs = {connected(0x20, 1, 0x10)}});
	}
	static QueuePair connected(std::uint32_t qpn, std::uint32_t peer_pid, std::uint32_t peer_qpn) {
		return {.qpn = qpn,
			.type = "RC",
			.state = "RTS",
			.peer_qpn = peer_qpn,
			.peer_pid = peer_pid,
			.link = "memory",
			.waits = "nothing",
			.retries_left = 7,
			.peer_address = "192.0.2.1"};
	}
	QueuePair& client() { return processes[0].queue_pairs[0]; }
	QueuePair& server() { return processes[1].queue_pairs[0]; }
	std::string why() const {
		const auto all =
			why_waiting(1, {.before = processes, .now = processes, .is_stopped = [this](std::uint32_t pid) {
								return std::ranges::find(stopped, pid) != stopped.end();
							}});
		return all.empty() ? "" : all[0];
	}
};

TEST(Waiting, AnIdleQueuePairWaitsForNothing) { EXPECT_EQ(Host().why(), ""); }

TEST(Waiting, ASendForWhichTheServerHasNoReceive) {
	Host host;
	host.client().sends_posted = 1;
	host.client().waits = "receive";
	host.server().receives_posted = host.server().receives_taken = 5;
	EXPECT_THAT(host.why(),
		HasSubstr("QP 0x10 waits with 1 send request: QP 0x20 of process 2 (server) has no receive "
				  "posted (5 posted, 5 used so far)"));
}

TEST(Waiting, APeerThatIsStopped) {
	Host host;
	host.client().sends_posted = 3;
	host.client().waits = "answer";
	host.stopped = {2};
	host.processes.pop_back();  // it does not answer either
	EXPECT_THAT(host.why(), HasSubstr("waits with 3 send requests: process 2 is stopped"));
}

TEST(Waiting, APeerThatIsNotReadyOrGone) {
	Host host;
	host.client().sends_posted = 1;
	host.client().waits = "receive";
	host.server().state = "INIT";
	EXPECT_THAT(host.why(), HasSubstr("QP 0x20 of process 2 (server) is in INIT and takes no packet"));
	host.processes[1].queue_pairs.clear();
	EXPECT_THAT(host.why(), HasSubstr("process 2 (server) has no queue pair 0x20 any more"));
	host.client().peer_pid = 0;
	EXPECT_THAT(host.why(), HasSubstr("a process that has ended"));
	host.client().link = "udp";
	host.client().waits = "answer";
	EXPECT_THAT(host.why(), HasSubstr("192.0.2.1 has not answered; retries left: 7"));
}

TEST(Waiting, BothEndsWaitForAMessage) {
	Host host;
	host.client().receives_posted = host.server().receives_posted = 8;
	EXPECT_THAT(host.why(),
		HasSubstr("QP 0x10 waits for a message: QP 0x20 of process 2 (server) has none under way (0 "
				  "requests complete): each end waits for the other to send"));
}

TEST(Waiting, CompletionsThatAreNotPolled) {
	Host host;
	host.client().unpolled = 2;
	host.client().receives_posted = 1;
	EXPECT_THAT(host.why(), HasSubstr("2 completions in its completion queues: the program has not polled them"));
}

TEST(Waiting, ARequestBeforeTheStateInWhichItIsSent) {
	Host host;
	host.client().sends_posted = 1;
	host.client().state = "RTR";
	EXPECT_THAT(host.why(), HasSubstr("waits with 1 send request in state RTR: requests are sent from RTS on"));
	host.client().state = "ERR";
	EXPECT_THAT(host.why(), HasSubstr("is in ERR"));
}

TEST(Waiting, AQueuePairThatMovesDoesNotWait) {
	Host before, now;
	now.client().sends_posted = now.client().sends_done = 1;
	now.client().receives_posted = before.client().receives_posted = 9;
	const Looks looks{before.processes, now.processes, [](std::uint32_t) { return false; }};
	EXPECT_TRUE(why_waiting(1, looks).empty());
	EXPECT_TRUE(why_waiting(3, looks).empty());
}

}  // namespace
}  // namespace verbena::tools
