// SPDX-License-Identifier: Apache-2.0
// Measures whether a second thread of a process sends at the rate of the first.
//
//     peers_threads WORKERS threads|processes BYTES WINDOW MILLISECONDS
//
// Each worker is pinned to a processor of its own and has a completion queue and two queue pairs,
// which are connected to each other: it sends to itself, so that two processors suffice for two
// workers. The workers are threads of one process with one device, or processes. The result is the
// number of messages that the workers received, in millions a second.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/peers/end.h"

namespace verbena::peers {
namespace {

constexpr const char* usage_line = "peers_threads WORKERS threads|processes BYTES WINDOW MILLISECONDS";
constexpr unsigned workers_max = 16;
constexpr std::uint32_t receives = 256;  // posted at a time; more than a window

struct Options {
	unsigned workers;
	bool threads;
	std::uint32_t bytes, window;
	std::uint64_t ms;
};

// Memory that all workers share, also if they are processes.
struct Shared {
	struct alignas(128) Worker {
		std::uint64_t received = 0, ns = 0;
	};
	alignas(128) std::atomic<unsigned> ready = 0;
	alignas(128) std::atomic<bool> stop = false;
	std::array<Worker, workers_max> workers;
};

// Sends to itself until `stop`, and counts what arrives.
void work(const lib::OpenDevice& device, const Options& options, Shared& shared, unsigned me) {
	const std::size_t ring = std::size_t{options.bytes} * receives;
	End sender(device, ring, receives);
	End receiver(device, ring, receives, sender.queue());
	for (std::uint32_t i = 0; i < receives; ++i) receiver.receive(std::size_t{i} * options.bytes, options.bytes);
	sender.connect(receiver.address());
	receiver.connect(sender.address());

	++shared.ready;
	while (shared.ready < options.workers && !shared.stop) __builtin_ia32_pause();
	const std::uint64_t start = rcud::now_ns();
	std::uint64_t posted = 0, sent = 0, received = 0;
	std::array<ibv_wc, rcud::poll_batch> completions;
	const auto poll = [&] {
		const int n = poll_successes(sender.queue(), completions.data());
		for (int i = 0; i < n; ++i) {
			const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
			if ((completion.opcode & IBV_WC_RECV) == 0) {
				++sent;
				continue;
			}
			if (completion.byte_len != options.bytes) throw Failure("a message of another size arrived");
			++received;
			receiver.receive(completion.wr_id, options.bytes);
		}
	};
	while (!shared.stop.load(std::memory_order_relaxed)) {
		for (; posted - sent < options.window; ++posted)
			sender.request(IBV_WR_SEND, (posted % receives) * options.bytes, options.bytes);
		poll();
	}
	shared.workers[me] = {.received = received, .ns = rcud::now_ns() - start};
	// The queue pairs are empty before they are destroyed.
	for (const std::uint64_t deadline = rcud::now_ns() + 2'000'000'000; sent < posted || received < posted; poll())
		if (rcud::now_ns() > deadline) throw Failure("a message did not arrive");
}

// Runs the measurement for its time; a worker that fails ends it early.
void keep_time(const Options& options, Shared& shared) {
	for (const std::uint64_t deadline = rcud::now_ns() + 10'000'000'000; shared.ready < options.workers;) {
		if (rcud::now_ns() > deadline || shared.stop) break;
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}
	if (!shared.stop) std::this_thread::sleep_for(std::chrono::milliseconds(options.ms));
	shared.stop = true;
}

void run_threads(const Options& options, Shared& shared) {
	const lib::OpenDevice device = open_device();
	std::vector<std::string> failures(options.workers);
	std::vector<std::jthread> threads;
	for (unsigned me = 0; me < options.workers; ++me) {
		threads.emplace_back([&, me] {
			try {
				pin(me);
				work(device, options, shared, me);
			} catch (const std::exception& failure) {
				failures[me] = failure.what();
				shared.stop = true;
			}
		});
	}
	keep_time(options, shared);
	threads.clear();
	for (const std::string& failure : failures)
		if (!failure.empty()) throw Failure(failure);
}

void run_processes(const Options& options, Shared& shared) {
	std::vector<int> children;
	for (unsigned me = 0; me < options.workers; ++me) {
		const int child = fork_child();
		if (child == 0) {
			pin(me);
			work(open_device(), options, shared, me);
			std::quick_exit(0);
		}
		children.push_back(child);
	}
	keep_time(options, shared);
	for (const int child : children) await_child(child);
}

void run(int count, char** words) {
	const std::string_view kind = count > 2 ? words[2] : "";
	if (count != 6 || (kind != "threads" && kind != "processes")) usage(usage_line);
	const Options options{.workers = static_cast<unsigned>(number(words[1], workers_max, usage_line)),
		.threads = kind == "threads",
		.bytes = static_cast<std::uint32_t>(number(words[3], 1 << 20, usage_line)),
		.window = static_cast<std::uint32_t>(number(words[4], receives / 2, usage_line)),
		.ms = number(words[5], 10'000, usage_line)};
	void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) throw Failure(lib::failure("mmap", errno));
	Shared& shared = *new (at) Shared;
	options.threads ? run_threads(options, shared) : run_processes(options, shared);
	double mops = 0;
	for (const Shared::Worker& worker : shared.workers)
		if (worker.ns > 0) mops += static_cast<double>(worker.received) * 1e3 / static_cast<double>(worker.ns);
	std::printf("{\"mops\": %.6f}\n", mops);
}

}  // namespace
}  // namespace verbena::peers

int main(int count, char** words) { return verbena::peers::run_program(verbena::peers::run, count, words, 30); }
