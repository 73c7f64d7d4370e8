#include "bench/scale/echo_service.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

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

}  // namespace

ProcessUse use_of_process(pid_t process) {
	ProcessUse use;
	std::ifstream status(fmt::format("/proc/{}/status", process));
	for (std::string line; std::getline(status, line);) {
		const auto number = [&] { return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10); };
		if (line.starts_with("VmRSS:")) use.resident_bytes = number() * 1024;
		if (line.starts_with("VmHWM:")) use.peak_resident_bytes = number() * 1024;
		if (line.starts_with("Threads:")) use.threads = number();
	}
	if (process != getpid()) return use;
	rusage spent{};
	getrusage(RUSAGE_SELF, &spent);
	const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; };
	use.cpu_seconds = seconds(spent.ru_utime) + seconds(spent.ru_stime);
	use.voluntary_switches = static_cast<std::uint64_t>(spent.ru_nvcsw);
	use.involuntary_switches = static_cast<std::uint64_t>(spent.ru_nivcsw);
	return use;
}

EchoService::EchoService(EchoOptions options) : options_(std::move(options)), setup_({.spin = 0}), io_({.spin = options_.spin}) {}

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
		[this](std::unique_ptr<channel::RcChannel> channel) { io_.spawn(serve(std::move(channel))); },
		[this](const std::string& what) {
			if (!options_.quiet) fmt::print(stderr, "{}\n", what);
		});
	acceptor_->start();
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

Task<void> EchoService::serve(std::unique_ptr<channel::RcChannel> channel) {
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

Task<void> EchoService::close_all() {
	for (async::List<async::Linked> closing; async::Linked* each = open_.pop_front();) static_cast<Served*>(each)->channel.close();
	const Nanoseconds deadline = monotonic_now() + drain_patience;
	while (counts_.connected.load(std::memory_order_relaxed) > 0 && monotonic_now() < deadline) co_await io_.sleep_for(1'000'000);
	io_.stop();
}

}  // namespace verbena::scale
