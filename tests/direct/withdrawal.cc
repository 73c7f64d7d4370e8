// SPDX-License-Identifier: Apache-2.0
// Scenarios in which a process is stopped or killed, or a right is taken away.
#include "scenarios.h"

// The target is stopped: what does not need it succeeds.
void stopped_target(Side& s) {
	s.put(s.aim(s.mr));
	s.get<char>();
	raise(SIGSTOP);
	s.meet();
	std::printf("bytes %s\n", all_are(s.memory, 100'000, 9) ? "there" : "missing");
}
void stopped_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	s.post(IBV_WR_RDMA_WRITE, to, 0, 8);  // makes the link ready
	s.succeed();
	s.put('s');
	const pid_t target = getppid();
	for (char state = 'R'; state != 'T';) {
		char path[32], text[512] = "";
		std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(target));
		std::FILE* file = std::fopen(path, "r");
		demand(file, "the target's state");
		demand(std::fread(text, 1, sizeof text - 1, file) > 0, "the state of the target");
		std::fclose(file);
		state = std::strrchr(text, ')')[2];
	}
	std::memset(s.memory, 9, 100'000);
	s.post(IBV_WR_RDMA_WRITE, to, 0, 100'000);
	const auto until = Clock::now() + std::chrono::milliseconds(300);
	ibv_wc wc;
	int got = 0;
	while (got == 0 && Clock::now() < until) got = ibv_poll_cq(s.cq, 1, &wc);
	std::printf("note direct %s\n", got == 1 ? "yes" : "no");
	std::fflush(stdout);
	::kill(target, SIGCONT);
	if (got == 0) s.succeed();
	s.meet();
}

// The target takes a right away while the initiator writes, and is stopped or killed at a random
// moment. No byte may arrive afterwards.
void taken_target(Side& s, Initiator& other, int rounds, int signal, Taken what) {
	int late = 0, lost = 0;
	std::uint32_t random = 12345;
	for (int round = 0; round < rounds; ++round) {
		if (round > 0) {
			s.mr = s.register_all();
			s.make_queue_pair();
			s.connect();
		}
		ibv_mr* const second = s.register_all();
		s.put(s.aim(s.mr));
		s.put(s.aim(second));
		s.get<char>();
		random = random * 1664525 + 1013904223;
		const auto moment = Clock::now() + std::chrono::microseconds(100 + random % 1500);
		while (Clock::now() < moment) {}
		other.kill(signal);
		if (signal == SIGSTOP) other.await_stop();
		if (what == Taken::key) demand(!ibv_dereg_mr(s.mr), "dereg_mr");
		demand(!ibv_destroy_qp(s.qp), "destroy_qp");
		std::memset(s.memory, 0x55, s.bytes);
		if (signal == SIGKILL) {
			other.await_end();
			late += !all_are(s.memory, s.bytes, 0x55);
			break;
		}
		other.kill(SIGCONT);
		s.get<char>();  // the initiator has its error
		late += !all_are(s.memory, s.bytes, 0x55);
		// The same memory is still reached through its other key, wherever its pages are now.
		s.make_queue_pair();
		s.connect();
		s.get<char>();
		lost += !all_are(s.memory, s.bytes, 0x77);
		if (what == Taken::queue_pair) demand(!ibv_dereg_mr(s.mr), "dereg_mr");
		demand(!ibv_destroy_qp(s.qp) && !ibv_dereg_mr(second), "destroy");
		s.put(round + 1 < rounds ? 'm' : 'e');
	}
	std::printf("late %d\nlost %d\n", late, lost);
}
void taken_initiator(Side& s) {
	for (bool first = true;; first = false) {
		if (!first) {
			s.make_queue_pair();
			s.connect();
		}
		const Aim to = s.get<Aim>(), second = s.get<Aim>();
		s.put('b');
		std::memset(s.memory, 0xaa, s.bytes);
		do {
			for (int i = 0; i < 16; ++i) s.post(IBV_WR_RDMA_WRITE, to, 0, to.bytes);
			ibv_wc_status status = IBV_WC_SUCCESS;
			for (int i = 0; i < 16; ++i) status = std::max(status, s.complete());
			if (status != IBV_WC_SUCCESS) break;
		} while (true);
		demand(!ibv_destroy_qp(s.qp), "destroy_qp");
		s.put('e');
		s.make_queue_pair();
		s.connect();
		std::memset(s.memory, 0x77, s.bytes);
		s.post(IBV_WR_RDMA_WRITE, second, 0, second.bytes);
		s.succeed();
		s.put('w');
		if (s.get<char>() == 'e') return;
		demand(!ibv_destroy_qp(s.qp), "destroy_qp");
	}
}

// The target is killed while the initiator writes: the initiator gets an error and lives on.
void killed_target(Side& s) {
	s.put(s.aim(s.mr));
	s.get<char>();
	::kill(getpid(), SIGKILL);
}
void killed_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	s.put('b');
	ibv_wc_status status = IBV_WC_SUCCESS;
	while (status == IBV_WC_SUCCESS) {
		s.post(IBV_WR_RDMA_WRITE, to, 0, 8192);
		status = s.complete();
	}
	std::printf("%s\n", ibv_wc_status_str(status));
}
