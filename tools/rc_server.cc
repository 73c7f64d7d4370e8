// SPDX-License-Identifier: Apache-2.0
// The program rc_server: accepts rc_client by rdma_cm and is the receiver of its measured runs.
//
// Threads: the main thread reads all rdma_cm events; each client has a thread of its own, at most
//   `clients_max` at once.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <list>
#include <thread>

#include "bench/rcud/connected_run.h"
#include "bench/rcud/managed.h"
#include "bench/rcud/protocol.h"
#include "bench/rcud/receiver.h"
#include "tools/command_line.h"
#include "tools/loopback_device.h"
#include "tools/program.h"

namespace verbena::rcud {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t clients_max = 64;
// A silent client is probed this often, because a killed one may send no disconnect.
constexpr std::uint64_t probe_every_ns = 1'000'000'000;

std::atomic<bool> stopping = false;

struct Options {
	std::uint16_t port = 18515;
	bool once = false;
};

void say(const std::string& peer, const std::string& what) {
	fmt::print("[RC Server] Client {}: {}\n", peer, what);
	std::fflush(stdout);
}

// One client, from its connection request to its end.
//
// Threads: its own thread makes and uses the endpoint. The main thread constructs and destroys the
//   Session and calls note_gone(); the flags are atomic.
// Lifetime: the destructor waits for the thread, so destroy it once done() is true.
class Session {
public:
	explicit Session(const lib::ConnectionEvent& request)
		: id_(request.id), peer_(lib::format_address(rdma_get_peer_addr(request.id))), request_(request.private_data) {
		thread_ = std::thread([this] { run(); });
	}
	~Session() {
		thread_.join();
		end_.reset();
		if (connection_) rdma_disconnect(connection_->id.get());
	}
	Session(const Session&) = delete;
	Session& operator=(const Session&) = delete;

	const rdma_cm_id* id() const { return id_; }
	void note_gone() { gone_ = true; }
	bool done() const { return done_; }
	bool good() const { return good_; }

private:
	void run() {
		bool accepted = false;
		try {
			connection_.emplace(lib::ConnectionId(id_));
			const Offer offer = take(decode_offer(request_));
			make_endpoint(offer);
			Receiver receiver(*end_, 0, false, &delivered_);
			receiver.prepare(offer.run);
			receiver.post_receives();
			answer(*connection_, *end_, offer);
			accepted = true;
			measure(receiver, offer);
			good_ = true;
		} catch (const Failure& failure) {
			if (!accepted && connection_) lib::reject(id_, failure.what());
			say(peer_,
				accepted ? fmt::format("{}; {} messages were delivered before",
							   gone_          ? "the client disconnected"
								   : stopping ? "the server was stopped"
											  : failure.what(),
							   delivered_.load())
						 : fmt::format("rejected: {}", failure.what()));
		}
		done_ = true;
	}

	void make_endpoint(const Offer& offer) {
		if (const std::string reason = refusal_of(offer.cell); !reason.empty()) throw Failure(reason);
		const lib::OpenDevice& device = connection_->device;
		const Shape shape =
			take(shape_of(offer.cell, {}, {.mtu = device.mtu_bytes(), .queue_depth_max = queue_depth_of(device)}));
		end_.emplace(device, offer.cell, shape, Side::receiver, 0, Endpoint::default_qkey, id_);
	}

