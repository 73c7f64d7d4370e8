// SPDX-License-Identifier: Apache-2.0
// Measures RDMA WRITE and READ to a process that makes no call of verbs.
//
//     peers_passive sleeps|computes|polls write|read BYTES OPERATIONS
//
// The target, on the second processor, registers memory and then waits in a system call, or
// computes, or (for comparison) polls its completion queue. The initiator, on the first one, has
// one operation at a time under way. The results are the median and the 99th percentile of the time
// from the post to the completion, in microseconds.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

#include "bench/peers/end.h"

namespace verbena::peers {
namespace {

constexpr const char* usage_line = "peers_passive sleeps|computes|polls write|read BYTES OPERATIONS";
constexpr std::uint32_t depth = 16;

void be_target(std::string_view how, std::size_t bytes, int socket, const std::atomic<bool>& finished) {
	pin(1);
	const lib::OpenDevice device = open_device();
	End end(device, bytes, depth);
	send_value(socket, end.address());
	end.connect(receive_value<Address>(socket));
	send_value(socket, true);  // connected
	std::array<ibv_wc, rcud::poll_batch> completions;
	std::uint64_t sum = 1;
	while (how == "computes" && !finished.load(std::memory_order_relaxed)) {
		for (int i = 0; i < 1000; ++i) sum = sum * 6364136223846793005u + 1442695040888963407u;
		asm volatile("" : : "r"(sum));  // the computation is not optimised away
	}
	while (how == "polls" && !finished.load(std::memory_order_relaxed)) poll_successes(end.queue(), completions.data());
	receive_value<bool>(socket);  // the initiator has finished
}

std::vector<double> times_of(End& end, ibv_wr_opcode opcode, std::uint32_t bytes, std::size_t operations) {
	std::array<ibv_wc, rcud::poll_batch> completions;
	std::vector<double> took;
	took.reserve(operations);
	for (std::size_t i = 0; i < operations; ++i) {
		const std::uint64_t start = rcud::now_ns();
		end.request(opcode, 0, bytes);
		while (poll_successes(end.queue(), completions.data()) == 0) {}
		took.push_back(static_cast<double>(rcud::now_ns() - start) / 1e3);
	}
	return took;
}

void be_initiator(ibv_wr_opcode opcode, std::uint32_t bytes, std::size_t operations, int socket) {
	pin(0);
	const lib::OpenDevice device = open_device();
	End end(device, bytes, depth);
	const auto peer = receive_value<Address>(socket);
	end.connect(peer);
	send_value(socket, end.address());
	receive_value<bool>(socket);
	usleep(20'000);  // the target's NIC needs 2 ms to see that its program makes no call any more
	times_of(end, opcode, bytes, operations / 10 + 1);
	std::vector<double> took = times_of(end, opcode, bytes, operations);
	std::ranges::sort(took);
	std::printf("{\"p50_us\": %.3f, \"p99_us\": %.3f}\n", took[took.size() / 2], took[took.size() * 99 / 100]);
}

void run(int count, char** words) {
	if (count != 5) usage(usage_line);
	const std::string_view how = words[1], what = words[2];
	const bool write = what == "write";
	if ((how != "sleeps" && how != "computes" && how != "polls") || (!write && what != "read")) usage(usage_line);
	const auto bytes = static_cast<std::uint32_t>(number(words[3], 1 << 30, usage_line));
	const std::uint64_t operations = number(words[4], 10'000'000, usage_line);

	std::array<int, 2> sockets;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
		throw Failure(lib::failure("socketpair", errno));
	void* at = mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) throw Failure(lib::failure("mmap", errno));
	auto& finished = *new (at) std::atomic<bool>(false);
	const int child = fork_child();
	if (child == 0) {
		close(sockets[0]);
		be_target(how, bytes, sockets[1], finished);
		std::quick_exit(0);
	}
	close(sockets[1]);
	be_initiator(write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, bytes, operations, sockets[0]);
	finished = true;
	send_value(sockets[0], true);
	await_child(child);
}

}  // namespace
}  // namespace verbena::peers

int main(int count, char** words) { return verbena::peers::run_program(verbena::peers::run, count, words, 30); }
