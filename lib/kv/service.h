// SPDX-License-Identifier: Apache-2.0
// Service: a complete server of the key-value store, with its device, its port, the stored data and
// its clients.
//
// Threads: the thread that calls run() sets up connections; a second thread serves all clients by
//   one event loop; the adapter has threads of its own. Any thread may call stop(), counts() and
//   the loops, and post work there. The owner may call the other methods before or after run().
// Errors: start() returns one sentence. A client's failure goes to `complain` and affects no other
//   client. While changes cannot be written to the disk, each is answered by Status::disk, and
//   everything else goes on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "lib/channel/acceptor.h"
#include "lib/discovery/members.h"
#include "lib/kv/facts.h"
#include "lib/kv/server.h"
#include "lib/kv/session_journal.h"
#include "lib/kv/settings.h"
#include "lib/kv/transports.h"

namespace verbena::kv {

struct ServiceOptions {
	async::Address where;
	channel::Protection protection;
	// The RDMA device to use. If it names neither a device nor a GID and `where` is a wildcard,
	// each client is served over the device at whose address it arrives.
	lib::DeviceRequest wish;
	Settings settings;    // `memory` is the budget of the process (Budget)
	ServerOptions server;
	Nanoseconds spin = 50'000;  // time that the serving thread polls before it sleeps
	// The prefix that this server joins while it runs. It is then a member of a cluster, which is a
	// cache (member.h): without `data`, and without Settings::one_sided.
	std::optional<discovery::EtcdPrefix> join;
	std::string name;     // the host:port by which clients of the prefix connect
	// Seconds for which a member may answer after it has reached etcd, and after which a crashed
	// one is no member any more. It should be the same for all members.
	std::uint32_t join_lease_s = 5;
	std::string data;     // folder of the journal; empty: nothing is durable
	bool salvage = false;  // start without the damaged records of the journal
	// A SET that finds no room evicts other keys. Not together with `data`, which keeps every key.
	bool evict = false;
	std::string version;  // the release, for facts()
	bool timed = false;   // measure how long requests take
	// Gets one sentence for each client that failed, and when writing to the disk begins to fail or
	// to work again, and about etcd. The threads of the service call it.
	std::function<void(const std::string&)> complain = [](const std::string&) {};
};

// The limits for clients of a server with these options, and all its limits for --print-config.
channel::AcceptorOptions acceptor_options(const ServiceOptions& options);
channel::Described describe(const ServiceOptions& options);

// Figures of a running server. `clients` and `clients_peak` are always up to date; the others are
// updated 10 ms after a request at the latest, and once a second. Any thread may read them.
struct ServiceCounts {
	std::atomic<std::uint64_t> clients{0}, clients_peak{0}, requests{0}, keys{0}, used_bytes{0}, registrations{0};
};

class Service final : public FactSource {
public:
	explicit Service(ServiceOptions options);
	~Service();

	// Opens the device, the journal and the port, and joins the etcd prefix. Call it once, before
	// run(). The error is one sentence.
	std::expected<void, std::string> start();
	std::uint16_t port() const { return acceptor_->port(); }
	// The name as a member; empty if the server joins no prefix.
	const std::string& name() const { return options_.name; }
	channel::Path path() const;  // device, GID and MTU of the first "rc" transport; no peer

	// Serves until stop(). Then run() accepts no new client, executes no further request, says so
	// to all clients, closes their connections, waits 1.5 s at most for that, and returns.
	void run();
	// Ends run(). A signal handler may call it.
	void stop() { setup_.stop(); }

	const ServiceCounts& counts() const { return counts_; }
	// The loop that serves all clients. While it runs, call facts() and transports() there only.
	async::Loop& serving_loop() { return io_; }
	Facts facts() const override;
	// Those of all devices, the first one first.
	const std::vector<std::unique_ptr<channel::RcTransport>>& transports() const { return transports_.all(); }
	// The loop that sets up connections. While it runs, call acceptor() there only.
	async::Loop& setup_loop() { return setup_; }
	const channel::Acceptor& acceptor() const { return *acceptor_; }

	// Call the methods below only after run().
	const ServerCounters& counters() const { return counters_; }
	const Store& store() const { return *store_; }
	const LmdbJournal* journal() const { return journal_.get(); }  // null without `data`

private:
	async::Task<void> serve(std::unique_ptr<channel::Channel> channel);
	async::Task<void> close_all();
	async::Task<void> keep_counts();
	async::Task<void> end_lives();
	async::Task<void> drop_lost_keys();
	std::expected<void, std::string> join();
	std::expected<void, std::string> open_journal();
	void report_journal();
	Nanoseconds next_work() const;
	std::size_t published_bytes() const;
	std::size_t message_bytes_beyond_free() const;

	ServiceOptions options_;
	ServiceCounts counts_;
	ServerCounters counters_;
	async::Loop setup_;  // runs in the caller of run()
	async::Loop io_;     // runs in thread_
	Transports transports_;
	std::unique_ptr<LmdbJournal> journal_;
	std::unique_ptr<Sessions> sessions_;
	std::unique_ptr<SessionJournal> session_journal_;
	std::unique_ptr<Store> store_;
	std::unique_ptr<Member> member_;  // null without `join`
	std::unique_ptr<Watches> watches_;
	std::unique_ptr<Changes> changes_;
	std::unique_ptr<Pulse> pulse_;
	Nanoseconds started_ = 0;
	std::uint64_t clients_failed_ = 0;
	std::size_t bad_records_ = 0;  // dropped by `salvage`
	bool disk_fails_ = false;  // as reported
	Nanoseconds next_report_ = 0;
	std::unique_ptr<channel::Acceptor> acceptor_;
	std::unique_ptr<discovery::Registration> registration_;
	async::List<async::Linked> open_;  // connected clients; belongs to the I/O loop
	std::jthread thread_;
};

}  // namespace verbena::kv