	void measure(Receiver& receiver, const Offer& offer) {
		const bool is_read = offer.cell.op == Op::read;
		std::uint64_t asked_at = now_ns();
		const Delivery delivery = receiver.run(offer.run, [&](bool) {
			if (stopping) return Watch::abandon;
			if (gone_) return is_read ? Watch::finished : Watch::abandon;
			if (const std::uint64_t now = now_ns(); now - asked_at > probe_every_ns) {
				receiver.probe();
				asked_at = now;
			}
			return Watch::go_on;
		});
		if (is_read) return say(peer_, "read from this server until it disconnected");

		const RunReport report{.question = make_stamp(offer.run.number, offer.run.total),
			.message_max = offer.cell.msg,
			.delivered = delivery.delivered,
			.duplicated = delivery.duplicated,
			.reordered = delivery.reordered,
			.corrupt = delivery.corrupt,
			.counted = delivery.counted,
			.counted_ns = delivery.counted_ns};
		// The client disconnects as soon as it has the report, and that event can arrive here
		// before the report's completion was polled. Poll for one more second: the completion is in
		// the queue by then, or it was flushed with an error.
		std::uint64_t left_at = 0;
		send_report(*end_, report, [&] {
			if (gone_ && left_at == 0) left_at = now_ns();
			return !stopping && (left_at == 0 || now_ns() - left_at < 1'000'000'000);
		});
		say(peer_,
			fmt::format("{} delivered by {}, {} lost of {}, {} duplicated, {} reordered, {} damaged, {:.3f} Mops",
				delivery.delivered, name_of(offer.cell.op),
				offer.run.total - std::min(offer.run.total, delivery.delivered), offer.run.total, delivery.duplicated,
				delivery.reordered, delivery.corrupt, delivery.mops()));
	}

	rdma_cm_id* const id_;  // owned by connection_; destroyed with it, or when making that fails
	const std::string peer_;
	const std::vector<std::byte> request_;
	std::optional<Connection> connection_;
	std::optional<Endpoint> end_;
	std::atomic<std::uint64_t> delivered_ = 0;
	std::atomic<bool> gone_ = false, done_ = false, good_ = false;
	std::thread thread_;
};

int run(const Options& options) {
	fmt::print("Starting RDMA Server on port {} (Type: RC)...\n", options.port);
	std::fflush(stdout);
	const lib::EventChannel channel = take(lib::make_event_channel());
	const lib::ConnectionId listener = take(lib::listen(channel.get(), lib::any_address(options.port), clients_max));
	fmt::print("RDMA Server listening...\n");
	std::fflush(stdout);

	std::list<Session> sessions;
	while (!stopping) {
		const auto event = take(lib::next_event(channel.get(), 100ms));
		if (event && event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			if (sessions.size() < clients_max) {
				sessions.emplace_back(*event);
			} else {
				const lib::ConnectionId refused(event->id);
				lib::reject(refused.get(), fmt::format("the server is full: it has {} clients already", clients_max));
			}
		} else if (event && event->type != RDMA_CM_EVENT_ESTABLISHED) {
			const auto whose = std::ranges::find(sessions, event->id, &Session::id);
			if (whose != sessions.end()) whose->note_gone();
		}
		const auto ended = std::ranges::find_if(sessions, &Session::done);
		if (ended == sessions.end()) continue;
		const bool good = ended->good();
		sessions.erase(ended);
		if (options.once) return good ? 0 : 1;
	}
	return 0;
}

}  // namespace
}  // namespace verbena::rcud

static int act(int argc, char** argv) {
	using namespace verbena::rcud;
	verbena::tools::list_loopback_device();
	Options options;
	verbena::tools::CommandLine app("rc_server", "Accepts rc_client by rdma_cm and reports each transfer.");
	app.footer(
		"Examples:\n  rc_server                  listen at all addresses, port 18515\n"
		"  rc_server --port 4000 --once\n"
		"Then start rc_client SERVER_IP on this or another host. SIGINT or SIGTERM ends the server.\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage.");
	app.add_option("--port", options.port, "rdma_cm port (port space TCP)")
		->capture_default_str()
		->check(CLI::Range(1u, 65'535u));
	app.add_flag("--once", options.once, "End after one client");
	if (const auto code = app.read(argc, argv)) return *code;
	struct sigaction stop{};
	stop.sa_handler = [](int) { stopping = true; };
	sigaction(SIGINT, &stop, nullptr);
	sigaction(SIGTERM, &stop, nullptr);
	return run(options);
}

int main(int argc, char** argv) { return verbena::tools::run_program("rc_server", act, argc, argv); }
