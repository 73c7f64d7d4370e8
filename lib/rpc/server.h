// Server: registered functions at one port, for clients over TCP and RDMA.
//
//     coro_rpc_server server(threads, 9000);
//     server.register_handler<echo, add>();
//     server.init_ibv();                       // without it: TCP only
//     server.start();                          // until stop(), from any other thread or a signal handler
//
// Set it up and start it on one thread. Each connection lives on one of `threads` I/O threads, where its functions run
// too: one that blocks holds up the connections of that thread and no others. stop() lets clients send no more, answers
// what is in flight, and ends what is left after `drain_patience`; it waits longer only for functions whose call on
// another thread's client is not answered yet.
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
// What every server answers that has streams.
inline std::uint32_t protocol() { return protocol_level; }
}  // namespace detail

struct server_config {
	std::string address = "0.0.0.0";
	std::uint16_t port = 9001;
	unsigned thread_num = std::thread::hardware_concurrency();
	ConnectionLimits limits;
	channel::TcpOptions tcp;
	Nanoseconds spin = 50'000;  // how long a thread polls after its last work before it sleeps
	std::chrono::milliseconds drain_patience{2'000};
	Log log = log_to_standard_error;
};

class Server {
public:
	explicit Server(server_config config = {});
	explicit Server(unsigned threads, std::uint16_t port = 9001, std::string address = "0.0.0.0");
	~Server();  // stops it
	Server(const Server&) = delete;
	Server& operator=(const Server&) = delete;

	// Before start(). A name, or the hash of one, that is there already ends the program: it is a mistake in the
	// source.
	template <auto... f> void register_handler() { (add(Function<f>::id, make_handler<f>()), ...); }
	template <auto f> void register_handler(std::string_view name) { add(function_id(name), make_handler<f>(), name); }
	template <auto f> void register_handler(std::uint32_t key) { add(key, make_handler<f>()); }
	// Members, of an object that outlives the server.
	template <auto... f> void register_handler(typename detail::ClassOf<f...>::Type* object) {
		(add(Function<f>::id, make_handler<f>(object)), ...);
	}
	template <auto f> void register_handler(typename Function<f>::Class* object, std::string_view name) {
		add(function_id(name), make_handler<f>(object), name);
	}

	void init_ibv(ibv_config config = {}) { ibv_ = std::move(config); }
	void init_ssl(ssl_config config = {}) { ssl_ = std::move(config); }

	// Blocks until it is stopped. error_text() says in a sentence what an error code means here.
	err_code start();
	// Returns when it listens, or has failed: then the future is ready. Keep it: it ends with the server.
	class Started {
	public:
		explicit Started(std::shared_future<err_code> future) : future_(std::move(future)) {}
		bool hasResult() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
		err_code get() const { return future_.get(); }

	private:
		std::shared_future<err_code> future_;
	};
	Started async_start();
	// From any thread, not from a handler: returns when it has stopped. Nothing happens if it does not run.
	void stop();
	// From a handler or a signal handler: begins to stop.
	void request_stop();

	std::uint16_t port() const { return port_.load(); }
	const std::string& address() const { return config_.address; }
	const std::string& error_text() const { return error_; }
	std::size_t connection_count() const;
	// Sums over all threads.
	struct Totals {
		std::uint64_t connections = 0;  // that were made
		std::uint64_t requests = 0, errors = 0, cancelled = 0, expired = 0, faults = 0;
		std::uint64_t frames_sent = 0, messages_sent = 0, messages_received = 0;
	};
	Totals totals() const;
	// Of RDMA, on all threads. While it runs.
	RdmaUse rdma();

private:
	struct Worker;
	void add(std::uint32_t id, Handler handler, std::string_view name = {});
	err_code open();
	err_code fail(errc code, std::string text);
	void serve();
	void drain();
	async::Task<void> until_drained(Nanoseconds deadline, bool& drained);
	void take(Worker& worker, std::unique_ptr<channel::Channel> channel);

	server_config config_;
	FunctionTable functions_;
	std::optional<ibv_config> ibv_;
	std::optional<ssl_config> ssl_;
	std::string error_;
	std::atomic<std::uint16_t> port_{0};
	std::atomic<std::uint64_t> connections_made_{0};
	std::atomic<bool> running_{false}, stopping_{false};
	std::mutex ended_lock_;
	std::thread runner_;  // of async_start()
	std::vector<std::unique_ptr<Worker>> workers_;
	async::Loop setup_{{.spin = 0}};
	std::unique_ptr<channel::Acceptor> acceptor_;
};

}  // namespace verbena::rpc
