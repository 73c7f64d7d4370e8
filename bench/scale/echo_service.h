// The multi-client server: accepts channels and echoes every message. Event-driven: one thread for set-ups (the caller
// of run()), one for all channels, whatever their number; the adapter adds its own. Their loops ask the kernel by epoll
// or by io_uring.
//
// With Engine::threads each client has a thread, a loop and a device context of its own, made before the first one
// comes, as the published program had: it is there to judge claims about threads.
//
// With `logical` above 0 a connection may carry up to so many clients instead of one, if it asks for that: each logical
// channel is one, and its label its number.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/scale/process_use.h"
#include "lib/channel/acceptor.h"
#include "lib/channel/mux_carrier.h"
#include "lib/metrics/families.h"

namespace verbena::scale {

// Counted while it runs, read by anybody; also by another process, where it lies in memory that both map.
struct EchoCounts {
	std::atomic<std::uint64_t> connected{0};  // now
	std::atomic<std::uint64_t> peak{0};
	std::atomic<std::uint64_t> echoed{0};
	std::atomic<std::uint64_t> lost{0};
	std::atomic<std::uint64_t> carriers{0}, carriers_peak{0};  // connections of logical channels
	std::atomic<std::uint64_t> labels{0};  // different ones among all logical channels so far
	std::atomic<std::uint64_t> threads_peak{0};  // of its process, sampled by itself ten times a second
};

enum class Engine : std::uint8_t { epoll, uring, threads };
inline constexpr std::array<std::string_view, 3> engine_names{"epoll", "uring", "threads"};
inline std::string_view name_of(Engine engine) { return engine_names[static_cast<std::size_t>(engine)]; }
// `name` is one of them.
inline Engine engine_of(std::string_view name) {
	return static_cast<Engine>(std::ranges::find(engine_names, name) - engine_names.begin());
}
inline constexpr std::uint32_t engine_threads_max = 1000;  // clients, and so threads
// Of a transport that has one client.
inline constexpr channel::RcOptions rc_of_a_thread{
	.units_start = 16, .units_max = 256, .units_low = 8, .connections_max = 4};

struct EchoOptions {
	async::Address where;
	channel::Protection protection;
	lib::Wish wish;
	channel::RcOptions rc;
	channel::AcceptorOptions acceptor;
	Engine engine = Engine::epoll;
	std::uint32_t threads = 0;  // of Engine::threads: clients
	std::uint32_t logical = 0;
	std::uint32_t shared_queue_pairs_max = 4096;  // of one client's logical channels
	channel::MuxOptions mux{.window = 16 << 10};  // of each carrier; `logical` is its channels_max
	Nanoseconds spin = 50'000;
	bool timed = false;  // for families(): how long each message is here
	bool quiet = false;  // say nothing of single clients that fail
	bool rdmacm = true;  // also listen for clients that connect by rdma_cm
	EchoCounts* counts = nullptr;  // where to count, for others to see
};

// Every number of a server, for --print-config.
channel::Described describe(const EchoOptions& options);

class EchoService {
public:
	explicit EchoService(EchoOptions options);
	~EchoService();

	// Opens the device and the port. One sentence on failure.
	std::expected<void, std::string> start();
	std::uint16_t port() const { return acceptor_->port(); }
	// Why no client can connect by rdma_cm, after start(); empty if they can.
	const std::string& rdmacm_trouble() const { return rdmacm_trouble_; }
	// The engine that runs: epoll where the kernel refuses io_uring. After start().
	Engine engine() const;
	// Why it is not the one that was asked for; empty if it is.
	std::string engine_trouble() const;
	channel::Path path() const;  // device, GID and MTU; "rc"

	std::uint64_t queue_pairs_max() const {
		return static_cast<std::uint64_t>(homes_.front()->transport->device().attributes.max_qp);
	}

	// Until stop(), which a signal handler may call: then no new clients, what has arrived is answered, those that are
	// there are closed, and it returns within two seconds.
	void run();
	void stop() { setup_.stop(); }

	// What it counts, and its channels and set-ups; from a thread of its own, at any time.
	metrics::Families families();
	const EchoCounts& counts() const { return counts_; }
	// After run().
	channel::RcCounters counters() const;
	const channel::AcceptorCounters& acceptor_counters() const { return acceptor_->counters(); }

private:
	// A thread's loop, and what lives on it.
	struct Home {
		explicit Home(const async::LoopOptions& options) : loop(options) {}
		async::Loop loop;
		std::unique_ptr<channel::RcTransport> transport;
		async::List<async::Linked> open;
		std::vector<channel::MuxCarrier*> carriers;
		std::size_t served = 0, carried = 0;
		std::size_t answering = 0;  // clients whose message is being sent back
		std::jthread thread;
	};

	async::LoopOptions loop_options(Nanoseconds spin) const;
	async::Task<void> serve(Home& home, std::unique_ptr<channel::Channel> channel);
	async::Task<void> carry(Home& home, std::unique_ptr<channel::Channel> carrier, std::uint32_t channels_max);
	void see_label(std::uint32_t label);
	async::Task<void> drain(Home& home);
	async::Task<void> look_at_itself();

	EchoOptions options_;
	EchoCounts own_counts_;
	EchoCounts& counts_;
	async::Loop setup_;
	std::vector<std::unique_ptr<Home>> homes_;  // one, or Engine::threads
	std::unique_ptr<channel::Acceptor> acceptor_;
	// Of logical channels, which have one home.
	channel::MuxCounters ended_carriers_;
	std::vector<bool> labels_seen_;
	std::string rdmacm_trouble_;
	metrics::Buckets service_times_, set_up_times_;
	metrics::Tally errors_, failed_setups_;
	std::atomic<bool> ended_{false};  // run() has returned
};

}  // namespace verbena::scale
