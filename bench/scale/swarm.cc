#include "bench/scale/swarm.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace verbena::scale {
namespace {

using async::Task;

// In front of each message: whose it is and which.
struct Mark {
	std::uint32_t client = 0;
	std::uint32_t number = 0;
};

constexpr Nanoseconds look_interval = 500'000;
// An address has 28,232 ports; clients of a server on this host come from several of its 127.0.0.0/8.
constexpr std::uint32_t clients_per_address = 10'000;

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
	std::uint64_t now = peak.load();
	while (now < value && !peak.compare_exchange_weak(now, value)) {}
}

struct Part {
	const SwarmOptions& options;
	Board& board;
	ClientRow* rows;
	PartRows& part;
	async::Loop loop;
	std::unique_ptr<channel::RcTransport> transport;
	std::vector<std::byte> pattern;
	bool loopback = false;
	async::List<async::Waiter> at_start, at_end;

	Task<void> client(std::uint32_t index);
	Task<bool> talk(std::uint32_t index, channel::Channel& channel);
	Task<void> watch();
	void fail(std::uint32_t index, Cause cause, const std::string& text);
};

void Part::fail(std::uint32_t index, Cause cause, const std::string& text) {
	rows[index].cause = cause;
	if (part.first_failure[0] == '\0') std::strncpy(part.first_failure, text.c_str(), sizeof part.first_failure - 1);
}

Task<void> Part::client(std::uint32_t index) {
	if (options.stagger > 0) co_await loop.sleep_for(index % 10 * options.stagger);
	async::Address from;
	if (loopback) {
		auto& address = reinterpret_cast<sockaddr_in&>(from.storage);
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + index / clients_per_address);
		from.length = sizeof address;
	}
	// A named object: GCC 12 moves the bytes of an aggregate that is made within a co_await expression.
	channel::ConnectOptions where{.protection = options.protection,
		.host = options.host,
		.port = options.port,
		.patience = options.patience,
		.from = loopback ? &from : nullptr};
	const Nanoseconds begun = monotonic_now();
	auto channel = co_await channel::connect(*transport, std::move(where));
	if (channel) {
		const Nanoseconds took = monotonic_now() - begun;
		part.connect.record(took);
		rows[index].connected = true;
		rows[index].connect_ms = static_cast<float>(static_cast<double>(took) / 1e6);
	} else {
		fail(index, Cause::connect, channel.error());
	}
	raise_to(board.connecting_ended, monotonic_now());
	board.settled.fetch_add(1);
	co_await async::Park(at_start);
	if (channel) co_await talk(index, **channel);
	raise_to(board.ended, monotonic_now());
	board.finished.fetch_add(1);
	co_await async::Park(at_end);
	if (!channel) co_return;
	(*channel)->close();
	co_await (*channel)->until_closed();
}

Task<bool> Part::talk(std::uint32_t index, channel::Channel& channel) {
	Nanoseconds sum = 0;
	for (std::uint32_t number = 0; number < options.messages; ++number) {
		const Mark mark{.client = index, .number = number};
		const std::span<const std::byte> whole_mark = std::as_bytes(std::span(&mark, 1));
		const auto head = whole_mark.first(std::min<std::size_t>(whole_mark.size(), options.message_bytes));
		const auto body = std::span(pattern).subspan(index % 64, options.message_bytes - head.size());
		const Nanoseconds begun = monotonic_now();
		// A send that fails leaves its reason to receive().
		co_await channel.send(head, body);
		auto echo = co_await channel.receive();
		if (!echo) {
			fail(index, Cause::lost, channel.reason().empty() ? std::string(name_of(echo.error())) : channel.reason());
			co_return false;
		}
		const auto bytes = echo->bytes();
		if (bytes.size() != options.message_bytes || std::memcmp(bytes.data(), head.data(), head.size()) != 0
			|| (!body.empty() && std::memcmp(bytes.data() + head.size(), body.data(), body.size()) != 0)) {
			fail(index, Cause::wrong_echo, "an echo is not what was sent");
			co_return false;
		}
		*echo = {};
		const Nanoseconds took = monotonic_now() - begun;
		part.latency.record(took);
		sum += took;
		++rows[index].echoes;
		if (options.think > 0 && number + 1 < options.messages) co_await loop.sleep_for(options.think);
	}
	rows[index].latency_ms = static_cast<float>(static_cast<double>(sum) / 1e6 / std::max(options.messages, 1u));
	co_return true;
}

Task<void> Part::watch() {
	while (board.settled.load() < options.clients) co_await loop.sleep_for(look_interval);
	std::uint64_t nobody = 0;
	board.began.compare_exchange_strong(nobody, monotonic_now());
	loop.resume_soon(at_start);
	while (board.finished.load() < options.clients) co_await loop.sleep_for(look_interval);
	loop.resume_soon(at_end);
}

}  // namespace

std::expected<void, std::string> run_part(
	const SwarmOptions& options, std::uint32_t first, std::uint32_t last, Board& board, ClientRow* rows, PartRows& part) {
	Part state{.options = options, .board = board, .rows = rows, .part = part, .loop = async::Loop({.spin = options.spin})};
	const std::uint32_t clients = last - first;
	auto transport = channel::RcTransport::open(state.loop, options.wish,
		{.units_start = std::max(256u, std::min(clients, 4096u)), .units_max = std::max(8192u, clients * 8), .connections_max = clients + 16});
	if (!transport) return std::unexpected(transport.error());
	state.transport = std::move(*transport);
	const auto address = async::resolve(options.host, options.port);
	if (!address) return std::unexpected(address.error());
	state.loopback = address->family() == AF_INET && async::is_loopback(*address);
	state.pattern.resize(options.message_bytes + 64);
	for (std::size_t i = 0; i < state.pattern.size(); ++i) state.pattern[i] = static_cast<std::byte>(i * 31 + i / 251);

	for (std::uint32_t index = first; index < last; ++index) state.loop.spawn(state.client(index));
	state.loop.spawn(state.watch());
	state.loop.run_until([&] { return state.loop.spawned() == 0; });
	return {};
}

}  // namespace verbena::scale
