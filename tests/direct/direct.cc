// Plays a scenario of one-sided operations between two processes, and prints what both have seen.
//
//     direct SCENARIO [ROUNDS]
//
// The program uses only public verbs, so what it prints must not depend on the way that the
// operations take. A line that begins with "note" may differ.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "side.h"

extern char** environ;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t region_bytes = 1 << 20;

// The initiator's process, as the target sees it.
struct Initiator {
	pid_t pid = 0;
	int socket = -1;

	Initiator(const char* scenario, int rounds) {
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
	void await_stop() const {
		int status;
		demand(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "the initiator is stopped");
	}
	void await_end() const {
		int status;
		demand(waitpid(pid, &status, 0) == pid, "the initiator has ended");
	}
	void kill(int signal) const { demand(::kill(pid, signal) == 0, "kill"); }
};

std::uint64_t digest(const unsigned char* from, std::size_t bytes) {
	std::uint64_t sum = 14695981039346656037u;
	for (std::size_t i = 0; i < bytes; ++i) sum = (sum ^ from[i]) * 1099511628211u;
	return sum;
}
void fill(Side& s, unsigned seed) {
	for (std::size_t i = 0; i < s.bytes; ++i)
		s.memory[i] = static_cast<unsigned char>((i * 31 + i / 4096 + seed) ^ (i >> 8));
}

// Lengths and places that meet the edges of pages, packets and parts.
void all_lengths_target(Side& s) {
	s.put(s.aim(s.mr));
	const auto there = s.get<std::uint64_t>();
	std::printf("read %s\n", digest(s.memory + 1, 400'000) == there ? "equal" : "different");
	s.meet();
	std::printf("memory %016llx\n", static_cast<unsigned long long>(digest(s.memory, s.bytes)));
}
void all_lengths_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	fill(s, 7);
	std::uint64_t at = 3;
	for (const std::uint32_t length :
		{0u, 1u, 7u, 8u, 64u, 1023u, 1024u, 1025u, 8192u, 8193u, 32'768u, 32'769u, 200'000u}) {
		s.post(IBV_WR_RDMA_WRITE, to, at, length, at / 2);
		at += length + 13;
	}
	s.succeed(13);
	// Back into the upper half of this region, from where the target's bytes are compared.
	s.post(IBV_WR_RDMA_READ, to, 1, 400'000, 600'001);
	s.succeed();
	s.put(digest(s.memory + 600'001, 400'000));
	s.meet();
}
void reads_target(Side& s) {
	fill(s, 3);
	s.put(s.aim(s.mr));
	const std::uint64_t here = digest(s.memory, 500'000), there = s.get<std::uint64_t>();
	std::printf("read %s\n", here == there ? "equal" : "different");
	s.meet();
}
void reads_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	std::uint64_t at = 0;
	for (std::uint32_t length = 1; at < 500'000; length = length * 3 + 1) {
		const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, 500'000 - at));
		s.post(IBV_WR_RDMA_READ, to, at, n, at);
		at += n;
		s.succeed();
	}
	s.put(digest(s.memory, 500'000));
	s.meet();
}

// SEND, WRITE, SEND, atomic: the second SEND shows that the WRITE is there, and so on.
void order_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	int wrong = 0;
	for (int i = 1; i <= rounds; ++i) {
		s.receive(4096, 64);
		s.receive(8192, 64);
		s.meet();
		s.succeed(2);
		std::uint64_t written;
		std::memcpy(&written, s.memory + 64, sizeof written);
		wrong += written != static_cast<std::uint64_t>(i) * 1000;
		s.meet();
		s.meet();
		// The atomic came after a WRITE of the same word.
		std::memcpy(&written, s.memory + 64, sizeof written);
		wrong += written != static_cast<std::uint64_t>(i) * 1000 + 6;
	}
	std::printf("order wrong %d\n", wrong);
}
void order_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	for (int i = 1; i <= rounds; ++i) {
		s.meet();
		const std::uint64_t value = static_cast<std::uint64_t>(i) * 1000;
		std::memcpy(s.memory, &value, sizeof value);
		s.post(IBV_WR_SEND, to, 0, 8);
		s.post(IBV_WR_RDMA_WRITE, to, 64, 8);
		s.post(IBV_WR_SEND, to, 0, 8);
		s.succeed(3);
		s.meet();
		s.post(IBV_WR_RDMA_WRITE, to, 64, 8);
		s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 64, 8, 128, 6);
		s.succeed(2);
		std::uint64_t before;
		std::memcpy(&before, s.memory + 128, sizeof before);
		demand(before == value, "the atomic returned what the WRITE before it wrote");
		s.meet();
	}
}

// A reader that sees the last byte of a WRITE sees all of it. No verb is called meanwhile.
void last_byte_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	int torn = 0;
	for (int i = 1; i <= rounds; ++i) {
		const auto value = static_cast<unsigned char>(i % 250 + 1);
		constexpr std::size_t length = 8000;
		volatile unsigned char* const last = s.memory + length - 1;
		while (*last != value) {}
		std::atomic_thread_fence(std::memory_order_acquire);
		torn += std::count(s.memory, s.memory + length, value) != length;
		s.put('n');
	}
	std::printf("torn %d\n", torn);
}
void last_byte_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	for (int i = 1; i <= rounds; ++i) {
		std::memset(s.memory, i % 250 + 1, 8000);
		s.post(IBV_WR_RDMA_WRITE, to, 0, 8000);
		s.succeed();
		s.get<char>();
	}
}

