// SPDX-License-Identifier: Apache-2.0
// Measures what connections to idle processes cost the process that has them.
//
//     peers_crowd PEERS MESSAGES
//
// A hub on the first processor is connected to PEERS processes on the second one, and each has sent
// it a message. First all of them wait in a system call while the hub polls its empty completion
// queue. Then one of them sends MESSAGES of 64 bytes, 16 at a time, and the others still wait. The
// results are the median time of a poll, and the time between two messages at the hub, in
// nanoseconds.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "base/statistics.h"
#include "bench/peers/end.h"

namespace verbena::peers {
namespace {

constexpr const char* usage_line = "peers_crowd PEERS MESSAGES";
constexpr std::uint32_t message_bytes = 64, window = 16, receives = 64;
constexpr std::uint64_t messages_max = 10'000'000;

void send_messages(End& end, std::uint64_t messages) {
	std::array<ibv_wc, rcud::poll_batch> completions;
	for (std::uint64_t posted = 0, sent = 0; sent < messages;) {
		for (; posted < messages && posted - sent < window; ++posted)
			end.request(IBV_WR_SEND, (posted % window) * message_bytes, message_bytes);
		sent += static_cast<std::uint64_t>(poll_successes(end.queue(), completions.data()));
	}
}

// One of the peers: waits until the hub asks for a number of messages, and sends them.
void be_peer(int socket) {
	pin(1);
	const lib::OpenDevice device = open_device();
	End end(device, std::size_t{message_bytes} * window, window);
	send_value(socket, end.address());
	end.connect(receive_value<Address>(socket));
	send_messages(end, 1);  // the NIC may make its link when the first message leaves
	send_value(socket, true);
	send_messages(end, receive_value<std::uint64_t>(socket));
	receive_value<bool>(socket);  // the hub has finished
}

void poll_empty(ibv_cq* queue, std::size_t polls) {
	std::array<ibv_wc, rcud::poll_batch> completions;
	for (std::size_t i = 0; i < polls; ++i)
		if (poll_successes(queue, completions.data()) != 0) throw Failure("a completion without a request");
}

// A poll that finds the lock of the NIC taken returns at once. The pause before each series lets a
// thread of the NIC that was preempted on this processor release it.
double empty_poll_ns(ibv_cq* queue) {
	constexpr std::size_t series = 200, polls = 2'000;
	std::array<double, series> took;
	for (double& each : took) {
		usleep(100);
		poll_empty(queue, polls / 10);
		const std::uint64_t start = rcud::now_ns();
		poll_empty(queue, polls);
		each = static_cast<double>(rcud::now_ns() - start) / polls;
	}
	return median(took);
}

// Receives one message, and posts its receive again.
void receive_one(End& end) {
	std::array<ibv_wc, rcud::poll_batch> completions;
	while (poll_successes(end.queue(), completions.data()) == 0) {}
	end.receive(completions[0].wr_id, message_bytes);
}

// Receives all messages and returns the time between two of them.
double message_ns(End& end, std::uint64_t messages) {
	std::array<ibv_wc, rcud::poll_batch> completions;
	std::uint64_t first = 0, received = 0, in_first_batch = 0;
	while (received < messages) {
		const int n = poll_successes(end.queue(), completions.data());
		if (n == 0) continue;
		for (int i = 0; i < n; ++i) end.receive(completions[static_cast<std::size_t>(i)].wr_id, message_bytes);
		received += static_cast<std::uint64_t>(n);
		if (first != 0) continue;
		first = rcud::now_ns();
		in_first_batch = received;
	}
	if (received == in_first_batch) throw Failure("too few messages");
	return static_cast<double>(rcud::now_ns() - first) / static_cast<double>(received - in_first_batch);
}

// The hub: connects to each peer in turn, with one completion queue for all.
void be_hub(const std::vector<int>& sockets, std::uint64_t messages) {
	pin(0);
	const lib::OpenDevice device = open_device();
	const auto queue = bench::take(lib::make_completion_queue(device.context.get(), 4096));
	std::vector<std::unique_ptr<End>> ends;
	for (const int socket : sockets) {
		ends.push_back(std::make_unique<End>(device, std::size_t{message_bytes} * receives, receives, queue.get()));
		for (std::uint32_t i = 0; i < receives; ++i)
			ends.back()->receive(std::size_t{i} * message_bytes, message_bytes);
		ends.back()->connect(receive_value<Address>(socket));
		send_value(socket, ends.back()->address());
		receive_one(*ends.back());
		receive_value<bool>(socket);
	}
	usleep(200'000);  // the NIC's threads end their part of connecting
	const double poll = empty_poll_ns(queue.get());
	send_value(sockets.front(), messages);
	const double message = message_ns(*ends.front(), messages);
	send_value(sockets.front(), true);
	std::printf("{\"empty_poll_ns\": %.2f, \"message_ns\": %.2f}\n", poll, message);
}

void run(int count, char** words) {
	if (count != 3) usage(usage_line);
	const std::uint64_t peers = number(words[1], 4096, usage_line);
	const std::uint64_t messages = number(words[2], messages_max, usage_line);
	rlimit files{};
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	std::vector<int> sockets, children;
	for (std::uint64_t i = 0; i < peers; ++i) {
		std::array<int, 2> ends;
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
			throw Failure(lib::failure("socketpair", errno));
		const int child = fork_child();
		if (child == 0) {
			for (const int other : sockets) close(other);
			close(ends[0]);
			// An idle peer ends when the hub closes its socket.
			try {
				be_peer(ends[1]);
			} catch (const std::exception&) {
				_exit(1);
			}
			_exit(0);
		}
		close(ends[1]);
		sockets.push_back(ends[0]);
		children.push_back(child);
	}
	be_hub(sockets, messages);
	await_child(children.front());
}

}  // namespace
}  // namespace verbena::peers

int main(int count, char** words) { return verbena::peers::run_program(verbena::peers::run, count, words, 60); }
