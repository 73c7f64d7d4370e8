// Server: serves registered functions at one port, over TCP and, after init_ibv(), over RDMA.
//
//     coro_rpc_server server(threads, 9000);
//     server.register_handler<echo, add>();
//     server.init_ibv();                       // without it: TCP only
//     server.start();                          // blocks until stop() or request_stop()
//
// Each connection belongs to one of `thread_num` I/O threads, where its functions run: a plain
// function that blocks holds up the other connections of that thread. stop() asks clients to send
// no more, answers the calls in flight, and ends the rest after `drain_patience`. It waits longer
// only for functions that await a client on another I/O thread, until that call returns.
//
// Threads: set the server up and start it on one thread. stop() may be called by any thread that
//   runs no handler; request_stop() also by handlers and signal handlers. connection_count(),
//   totals() and rdma() may be called by any thread but a handler's while the server runs.
// Lifetime: contexts and other things that handlers keep must be gone before the server's threads
//   end. A server may be started again after it has stopped.
// Errors: err_code; error_text() and the log have the reason in one sentence.
#pragma once

#include <atomic>
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
// The function "verbena::protocol" of a server that has streams (frame.h).
inline std::uint32_t protocol() { return protocol_level; }
}  // namespace detail

struct server_config {
	std::string address = "0.0.0.0";  // a name or an address
	std::uint16_t port = 9001;  // 0: any free port, which port() returns
	unsigned thread_num = std::thread::hardware_concurrency();  // I/O threads; 0 counts as 1
	ConnectionLimits limits;  // for each connection
	channel::TcpOptions tcp;
	Nanoseconds spin = 50'000;  // a thread polls this long after its last work before it sleeps
	std::chrono::milliseconds drain_patience{2'000};  // for calls in flight when the server stops
	Log log = log_to_standard_error;  // called on any thread
};

class Server {
public:
	explicit Server(server_config config = {});
	explicit Server(unsigned threads, std::uint16_t port = 9001, std::string address = "0.0.0.0");
	~Server();  // stops it
	Server(const Server&) = delete;
	Server& operator=(const Server&) = delete;

	// Registers functions, under their own names or under a name or key. Call it before start(). A
	// name or hash that is registered already ends the program: it is a mistake in the source.
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
	// address_in_used, listen_error, open_error (identity, device or options), server_has_ran.
	err_code start();
	// The outcome of a server that runs on a thread of its own: ready at once if it could not
	// start, otherwise when it has stopped.
	class Started {
	public:
		explicit Started(std::shared_future<err_code> future) : future_(std::move(future)) {}
		bool hasResult() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
		err_code get() const { return future_.get(); }  // waits

	private:
		std::shared_future<err_code> future_;
	};
	// Returns when the server listens or has failed to. Errors as for start().
	Started async_start();
	// Stops the server and returns when it has stopped. Does nothing if it does not run. Must not
	// be called by a handler, which it would wait for.
	void stop();
	// Begins to stop, and returns at once. Handlers and signal handlers may call it.
	void request_stop();

	std::uint16_t port() const { return port_.load(); }  // 0 before it listens
	const std::string& address() const { return config_.address; }
	// One sentence about a failed start. Read it after start() or async_start() has returned.
	const std::string& error_text() const { return error_; }
	// The number of connections that are open now.
	std::size_t connection_count() const;
	// Sums over all threads; see ServerCounters.
	struct Totals {
		std::uint64_t connections = 0;  // accepted since the server was constructed
		std::uint64_t requests = 0, errors = 0, cancelled = 0, expired = 0, faults = 0;
		std::uint64_t frames_sent = 0, messages_sent = 0, messages_received = 0;
	};
	Totals totals() const;
	// RDMA memory and counters, summed over all threads, each of which is asked and waited for.
	RdmaUse rdma();

private:
	struct Worker;
	void add(std::uint32_t id, Handler handler, std::string_view name = {});
	err_code open();  // listens and starts the threads
	err_code fail(errc code, std::string text);
	void serve();  // accepts connections until request_stop()
	void drain();  // ends connections and threads
	async::Task<void> until_drained(Nanoseconds deadline, bool& drained);
	void take(Worker& worker, std::unique_ptr<channel::Channel> channel);  // a new connection

	server_config config_;
	FunctionTable functions_;
	std::optional<ibv_config> ibv_;
	std::optional<ssl_config> ssl_;
	std::string error_;
	std::atomic<std::uint16_t> port_{0};
	std::atomic<std::uint64_t> connections_made_{0};
	std::atomic<bool> running_{false}, stopping_{false};
	std::mutex ended_lock_;  // held while the server serves and while it drains
	std::thread runner_;  // the thread of async_start()
	std::vector<std::unique_ptr<Worker>> workers_;
	async::Loop setup_{{.spin = 0}};  // accepts, and sets connections up before a worker gets them
	std::unique_ptr<channel::Acceptor> acceptor_;
};

}  // namespace verbena::rpc
