#include "bench/kv/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/histogram.h"

namespace verbena::kvbench {
namespace {

using async::Task;

// Values are of so many keys, in turn.
constexpr std::uint32_t keys = 16;

std::string key_of(std::uint32_t client, std::uint32_t index) { return fmt::format("{:04}:{:03}", client, index % keys); }

// Byte i of every value of this size of this client: cheap to make, and no two sizes or clients alike.
std::byte byte_of(std::uint32_t client, std::uint32_t size, std::size_t i) {
	return static_cast<std::byte>((i * 167 + i / 251 + size * 31 + client * 7) & 0xff);
}

struct Phase {
	kv::Session& session;
	const Cell& cell;
	const channel::Buffer& source;    // registered; or
	const std::vector<std::byte>& heap;
	std::uint64_t wanted = 0, begun = 0, done = 0;
	Nanoseconds deadline = never;
	std::size_t lanes = 0;
	Histogram latency;
	std::uint64_t latency_sum = 0, wrong = 0;
	std::string failure;

	kv::Bytes value() const { return source ? kv::Bytes(source.bytes()) : kv::Bytes(heap); }
	// Whole up to 4 KiB; above that both ends and the middle, or comparing would be what is measured.
	bool is_right(kv::Bytes got) const {
		const kv::Bytes set = value();
		if (got.size() != set.size()) return false;
		if (set.size() <= 4096) return std::memcmp(got.data(), set.data(), set.size()) == 0;
		for (const std::size_t at : {std::size_t{0}, set.size() / 2, set.size() - 64})
			if (std::memcmp(got.data() + at, set.data() + at, 64) != 0) return false;
		return true;
	}
};

// One operation at a time, again and again.
Task<void> lane(kv::Client& client, Phase& phase, std::uint32_t number, std::uint32_t index) {
	const std::string key = key_of(number, index);
	const bool setting = phase.cell.op == Op::set;
	while (phase.begun < phase.wanted && phase.failure.empty()) {
		const Nanoseconds begun = monotonic_now();
		if (begun > phase.deadline) break;
		++phase.begun;
		std::optional<kv::Error> error;
		if (setting && phase.source) {
			channel::Place place(phase.source);
			const auto set = co_await client.set(key, std::move(place));
			if (!set) error = set.error();
		} else if (setting) {
			const kv::Bytes value = phase.value();
			const auto set = co_await client.set(key, value);
			if (!set) error = set.error();
		} else {
			auto got = co_await client.get(key);
			if (!got) error = got.error();
			else if (!phase.is_right(got->bytes())) ++phase.wrong;
		}
		if (error) {
			phase.failure = kv::sentence_of(*error);
			break;
		}
		const Nanoseconds took = monotonic_now() - begun;
		phase.latency.record(took);
		phase.latency_sum += took;
		++phase.done;
	}
	--phase.lanes;
}

Task<void> set_all(kv::Client& client, std::uint32_t number, kv::Bytes value, std::string& failure) {
	for (std::uint32_t i = 0; i < keys && failure.empty(); ++i) {
		const std::string key = key_of(number, i);
		const auto set = co_await client.set(key, value);
		if (!set) failure = kv::sentence_of(set.error());
	}
}

Task<void> get_all(kv::Client& client, std::uint32_t number, std::string& failure) {
	for (std::uint32_t i = 0; i < keys && failure.empty(); ++i) {
		const std::string key = key_of(number, i);
		const auto got = co_await client.get(key);
		if (!got) failure = kv::sentence_of(got.error());
	}
}

// The last SET of each key is what the store has.
Task<void> check_all(kv::Client& client, std::uint32_t number, const Phase& phase, std::uint64_t& wrong) {
	for (std::uint32_t i = 0; i < std::min(keys, phase.cell.window); ++i) {
		const std::string key = key_of(number, i);
		auto got = co_await client.get(key);
		const kv::Bytes set = phase.value();
		if (!got || got->size != set.size() || std::memcmp(got->data(), set.data(), set.size()) != 0) ++wrong;
	}
}

std::uint64_t registrations_of(kv::Session& session) {
	return session.transport() == nullptr ? 0 : session.transport()->memory().counters().registrations;
}

}  // namespace

Run Worker::run(const Cell& cell) {
	Run result;
	const auto fail = [&](const std::string& why) {
		why.copy(result.failure, sizeof result.failure - 1);
		return result;
	};
	while (clients_.size() < cell.clients) {
		auto client = session_.connect_now({.one_sided = one_sided_});
		if (!client) return fail(client.error());
		clients_.push_back(std::move(*client));
	}
	channel::Buffer source;
	std::vector<std::byte> heap;
	if (session_.transport() != nullptr) source = session_.transport()->memory().take(cell.size);
	if (!source) heap.resize(cell.size);
	const auto bytes = source ? source.bytes() : std::span(heap);
	for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(0, cell.size, i);

	std::string failure;
	for (std::uint32_t i = 0; i < cell.clients; ++i) {
		kv::ClientOptions& options = clients_[i]->options();
		options.protocol = cell.proto == Proto::eager ? kv::Protocol::eager
			: cell.proto == Proto::rndv               ? kv::Protocol::rendezvous
													  : kv::Protocol::automatic;
		options.one_sided = false;
		options.form = cell.form == Form::write ? kv::Form::write : kv::Form::read;
		if (cell.op == Op::get) session_.loop().complete(set_all(*clients_[i], i, bytes, failure));
		// The first to ask for a key has it published.
		options.one_sided = cell.proto == Proto::one_sided;
		if (options.one_sided) session_.loop().complete(get_all(*clients_[i], i, failure));
	}
	if (!failure.empty()) return fail(failure);

	// What the window takes is registered before anything is timed, however short the warm-up.
	if (session_.transport() != nullptr && cell.proto != Proto::eager) {
		std::vector<channel::Buffer> aside;
		for (std::uint32_t i = 0; i < cell.window * cell.clients + 1; ++i)
			for (const std::size_t bytes : {std::size_t{kv::line_bytes}, cell.size + key_of(0, 0).size() + 1, cell.size + std::size_t{1}})
				aside.push_back(session_.transport()->memory().take(bytes));
	}

	const auto phase = [&](std::uint64_t operations, Nanoseconds deadline) {
		Phase phase{.session = session_, .cell = cell, .source = source, .heap = heap, .wanted = operations, .deadline = deadline};
		phase.lanes = std::size_t{cell.window} * cell.clients;
		for (std::uint32_t i = 0; i < cell.window; ++i)
			for (std::uint32_t c = 0; c < cell.clients; ++c) session_.loop().spawn(lane(*clients_[c], phase, c, i));
		session_.loop().run_until([&] { return phase.lanes == 0; });
		return phase;
	};
	const auto sum = [&](auto of) {
		std::uint64_t all = 0;
		for (std::uint32_t i = 0; i < cell.clients; ++i) all += of(clients_[i]->counters());
		return all;
	};
	const auto counted = [&] {
		return Run{.messages = sum([](const kv::ClientCounters& of) { return of.records_sent + of.records_received; }),
			.eager = sum([](const kv::ClientCounters& of) { return of.eager; }),
			.reads = sum([](const kv::ClientCounters& of) { return of.reads; }),
			.writes = sum([](const kv::ClientCounters& of) { return of.writes; }),
			.lent = sum([](const kv::ClientCounters& of) { return of.lent; }),
			.copied = sum([](const kv::ClientCounters& of) { return of.copied; }),
			.one_sided = sum([](const kv::ClientCounters& of) { return of.one_sided; }),
			.registrations = registrations_of(session_)};
	};

	if (cell.warmup > 0) phase(cell.warmup, never);
	const Run before = counted();
	for (std::uint32_t i = 0; i < cell.clients; ++i) clients_[i]->reset_depth();
	const Nanoseconds begun = monotonic_now();
	const Phase timed = phase(cell.iters, begun + static_cast<Nanoseconds>(cell.seconds_max * 1e9));
	result = counted();
	result.elapsed_ns = monotonic_now() - begun;
	result.messages -= before.messages;
	result.eager -= before.eager;
	result.reads -= before.reads;
	result.writes -= before.writes;
	result.lent -= before.lent;
	result.copied -= before.copied;
	result.one_sided -= before.one_sided;
	result.registrations -= before.registrations;
	result.operations = timed.done;
	result.latency_sum_ns = timed.latency_sum;
	result.p50_ns = timed.latency.quantile(0.5);
	result.p99_ns = timed.latency.quantile(0.99);
	result.wrong = timed.wrong;
	for (std::uint32_t i = 0; i < cell.clients; ++i) result.depth_max = std::max(result.depth_max, clients_[i]->counters().under_way_max);
	if (!timed.failure.empty()) return fail(timed.failure);
	if (cell.op == Op::set)
		for (std::uint32_t i = 0; i < cell.clients; ++i) session_.loop().complete(check_all(*clients_[i], i, timed, result.wrong));
	return result;
}

std::uint64_t Worker::operations() const {
	std::uint64_t all = 0;
	for (const auto& client : clients_) all += client->counters().operations;
	return all;
}

}  // namespace verbena::kvbench
