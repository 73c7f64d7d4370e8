// SPDX-License-Identifier: Apache-2.0
// One end of a reliable connection, with a completion queue and memory of its own, and the few
// calls that the small programs of this folder share.
//
// Threads: one thread for each end. Ends of several threads may share a device.
// Owns: its memory, region, completion queue and queue pair.
// Lifetime: the device outlives its ends.
// Errors: Failure, with the call or the status that failed.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "bench/rcud/cell.h"
#include "bench/rcud/traffic.h"
#include "lib/verbs/device.h"
#include "lib/verbs/objects.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::peers {

using bench::Failure;

// The address of an end, sent to the other end as it is: both are processes of one program.
struct Address {
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint32_t rkey = 0;
	std::uint64_t data = 0;
	ibv_gid gid{};
};

// The device that VERBENA_DEVICES or the machine offers to processes of one host.
lib::OpenDevice open_device();

class End {
public:
	// Makes a queue pair in INIT with `depth` entries in each of its queues. The completion queue
	// is that of `shared`, or a new one if that is null.
	End(const lib::OpenDevice& device, std::size_t bytes, std::uint32_t depth, ibv_cq* shared = nullptr);

	Address address() const;
	// Moves the queue pair to RTS. Post receives before.
	void connect(const Address& peer);

	std::byte* data() const { return memory_.get(); }
	ibv_cq* queue() const { return queue_; }

	// Posts a receive of `bytes` at `offset` of the memory.
	void receive(std::size_t offset, std::uint32_t bytes);
	// Posts a signaled request: IBV_WR_SEND, or IBV_WR_RDMA_WRITE or READ at the peer's data.
	void request(ibv_wr_opcode opcode, std::size_t offset, std::uint32_t bytes);

private:
	struct Free {
		void operator()(std::byte* memory) const;
	};

	const lib::OpenDevice& device_;
	std::unique_ptr<std::byte, Free> memory_;
	lib::CompletionQueue own_queue_;
	ibv_cq* queue_;
	lib::MemoryRegion region_;
	lib::QueuePair qp_;
	std::uint32_t psn_;
	Address peer_;
};

// Polls `queue` and returns the number of completions; throws a Failure if one is not a success.
int poll_successes(ibv_cq* queue, ibv_wc* completions);

// Sends or receives all bytes of a value over a stream socket.
void send_all(int socket, const void* from, std::size_t bytes);
void receive_all(int socket, void* to, std::size_t bytes);
template <class Value> void send_value(int socket, const Value& value) {
	static_assert(std::is_trivially_copyable_v<Value>);
	send_all(socket, &value, sizeof value);
}
template <class Value> Value receive_value(int socket) {
	static_assert(std::is_trivially_copyable_v<Value>);
	Value value;
	receive_all(socket, &value, sizeof value);
	return value;
}

// Forks. The child dies with its parent, which may be killed. Returns 0 in the child.
int fork_child();
// Waits for a child; throws a Failure unless it ended with status 0.
void await_child(int child);

// Lets the calling thread run only on the n-th of the processors that the program may use.
void pin(unsigned n);

// Runs the program. A Failure becomes a line on standard error and exit code 1; after `limit_s`
// seconds SIGALRM ends the program.
int run_program(void (*program)(int, char**), int count, char** words, unsigned limit_s);
// Ends the program with exit code 2 and the usage line.
[[noreturn]] void usage(const char* line);
// Reads a number from 1 to `most`; ends the program by usage() if the word is none.
std::uint64_t number(const char* word, std::uint64_t most, const char* usage_line);

}  // namespace verbena::peers
