// The multi-client server: accepts channels and echoes every message. Event-driven: one thread for set-ups (the caller of run()), one for
// all channels, whatever their number; the adapter adds its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "lib/channel/acceptor.h"

namespace verbena::scale {

struct EchoOptions {
	async::Address where;
	channel::Protection protection;
	lib::Wish wish;
	channel::RcOptions rc;
	channel::AcceptorOptions acceptor;
	Nanoseconds spin = 50'000;
	bool quiet = false;  // say nothing of single clients that fail
};

// Counted while it runs, read by anybody.
struct EchoCounts {
	std::atomic<std::uint64_t> connected{0};  // now
	std::atomic<std::uint64_t> peak{0};
	std::atomic<std::uint64_t> echoed{0};
	std::atomic<std::uint64_t> lost{0};
};

// A process as the kernel counts it.
struct ProcessUse {
	std::uint64_t resident_bytes = 0, peak_resident_bytes = 0;
	std::uint64_t threads = 0;
	double cpu_seconds = 0;
	std::uint64_t voluntary_switches = 0, involuntary_switches = 0;
};
// CPU time and switches only of the calling process.
ProcessUse use_of_process(pid_t process);

class EchoService {
public:
	explicit EchoService(EchoOptions options);
	~EchoService();

	// Opens the device and the port. One sentence on failure.
	std::expected<void, std::string> start();
	std::uint16_t port() const { return acceptor_->port(); }
	channel::Path path() const;  // device, GID and MTU; "rc"

	// Until stop(), which a signal handler may call: then no new clients, those that are there are closed, and it returns within two seconds.
	void run();
	void stop() { setup_.stop(); }

	const EchoCounts& counts() const { return counts_; }
	// After run().
	const channel::RcCounters& counters() const { return transport_->counters(); }
	const channel::AcceptorCounters& acceptor_counters() const { return acceptor_->counters(); }

private:
	async::Task<void> serve(std::unique_ptr<channel::RcChannel> channel);
	async::Task<void> close_all();

	EchoOptions options_;
	EchoCounts counts_;
	async::Loop setup_;
	async::Loop io_;
	std::unique_ptr<channel::RcTransport> transport_;
	std::unique_ptr<channel::Acceptor> acceptor_;
	async::List<async::Linked> open_;  // on the I/O loop
	std::jthread thread_;
};

}  // namespace verbena::scale
