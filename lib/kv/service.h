// Service: a whole server of the store: its port, its device, its store and its clients. Event-driven: one thread for
// set-ups (the caller of run()), one for all clients, whatever their number; the adapter adds its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "lib/channel/acceptor.h"
#include "lib/discovery/members.h"
#include "lib/kv/lmdb_journal.h"
#include "lib/kv/server.h"
#include "lib/kv/settings.h"

namespace verbena::kv {

struct ServiceOptions {
	async::Address where;
	channel::Protection protection;
	lib::Wish wish;
	Settings settings;    // `memory` is the store's limit
	ServerOptions server;
	Nanoseconds spin = 50'000;
	std::optional<discovery::EtcdPrefix> join;  // whose member this server is, as `name`, while it runs
	std::string name;
	std::uint32_t join_lease_s = 5;  // it is no member any more so long after a crash
	std::string data;     // the folder in which acknowledged changes are kept; empty: they are not
	// One sentence a client that failed; from either thread.
	std::function<void(const std::string&)> complain = [](const std::string&) {};
};

// Read by anybody while it runs; brought up to date a hundred times a second.
struct ServiceCounts {
	std::atomic<std::uint64_t> clients{0}, clients_peak{0}, requests{0}, keys{0}, used_bytes{0}, registrations{0};
};

class Service {
public:
	explicit Service(ServiceOptions options);
	~Service();

	// Opens the device and the port. One sentence on failure.
	std::expected<void, std::string> start();
	std::uint16_t port() const { return acceptor_->port(); }
	// Its name as a member; empty, if it joins nothing.
	const std::string& name() const { return options_.name; }
	channel::Path path() const;  // device, GID and MTU; "rc"

	// Until stop(), which a signal handler may call: then no new clients, those that are there are closed, and it
	// returns within two seconds.
	void run();
	void stop() { setup_.stop(); }

	const ServiceCounts& counts() const { return counts_; }
	// After run().
	const ServerCounters& counters() const { return counters_; }
	const Store& store() const { return *store_; }
	const LmdbJournal* journal() const { return journal_.get(); }
	// One sentence, if it had to stop: what was acknowledged is kept, but nothing more can be.
	const std::string& failure() const { return failure_; }

private:
	async::Task<void> serve(std::unique_ptr<channel::Channel> channel);
	async::Task<void> close_all();
	async::Task<void> keep_counts();
	std::expected<void, std::string> open_journal();

	ServiceOptions options_;
	ServiceCounts counts_;
	ServerCounters counters_;
	async::Loop setup_;
	async::Loop io_;
	std::unique_ptr<channel::RcTransport> transport_;
	std::unique_ptr<LmdbJournal> journal_;
	std::unique_ptr<Store> store_;
	std::string failure_;
	std::unique_ptr<channel::Acceptor> acceptor_;
	std::unique_ptr<discovery::Registration> registration_;
	async::List<async::Linked> open_;  // on the I/O loop
	std::jthread thread_;
};

}  // namespace verbena::kv