// Remote atomics and the target's own are atomic with each other.
void atomics_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	auto* const word = reinterpret_cast<std::uint64_t*>(s.memory);
	for (int i = 0; i < rounds; ++i) std::atomic_ref(*word).fetch_add(1);
	s.meet();
	std::printf("lost %lld\n", 4ll * rounds - static_cast<long long>(*word));
}
void atomics_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	for (int i = 0; i < rounds; ++i) {
		s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 0, 8, 0, 3);
		s.succeed();
	}
	s.meet();
}

// Two threads post to one queue pair, so that one often finds the NIC in use by the other.
void threads_target(Side& s, int rounds) {
	s.put(s.aim(s.mr));
	s.meet();
	std::uint64_t sum;
	std::memcpy(&sum, s.memory, sizeof sum);
	std::printf("lost %lld\n", 2ll * rounds - static_cast<long long>(sum));
}
void threads_initiator(Side& s, int rounds) {
	const Aim to = s.get<Aim>();
	std::atomic<int> posted{0}, completed{0};
	const auto work = [&](std::uint64_t result) {
		for (int i = 0; i < rounds; ++i) {
			s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, 0, 8, result);
			// At most 60 in the queue, and never more completions than are looked for.
			for (++posted; posted.load() - completed.load() > 50;) {
				ibv_wc wc;
				if (ibv_poll_cq(s.cq, 1, &wc) == 0) continue;
				demand(wc.status == IBV_WC_SUCCESS, "an atomic succeeds");
				++completed;
			}
		}
	};
	std::thread other(work, 64);
	work(128);
	other.join();
	s.succeed(posted.load() - completed.load());
	s.meet();
}

// The target is stopped: what does not need it succeeds.
void stopped_target(Side& s) {
	s.put(s.aim(s.mr));
	s.get<char>();
	raise(SIGSTOP);
	s.meet();
	std::printf("bytes %s\n", std::count(s.memory, s.memory + 100'000, 9) == 100'000 ? "there" : "missing");
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

// A long WRITE whose poster sleeps until its event: the NIC finishes the rest by itself.
void asleep_target(Side& s) {
	s.put(s.aim(s.mr));
	s.meet();
	std::printf(
		"bytes %s\n", std::count(s.memory, s.memory + s.bytes, 5) == static_cast<long>(s.bytes) ? "there" : "missing");
}
void asleep_initiator(Side& s) {
	const Aim to = s.get<Aim>();
	std::memset(s.memory, 5, s.bytes);
	demand(!ibv_req_notify_cq(s.cq, 0), "req_notify_cq");
	s.post(IBV_WR_RDMA_WRITE, to, 0, to.bytes);
	pollfd event{s.channel->fd, POLLIN, 0};
	demand(poll(&event, 1, 10'000) == 1, "the event of the completion");
	s.succeed();
	s.meet();
}

// The target takes a right away while the initiator writes, and is stopped or killed at a random
// moment. No byte may arrive afterwards.
enum class Taken { key, queue_pair };
void taken_target(Side& s, Initiator& other, int rounds, int signal, Taken what) {
	int late = 0, lost = 0, waited = 0;
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
		const auto before = Clock::now();
		if (what == Taken::key) demand(!ibv_dereg_mr(s.mr), "dereg_mr");
		demand(!ibv_destroy_qp(s.qp), "destroy_qp");
		waited += Clock::now() - before > std::chrono::milliseconds(1);
		std::memset(s.memory, 0x55, s.bytes);
		if (signal == SIGKILL) {
			other.await_end();
			late += std::count(s.memory, s.memory + s.bytes, 0x55) != static_cast<long>(s.bytes);
			break;
		}
		other.kill(SIGCONT);
		s.get<char>();  // the initiator has its error
		late += std::count(s.memory, s.memory + s.bytes, 0x55) != static_cast<long>(s.bytes);
		// The same memory is still reached through its other key, wherever its pages are now.
		s.make_queue_pair();
		s.connect();
		s.get<char>();
		lost += std::count(s.memory, s.memory + s.bytes, 0x77) != static_cast<long>(s.bytes);
		if (what == Taken::queue_pair) demand(!ibv_dereg_mr(s.mr), "dereg_mr");
		demand(!ibv_destroy_qp(s.qp) && !ibv_dereg_mr(second), "destroy");
		s.put(round + 1 < rounds ? 'm' : 'e');
	}
	std::printf("late %d\nlost %d\nnote waited %d\n", late, lost, waited);
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
	} else if (name == "threads") {
		target ? threads_target(s, rounds) : threads_initiator(s, rounds);
	} else if (name == "stopped") {
		target ? stopped_target(s) : stopped_initiator(s);
	} else if (name == "asleep") {
		target ? asleep_target(s) : asleep_initiator(s);
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
