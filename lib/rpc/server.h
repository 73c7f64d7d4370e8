// SPDX-License-Identifier: Apache-2.0
// Server: serves registered functions at one port, over TCP and, after init_ibv(), over RDMA.
//
//     coro_rpc_server server(threads, 9000);
//     server.register_handler<echo, add>();
//     server.init_ibv();                       // without it: TCP only
//     server.start();                          // blocks until stop() or request_stop()
//
// Each connection belongs to one of `thread_num` I/O threads, where its functions run: a plain
// function that blocks holds up the other connections of that thread. stop() asks the clients to
// send no more requests, waits up to `drain_patience` until the calls in flight are answered, and
// then ends the remaining calls. stop() waits longer only for a function that awaits a client on
// another I/O thread, until that client's call returns.
//
// Threads: set the server up and start it on one thread. stop() may be called by any thread that
//   runs no handler; request_stop() also by handlers and signal handlers. connection_count(),
//   totals() and rdma() may be called by any thread but a handler's while the server runs.
// Lifetime: a context (context.h), and any other object of the library that a handler keeps, must
//   be gone before the server's threads end. A server may be started again after it has stopped.
// Errors: an err_code; error_text() and the log say why, in one sentence.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/channel/acceptor.h"
#include "lib/rpc/handler.h"
#include "lib/rpc/io_threads.h"
#include "lib/rpc/options.h"

namespace verbena::rpc {

namespace detail {
// The registered function "verbena::protocol", by which a client asks whether the server knows
// streams (frame.h).
inline std::uint32_t protocol() { return protocol_level; }
}  // namespace detail

struct server_config {
	std::string address = "0.0.0.0";  // a host name or an IP address
	std::uint16_t port = 9001;  // 0: any free port, which Server::port() returns
	unsigned thread_num = std::thread::hardware_concurrency();  // I/O threads; 0 counts as 1
	ConnectionLimits limits;  // for each connection
	// Bytes that all connections may hold together for calls that are not answered and responses
	// that are not sent. Above that only connections that hold less than 64 KiB are read.
	std::size_t memory_max = std::size_t{1} << 30;
	channel::TcpOptions tcp;  // for each connection over TCP
	// An I/O thread polls this long after its last work before it sleeps.
	Nanoseconds spin = 50'000;
	std::chrono::milliseconds drain_patience{2'000};  // for calls in flight when the server stops
	Log log = log_to_standard_error;  // any thread of the server may call it
};

// All limits of a server with this configuration, by name.
channel::Described describe(const server_config& config);

class Server {
public:
	explicit Server(server_config config = {});
	explicit Server(unsigned threads, std::uint16_t port = 9001, std::string address = "0.0.0.0");
	~Server();  // stops it
	Server(const Server&) = delete;
	Server& operator=(const Server&) = delete;

	// Registers functions: under their own names, under another name, or under a key. Call it
	// before start(). A name or key that is in use already, or a name with the same hash, ends the
	// program: that is a mistake in its source.
	template <auto... f> void register_handler() { (add(Function<f>::id, make_handler<f>()), ...); }
	template <auto f> void register_handler(std::string_view name) { add(function_id(name), make_handler<f>(), name); }
	template <auto f> void register_handler(std::uint32_t key) { add(key, make_handler<f>()); }
	// Registers member functions of `object`, which must outlive the server.
	template <auto... f> void register_handler(typename detail::ClassOf<f...>::Type* object) {
		(add(Function<f>::id, make_handler<f>(object)), ...);
	}
	template <auto f> void register_handler(typename Function<f>::Class* object, std::string_view name) {
		add(function_id(name), make_handler<f>(object), name);
	}

	// Serves RDMA as well as TCP. Call it before start().
	void init_ibv(ibv_config config = {}) { ibv_ = std::move(config); }
	// Serves TCP in TLS instead of plain text. Call it before start().
	void init_ssl(ssl_config config = {}) { ssl_ = std::move(config); }

	// Serves until the server is stopped, and blocks the calling thread. Errors: bad_address,
	// address_in_used, listen_error, open_error (identity, device or options), and server_has_ran
	// if the server runs already.
	err_code start();
	// The outcome of async_start(). It is ready at once if the server could not start, otherwise
	// when the server has stopped.
	class Started {
	public:
		explicit Started(std::shared_future<err_code> future) : future_(std::move(future)) {}
		// Whether get() would return at once.
		bool hasResult() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
		err_code get() const { return future_.get(); }  // waits until the outcome is ready

	private:
		std::shared_future<err_code> future_;
	};
	// Starts the server on a thread of its own. Returns when the server listens or could not start;
	// Started::get() returns the errors of start().
	Started async_start();
	// Stops the server and returns when it has stopped. Does nothing if the server does not run. A
	// handler must not call stop(), because stop() waits for handlers.
	void stop();
	// Begins to stop, and returns at once. Handlers and signal handlers may call it.
	void request_stop();

	std::uint16_t port() const { return port_.load(); }  // 0 before the server listens
	const std::string& address() const { return config_.address; }
	// One sentence about a failed start. Read it after start() or async_start() has returned.
	const std::string& error_text() const { return error_; }
	// The number of connections that are open now.
	std::size_t connection_count() const;
	// Sums over all threads; see ServerCounters (server_connection.h). All but `connections` count
	// from the last start, and are 0 after a stop.
	struct Totals {
		std::uint64_t connections = 0;  // set up since the server was constructed
		std::uint64_t requests = 0, errors = 0, cancelled = 0, expired = 0, faults = 0;
		std::uint64_t over_budget = 0, budget_waits = 0;
		std::uint64_t frames_sent = 0, messages_sent = 0, messages_received = 0;
	};
	Totals totals() const;
	// RDMA memory and counters, summed over all threads. Blocks until each I/O thread has answered.
	RdmaUse rdma();

private:
	struct Worker;
	void add(std::uint32_t id, Handler handler, std::string_view name = {});
	err_code open();  // listens and starts the threads
	err_code fail(errc code, std::string text);
	void serve();  // accepts connections until request_stop()
	void drain();  // ends all connections and threads
	async::Task<void> until_drained(Nanoseconds deadline, bool& drained);
	// Chooses the transport of a client by the address at which it arrives; empty: there is one.
	std::function<channel::RcTransport&(const async::Address&)> transports_at(
		Worker& worker, const async::Address& where);
	// Serves a new connection, on its worker's thread.
	void take(Worker& worker, std::unique_ptr<channel::Channel> channel);

	server_config config_;
	Budget budget_{config_.memory_max};
	FunctionTable functions_;
	std::optional<ibv_config> ibv_;
	std::optional<ssl_config> ssl_;
	std::string error_;
	std::atomic<std::uint16_t> port_{0};
	std::atomic<std::uint64_t> connections_made_{0};
	std::atomic<bool> running_{false}, stopping_{false};
	std::mutex ended_lock_;  // held while the server serves and while it drains
	std::thread runner_;  // the thread that async_start() starts
	std::vector<std::unique_ptr<Worker>> workers_;
	// Accepts connections, and sets each up before its worker gets it.
	async::Loop setup_{{.spin = 0}};
	std::unique_ptr<channel::Acceptor> acceptor_;
};

}  // namespace verbena::rpc
