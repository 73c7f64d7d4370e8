// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/echo_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/standard_streams.h"
#include "bench/scale/raise_to.h"
#include "lib/channel/transports_by_address.h"
#include "lib/metrics/channel_families.h"
#include "lib/verbs/local_device.h"

#include <vector>

namespace verbena::scale {
namespace {

using async::Task;

constexpr std::uint32_t labels_max = 1 << 20;
constexpr Nanoseconds answers_patience = 500'000'000, drain_patience = 1'500'000'000;
// The server does not know which message is the last to arrive. If no message was echoed in a pause
// of this length, all that have arrived are answered.
constexpr Nanoseconds pause_in_answers = 10'000'000;

// A channel that is being served, in the list of those that an ending server must close.
struct Served : async::Linked {
	explicit Served(channel::Channel& of) : channel(of) {}
	channel::Channel& channel;
};

constexpr Nanoseconds look_interval = 100'000'000;

}  // namespace

std::string too_many_threads() {
	return fmt::format(
		"--engine threads has a thread for each client, at most {}: use fewer clients, or --engine epoll",
		engine_threads_max);
}

channel::Described describe(const EchoOptions& options) {
	const auto text = [](auto number) { return fmt::format("{}", number); };
	channel::Described all{{"engine", std::string(name_of(options.engine))}, {"poll_us", text(options.spin / 1000)},
		{"accept_rate", text(options.acceptor.accept_rate)}, {"logical_channels_max", text(options.logical)},
		{"shared_queue_pairs_max", text(options.shared_queue_pairs_max)}};
	for (auto& each : channel::describe(options.acceptor)) all.push_back(std::move(each));
	for (auto& each : channel::describe(options.rc)) all.push_back(std::move(each));
	const auto add = [&](const char* name, auto number) { all.emplace_back(name, text(number)); };
	add("logical_window", options.mux.window);
	add("logical_frame_bytes", options.mux.frame_bytes);
	add("logical_batch_bytes", options.mux.batch_bytes);
	add("logical_message_max", options.mux.message_max);
	return all;
}

EchoService::EchoService(EchoOptions options)
	: options_(std::move(options)),
	  counts_(options_.counts != nullptr ? *options_.counts : own_counts_),
	  setup_(loop_options(0)) {}

async::LoopOptions EchoService::loop_options(Nanoseconds spin) const {
	return {.spin = spin,
		.selector = options_.engine == Engine::uring ? async::SelectorKind::uring : async::SelectorKind::epoll};
}

EchoService::~EchoService() {
	for (auto& home : homes_) home->loop.stop();
	for (auto& home : homes_)
		if (home->thread.joinable()) home->thread.join();
	setup_.abandon_spawned();
	for (auto& home : homes_) home->loop.abandon_spawned();
}

std::expected<void, std::string> EchoService::start() {
	const bool threads = options_.engine == Engine::threads;
	const std::size_t count = threads ? options_.threads : 1;
	if (options_.wish.device.empty()) options_.wish.device = lib::device_at(options_.where.get());
	std::vector<channel::Acceptor::Home> homes;
	for (std::size_t i = 0; i < count; ++i) {
		// With a thread for each client, a thread must not spin: it would take the others' cores.
		Home& home = *homes_.emplace_back(std::make_unique<Home>(loop_options(threads ? 0 : options_.spin)));
		auto transport = channel::RcTransport::open(home.loop, options_.wish, options_.rc);
		if (!transport) return std::unexpected(transport.error());
		home.transports.push_back(std::move(*transport));
		homes.push_back({.loop = &home.loop,
			.transport = home.transports.front().get(),
			.deliver =
				[this, &home](
					std::unique_ptr<channel::Channel> channel) { home.loop.spawn(serve(home, std::move(channel))); },
			.transport_at = transports_at(home),
			.deliver_carrier =
				[this, &home](std::unique_ptr<channel::Channel> carrier, const channel::Negotiated& granted) {
					home.loop.spawn(serve_carrier(home, std::move(carrier), granted.logical_channels));
				}});
	}
	auto listener = async::listen(setup_, options_.where);
	if (!listener) return std::unexpected(listener.error());
	options_.acceptor.logical_channels_max = options_.logical;
	options_.acceptor.shared_queue_pairs_max = options_.shared_queue_pairs_max;
	options_.acceptor.observe = [this](const channel::SetupReport& report) {
		if (report.trouble) failed_setups_.count(report.cause());
		else set_up_times_.record(report.took);
	};
	acceptor_ = std::make_unique<channel::Acceptor>(
		setup_, std::move(*listener), std::move(homes), options_.acceptor, [this](const std::string& what) {
			if (!options_.quiet) write_error(what + "\n");
		});
	acceptor_->start();
	if (options_.rdmacm)
		if (auto listening = acceptor_->listen_managed(); !listening) rdmacm_trouble_ = listening.error();
	setup_.spawn(sample_threads());
	return {};
}

std::function<channel::RcTransport&(const async::Address&)> EchoService::transports_at(Home& home) {
	const auto open = [this, &home](const std::string& device) -> channel::RcTransport* {
		lib::DeviceRequest wish = options_.wish;
		wish.device = device;
		auto transport = channel::RcTransport::open(home.loop, wish, options_.rc);
		return transport ? home.transports.emplace_back(std::move(*transport)).get() : nullptr;
	};
	return channel::transport_by_address(options_.where, options_.wish, *home.transports.front(), open);
}

Engine EchoService::engine() const {
	if (options_.engine != Engine::uring) return options_.engine;
	return homes_.front()->loop.selector() == async::SelectorKind::uring ? Engine::uring : Engine::epoll;
}

std::string EchoService::engine_fallback_reason() const {
	if (engine() == options_.engine) return {};
	return fmt::format(
		"the kernel refuses io_uring, so epoll is used instead ({})", homes_.front()->loop.selector_refusal());
}

channel::Path EchoService::path() const {
	const lib::OpenDevice& device = homes_.front()->transports.front()->device();
	return {.transport = "rc",
		.device = device.choice.device,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.peer = {}};
}

channel::RcCounters EchoService::counters() const {
	channel::RcCounters sum;
	using Counters = channel::RcCounters;
	for (const auto& home : homes_)
		for (auto member :
			{&Counters::frames_sent, &Counters::frames_inline, &Counters::frames_received, &Counters::messages_sent,
				&Counters::messages_received, &Counters::messages_coalesced, &Counters::credit_frames,
				&Counters::want_frames, &Counters::heartbeats, &Counters::bytes_sent, &Counters::bytes_received,
				&Counters::channels_opened, &Counters::channels_lost, &Counters::send_posts, &Counters::receive_posts})
			for (const auto& transport : home->transports) sum.*member += transport->counters().*member;
	return sum;
}

void EchoService::run() {
	for (auto& home : homes_) {
		home->thread = std::jthread([&home] { home->loop.run(); });
		pthread_setname_np(home->thread.native_handle(), "channels");
	}
	setup_.run();
	acceptor_->stop();
	for (auto& home : homes_) home->loop.post([this, &home] { home->loop.spawn(drain(*home)); });
	for (auto& home : homes_) home->thread.join();
	ended_.store(true, std::memory_order_release);
}

Task<void> EchoService::serve(Home& home, std::unique_ptr<channel::Channel> channel) {
	Served served(*channel);
	home.open.push_back(served);
	++home.served;
	raise_to(counts_.peak, counts_.connected.fetch_add(1, std::memory_order_relaxed) + 1);
	while (true) {
		auto message = co_await channel->receive();
		if (!message) break;
		const Nanoseconds arrived = options_.timed ? monotonic_now() : 0;
		++home.answering;
		const auto sent = co_await channel->send(message->bytes());
		--home.answering;
		if (!sent) break;
		if (options_.timed) service_times_.record(monotonic_now() - arrived);
		counts_.echoed.fetch_add(1, std::memory_order_relaxed);
	}
	channel->close();
	co_await channel->until_closed();
	if (!channel->reason().empty()) {
		counts_.lost.fetch_add(1, std::memory_order_relaxed);
		errors_.count(channel->cause());
		if (!options_.quiet) write_error(channel->reason() + "\n");
	}
	counts_.connected.fetch_sub(1, std::memory_order_relaxed);
	--home.served;
}

Task<void> EchoService::serve_carrier(
	Home& home, std::unique_ptr<channel::Channel> channel, std::uint32_t channels_max) {
	channel::MuxOptions options = options_.mux;
	options.channels_max = channels_max;
	channel::MuxCarrier carrier(std::move(channel), channel::Mux::Side::acceptor, options,
		[this, &home](std::unique_ptr<channel::MuxChannel> logical) {
			count_label(logical->label());
			home.loop.spawn(serve(home, std::move(logical)));
		});
	home.carriers.push_back(&carrier);
	++home.carried;
	raise_to(counts_.carriers_peak, counts_.carriers.fetch_add(1, std::memory_order_relaxed) + 1);
	co_await carrier.until_ended();
	std::erase(home.carriers, &carrier);
	ended_carriers_ += carrier.mux().counters();
	if (!carrier.reason().empty() && !options_.quiet) write_error(carrier.reason() + "\n");
	counts_.carriers.fetch_sub(1, std::memory_order_relaxed);
	--home.carried;
}

void EchoService::count_label(std::uint32_t label) {
	if (label >= labels_max) return;
	if (label >= labels_seen_.size()) labels_seen_.resize(label + 1);
	if (labels_seen_[label]) return;
	labels_seen_[label] = true;
	counts_.labels.fetch_add(1, std::memory_order_relaxed);
}

metrics::Families EchoService::families() {
	using namespace metrics;
	const auto now = [](const std::atomic<std::uint64_t>& count) {
		return static_cast<double>(count.load(std::memory_order_relaxed));
	};
	Families all{gauge("verbena_engine_info", "The engine in use", 1, {{"engine", std::string(name_of(engine()))}}),
		gauge("verbena_clients", "Clients that are connected", now(counts_.connected)),
		gauge("verbena_clients_peak", "The most clients at once", now(counts_.peak)),
		counter("verbena_echoes_total", "Messages that were sent back", now(counts_.echoed)),
		counter("verbena_clients_lost_total", "Clients whose connection broke", now(counts_.lost)),
		errors_.family("verbena_channel_errors_total",
			"Channels that broke, by the status of the completion that showed it or by another cause", "status"),
		failed_setups_.family("verbena_handshake_failures_total", "Set-ups that failed, by cause", "cause"),
		set_up_times_.family(
			"verbena_handshake_seconds", "From a client's first byte to its proof, for set-ups that succeeded"),
		service_times_.family("verbena_echo_service_seconds", "From a message's arrival to the sending of its echo")};
	const auto append = [&](std::optional<Families> more) {
		if (more)
			for (Family& each : *more) all.push_back(std::move(each));
	};
	// After run() the loops no longer run, and their state no longer changes: read it directly.
	const auto read_on = [&](async::Loop& loop, auto read) -> std::optional<Families> {
		return ended_.load(std::memory_order_acquire) ? read() : on_loop(loop, read);
	};
	// With Engine::threads there are up to 2000 transports, too many for a page of metrics.
	Home& home = *homes_.front();
	if (options_.engine != Engine::threads)
		append(read_on(home.loop, [&home] { return transport_families(home.transports); }));
	append(read_on(setup_, [this] { return acceptor_families(*acceptor_); }));
	if (options_.logical > 0)
		append(read_on(home.loop, [this, &home] {
			channel::MuxCounters sum = ended_carriers_;
			std::size_t channels = 0;
			for (const channel::MuxCarrier* each : home.carriers) {
				sum += each->mux().counters();
				channels += each->mux().channels();
			}
			return mux_families(sum, counts_.carriers.load(std::memory_order_relaxed), channels);
		}));
	append(process_families());
	return all;
}

Task<void> EchoService::sample_threads() {
	while (true) {
		raise_to(counts_.threads_peak, use_of_process(getpid()).threads);
		co_await setup_.sleep_for(look_interval);
	}
}

Task<void> EchoService::drain(Home& home) {
	const Nanoseconds began = monotonic_now(), deadline = began + drain_patience;
	const auto echoed = [this] { return counts_.echoed.load(std::memory_order_relaxed); };
	for (std::uint64_t before = ~0ull;
		(home.answering > 0 || before != echoed()) && monotonic_now() < began + answers_patience;) {
		before = echoed();
		co_await home.loop.sleep_for(pause_in_answers);
	}
	while (home.served > 0 && monotonic_now() < deadline) {
		while (async::Linked* each = home.open.pop_front()) static_cast<Served*>(each)->channel.close();
		co_await home.loop.sleep_for(1'000'000);
	}
	for (channel::MuxCarrier* each : home.carriers) each->close();
	while (home.carried > 0 && monotonic_now() < deadline) co_await home.loop.sleep_for(1'000'000);
	home.loop.stop();
}

}  // namespace verbena::scale
