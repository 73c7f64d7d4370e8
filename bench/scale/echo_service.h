// The multi-client server: accepts channels and echoes every message. Event-driven: one thread for set-ups (the caller of run()), one for
// all channels, whatever their number; the adapter adds its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "bench/scale/process_use.h"
#include "lib/channel/acceptor.h"

namespace verbena::scale {

// Counted while it runs, read by anybody; also by another process, where it lies in memory that both map.
struct EchoCounts {
	std::atomic<std::uint64_t> connected{0};  // now
	std::atomic<std::uint64_t> peak{0};
	std::atomic<std::uint64_t> echoed{0};
	std::atomic<std::uint64_t> lost{0};
	std::atomic<std::uint64_t> threads_peak{0};  // of its process, sampled by itself ten times a second
};

struct EchoOptions {
	async::Address where;
	channel::Protection protection;
	lib::Wish wish;
	channel::RcOptions rc;
	channel::AcceptorOptions acceptor;
	Nanoseconds spin = 50'000;
	bool quiet = false;  // say nothing of single clients that fail
	EchoCounts* counts = nullptr;  // where to count, for others to see
};

class EchoService {
public:
	explicit EchoService(EchoOptions options);
	~EchoService();

	// Opens the device and the port. One sentence on failure.
	std::expected<void, std::string> start();
	std::uint16_t port() const { return acceptor_->port(); }
	channel::Path path() const;  // device, GID and MTU; "rc"

	// Until stop(), which a signal handler may call: then no new clients, those that are there are closed, and it returns within two
	// seconds.
	void run();
	void stop() { setup_.stop(); }

	const EchoCounts& counts() const { return counts_; }
	// After run().
	const channel::RcCounters& counters() const { return transport_->counters(); }
	const channel::AcceptorCounters& acceptor_counters() const { return acceptor_->counters(); }

private:
	async::Task<void> serve(std::unique_ptr<channel::Channel> channel);
	async::Task<void> close_all();
	async::Task<void> look_at_itself();

	EchoOptions options_;
	EchoCounts own_counts_;
	EchoCounts& counts_;
	async::Loop setup_;
	async::Loop io_;
	std::unique_ptr<channel::RcTransport> transport_;
	std::unique_ptr<channel::Acceptor> acceptor_;
	async::List<async::Linked> open_;  // on the I/O loop
	std::jthread thread_;
};

}  // namespace verbena::scale
