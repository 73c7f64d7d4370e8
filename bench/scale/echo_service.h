// SPDX-License-Identifier: Apache-2.0
// The server for many clients: accepts channels and echoes every message.
//
// With Engine::threads each client has a thread, a loop and a device context of its own, all made
// before the first client, as in the published program. It exists to judge claims about threads.
//
// With `logical` above 0, a connection that asks for it may carry up to this number of clients:
// each logical channel is one, and its label is the client's number.
//
// Threads: one for set-ups (the caller of run()) and one for all channels, however many; the NIC
//   adds its own. Their loops wait by epoll or io_uring. stop() is async-signal-safe; families()
//   and the counts may be used from any thread.
// Owns: the device, the port, and all channels.
// Errors: start() returns one sentence. A client that fails is counted and reported on standard
//   error.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/scale/process_use.h"
#include "lib/channel/acceptor.h"
#include "lib/channel/mux_carrier.h"
#include "lib/metrics/families.h"

namespace verbena::scale {

// The counts of a running server. Any thread may read them, and another process too if they are in
// memory that both map.
struct EchoCounts {
	std::atomic<std::uint64_t> connected{0};  // clients now
	std::atomic<std::uint64_t> peak{0};       // clients at once, at most
	std::atomic<std::uint64_t> echoed{0};     // messages
	std::atomic<std::uint64_t> lost{0};       // clients whose connection broke
	std::atomic<std::uint64_t> carriers{0}, carriers_peak{0};  // connections of logical channels
	std::atomic<std::uint64_t> labels{0};  // different labels among all logical channels so far
	std::atomic<std::uint64_t> threads_peak{0};  // the process's threads, sampled every 100 ms
};

enum class Engine : std::uint8_t { epoll, uring, threads };
inline constexpr std::array<std::string_view, 3> engine_names{"epoll", "uring", "threads"};
inline std::string_view name_of(Engine engine) { return engine_names[static_cast<std::size_t>(engine)]; }
// `name` must be one of engine_names.
inline Engine engine_of(std::string_view name) {
	return static_cast<Engine>(std::ranges::find(engine_names, name) - engine_names.begin());
}
inline constexpr std::uint32_t engine_threads_max = 2000;  // clients, each with a thread
// The message for more clients than Engine::threads serves.
std::string too_many_threads();
// The options of a transport that serves one client.
inline constexpr channel::RcOptions rc_options_per_thread{
	.units_start = 16, .units_max = 256, .units_low = 8, .connections_max = 4};

struct EchoOptions {
	async::Address where;
	channel::Protection protection;
	lib::DeviceRequest wish;
	channel::RcOptions rc;
	channel::AcceptorOptions acceptor;
	Engine engine = Engine::epoll;
	std::uint32_t threads = 0;  // clients, with Engine::threads
	std::uint32_t logical = 0;  // logical clients on a connection, at most; 0: none
	std::uint32_t shared_queue_pairs_max = 4096;  // connections that logical clients may share
	channel::MuxOptions mux{.window = 16 << 10};  // for each carrier; `logical` is its channels_max
	Nanoseconds spin = 50'000;  // the time that a loop polls after its last work, before it sleeps
	bool timed = false;  // measure the time of each message in the server, for families()
	bool quiet = false;  // do not report clients that fail
	bool rdmacm = true;  // also listen for clients that connect by rdma_cm
	EchoCounts* counts = nullptr;  // count here instead; must outlive the service
};

// All numbers that a server would use, for --print-config.
channel::Described describe(const EchoOptions& options);

class EchoService {
public:
	explicit EchoService(EchoOptions options);
	~EchoService();

	// Opens the device and the port.
	std::expected<void, std::string> start();
	std::uint16_t port() const { return acceptor_->port(); }
	// The reason why clients cannot connect by rdma_cm; empty if they can. Valid after start().
	const std::string& rdmacm_error() const { return rdmacm_trouble_; }
	// The engine in use: epoll where the kernel refuses io_uring. Valid after start().
	Engine engine() const;
	// The reason why it is not the engine that was asked for; empty if it is.
	std::string engine_fallback_reason() const;
	channel::Path path() const;  // device, GID and MTU; "rc"

	// The queue pairs that the device allows.
	std::uint64_t queue_pairs_max() const {
		return static_cast<std::uint64_t>(homes_.front()->transports.front()->device().attributes.max_qp);
	}

	// Serves until stop(). Then it accepts no more clients, answers the messages that have arrived,
	// closes all channels, and returns within two seconds.
	void run();
	void stop() { setup_.stop(); }

	// All metrics of the server. Call from a thread other than the server's own; it waits for their
	// loops.
	metrics::Families families();
	const EchoCounts& counts() const { return counts_; }
	// Valid after run().
	channel::RcCounters counters() const;
	const channel::AcceptorCounters& acceptor_counters() const { return acceptor_->counters(); }

private:
	// A thread, its loop, and everything that belongs to the loop.
	struct Home {
		explicit Home(const async::LoopOptions& options) : loop(options) {}
		async::Loop loop;
		// The transport that start() opens, and those of other devices at which clients arrive.
		std::vector<std::unique_ptr<channel::RcTransport>> transports;
		async::List<async::Linked> open;
		std::vector<channel::MuxCarrier*> carriers;
		std::size_t served = 0, carried = 0;  // channels and carriers that are not closed yet
		std::size_t answering = 0;  // channels whose echo is being sent
		std::jthread thread;
	};

	async::LoopOptions loop_options(Nanoseconds spin) const;
	// Chooses the transport by the address at which a client arrives; empty if the server listens
	// at one address or the user has named the device.
	std::function<channel::RcTransport&(const async::Address&)> transports_at(Home& home);
	// One client, from its connection to its end.
	async::Task<void> serve(Home& home, std::unique_ptr<channel::Channel> channel);
	// One connection of logical clients.
	async::Task<void> serve_carrier(Home& home, std::unique_ptr<channel::Channel> carrier, std::uint32_t channels_max);
	// Counts a label that has not been seen before.
	void count_label(std::uint32_t label);
	// Answers, closes and stops one loop, when the server ends.
	async::Task<void> drain(Home& home);
	// Samples the number of threads of this process.
	async::Task<void> sample_threads();

	EchoOptions options_;
	EchoCounts own_counts_;
	EchoCounts& counts_;
	async::Loop setup_;
	std::vector<std::unique_ptr<Home>> homes_;  // one, or Engine::threads
	std::unique_ptr<channel::Acceptor> acceptor_;
	// Used by the one home that logical channels have.
	channel::MuxCounters ended_carriers_;
	std::vector<bool> labels_seen_;
	std::string rdmacm_trouble_;
	metrics::Buckets service_times_, set_up_times_;
	metrics::WordCounter errors_, failed_setups_;
	std::atomic<bool> ended_{false};  // run() has returned
};

}  // namespace verbena::scale
