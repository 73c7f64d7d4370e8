// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/end.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

namespace verbena::peers {
namespace {

constexpr std::size_t page = 4096;

// Page-aligned memory of the heap, as perftest takes it.
std::byte* aligned_memory(std::size_t bytes) {
	const std::size_t whole = (bytes + page - 1) / page * page;
	void* at = std::aligned_alloc(page, whole);
	if (at == nullptr) throw Failure("aligned_alloc failed");
	std::memset(at, 1, whole);
	return static_cast<std::byte*>(at);
}

}  // namespace

lib::OpenDevice open_device() { return bench::take(lib::open_best({.both_ends_on_this_host = true})); }

void End::Free::operator()(std::byte* memory) const { std::free(memory); }

End::End(const lib::OpenDevice& device, std::size_t bytes, std::uint32_t depth, ibv_cq* shared)
	: device_(device), memory_(aligned_memory(bytes)), queue_(shared), psn_(lib::random_psn()) {
	if (shared == nullptr) {
		own_queue_ = bench::take(lib::make_completion_queue(device.context.get(), static_cast<int>(2 * depth)));
		queue_ = own_queue_.get();
	}
	constexpr int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	region_ = bench::take(
		lib::make_memory_region(device.domain.get(), memory_.get(), bytes, IBV_ACCESS_LOCAL_WRITE | remote));
	qp_ = bench::take(
		lib::make_queue_pair(device, queue_, {.send_depth = depth, .receive_depth = depth, .signal_all = true}))
			  .qp;
	bench::take(lib::rc_to_init(qp_.get(), device, remote));
}

Address End::address() const {
	return {.qpn = qp_->qp_num,
		.psn = psn_,
		.rkey = region_->rkey,
		.data = reinterpret_cast<std::uint64_t>(memory_.get()),
		.gid = device_.choice.gid};
}

void End::connect(const Address& peer) {
	peer_ = peer;
	const lib::RemoteEnd end{.qpn = peer.qpn, .psn = peer.psn, .lid = device_.port.lid, .gid = peer.gid};
	bench::take(lib::rc_connect(qp_.get(), device_, end, {.mtu_bytes = device_.mtu_bytes(), .local_psn = psn_}));
}

void End::receive(std::size_t offset, std::uint32_t bytes) {
	ibv_sge part{.addr = reinterpret_cast<std::uint64_t>(data() + offset), .length = bytes, .lkey = region_->lkey};
	ibv_recv_wr request{.wr_id = offset, .sg_list = &part, .num_sge = 1};
	ibv_recv_wr* bad = nullptr;
	rcud::check_posted(ibv_post_recv(qp_.get(), &request, &bad), "ibv_post_recv");
}

void End::request(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t bytes) {
	ibv_sge part{.addr = reinterpret_cast<std::uint64_t>(data() + offset), .length = bytes, .lkey = region_->lkey};
	ibv_send_wr request{
		.wr_id = offset, .sg_list = &part, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	request.wr.rdma = {.remote_addr = peer_.data + offset, .rkey = peer_.rkey};
	ibv_send_wr* bad = nullptr;
	rcud::check_posted(ibv_post_send(qp_.get(), &request, &bad), "ibv_post_send");
}

int poll_successes(ibv_cq* queue, ibv_wc* completions) {
	const int n = rcud::poll(queue, completions);
	for (int i = 0; i < n; ++i) rcud::check_status(completions[i], "a request");
	return n;
}

void send_all(int socket, const void* from, std::size_t bytes) {
	if (send(socket, from, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) throw Failure("the peer is gone");
}

void receive_all(int socket, void* to, std::size_t bytes) {
	if (recv(socket, to, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) throw Failure("the peer is gone");
}

int fork_child() {
	const pid_t parent = getpid();
	const pid_t child = fork();
	if (child < 0) throw Failure(lib::failure("fork", errno));
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) _exit(1);  // the parent died before it could be followed
	}
	return child;
}

void await_child(int child) {
	int status = 0;
	if (waitpid(child, &status, 0) != child || status != 0) throw Failure("a child process failed");
}

void pin(unsigned n) {
	cpu_set_t allowed;
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) throw Failure(lib::failure("sched_getaffinity", errno));
	n %= static_cast<unsigned>(CPU_COUNT(&allowed));
	for (unsigned processor = 0; processor < CPU_SETSIZE; ++processor) {
		if (!CPU_ISSET(processor, &allowed) || n-- > 0) continue;
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(processor, &one);
		if (sched_setaffinity(0, sizeof one, &one) != 0) throw Failure(lib::failure("sched_setaffinity", errno));
		return;
	}
}

int run_program(void (*program)(int, char**), int count, char** words, unsigned limit_s) {
	alarm(limit_s);
	try {
		program(count, words);
		return 0;
	} catch (const std::exception& failure) {
		std::fprintf(stderr, "%s: %s\n", words[0], failure.what());
		return 1;
	}
}

void usage(const char* line) {
	std::fprintf(stderr, "usage: %s\n", line);
	std::exit(2);
}

std::uint64_t number(const char* word, std::uint64_t most, const char* usage_line) {
	const std::string_view text(word);
	std::uint64_t value = 0;
	const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
	if (error != std::errc() || end != text.end() || value == 0 || value > most) usage(usage_line);
	return value;
}

}  // namespace verbena::peers
