#include "bench/scale/echo_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace verbena::scale {
namespace {

using async::Task;

constexpr Nanoseconds drain_patience = 1'500'000'000;

// A channel that is being served, so that a server that ends can close it.
struct Served : async::Linked {
	explicit Served(channel::Channel& of) : channel(of) {}
	channel::Channel& channel;
};

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
	if (peak.load(std::memory_order_relaxed) < value) peak.store(value, std::memory_order_relaxed);
}

constexpr Nanoseconds look_interval = 100'000'000;

}  // namespace

EchoService::EchoService(EchoOptions options)
	: options_(std::move(options)),
	  counts_(options_.counts != nullptr ? *options_.counts : own_counts_),
	  setup_({.spin = 0}),
	  io_({.spin = options_.spin}) {}

EchoService::~EchoService() {
	io_.stop();
	if (thread_.joinable()) thread_.join();
	setup_.abandon_spawned();
	io_.abandon_spawned();
}

std::expected<void, std::string> EchoService::start() {
	auto transport = channel::RcTransport::open(io_, options_.wish, options_.rc);
	if (!transport) return std::unexpected(transport.error());
	transport_ = std::move(*transport);
	auto listener = async::listen(setup_, options_.where);
	if (!listener) return std::unexpected(listener.error());
	acceptor_ = std::make_unique<channel::Acceptor>(
		setup_, std::move(*listener), *transport_, options_.acceptor,
		[this](std::unique_ptr<channel::Channel> channel) { io_.spawn(serve(std::move(channel))); },
		[this](const std::string& what) {
			if (!options_.quiet) fmt::print(stderr, "{}\n", what);
		});
	acceptor_->start();
	setup_.spawn(look_at_itself());
	return {};
}

channel::Path EchoService::path() const {
	const lib::OpenDevice& device = transport_->device();
	return {.transport = "rc",
		.device = device.choice.device,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.peer = {}};
}

void EchoService::run() {
	thread_ = std::jthread([this] { io_.run(); });
	setup_.run();
	acceptor_->stop();
	io_.post([this] { io_.spawn(close_all()); });
	thread_.join();
}

Task<void> EchoService::serve(std::unique_ptr<channel::Channel> channel) {
	Served served(*channel);
	open_.push_back(served);
	raise_to(counts_.peak, counts_.connected.fetch_add(1, std::memory_order_relaxed) + 1);
	while (true) {
		auto message = co_await channel->receive();
		if (!message) break;
		if (!co_await channel->send(message->bytes())) break;
		counts_.echoed.fetch_add(1, std::memory_order_relaxed);
	}
	channel->close();
	co_await channel->until_closed();
	if (!channel->reason().empty()) {
		counts_.lost.fetch_add(1, std::memory_order_relaxed);
		if (!options_.quiet) fmt::print(stderr, "{}\n", channel->reason());
	}
	counts_.connected.fetch_sub(1, std::memory_order_relaxed);
}

Task<void> EchoService::look_at_itself() {
	while (true) {
		raise_to(counts_.threads_peak, use_of_process(getpid()).threads);
		co_await setup_.sleep_for(look_interval);
	}
}

Task<void> EchoService::close_all() {
	for (async::List<async::Linked> closing; async::Linked* each = open_.pop_front();) static_cast<Served*>(each)->channel.close();
	const Nanoseconds deadline = monotonic_now() + drain_patience;
	while (counts_.connected.load(std::memory_order_relaxed) > 0 && monotonic_now() < deadline) co_await io_.sleep_for(1'000'000);
	io_.stop();
}

}  // namespace verbena::scale
