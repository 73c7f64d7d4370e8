#include "bench/kv/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/histogram.h"
#include "bench/kv/values.h"

namespace verbena::kvbench {
namespace {

using async::Task;

// The number of keys of each client. Lane i of a client uses key i modulo this number.
constexpr std::uint32_t keys = 16;

// One key: its name, and its number among the values.
struct Key {
	std::string name;
	std::uint32_t number = 0;
	bool set = false;  // this run has set it
};

// The progress of the warm-up or of the timed operations, shared by all lanes.
struct Phase {
	const Cell& cell;
	const Values& values;
	std::uint64_t wanted = 0, begun = 0, done = 0;
	Nanoseconds deadline = never;
	std::size_t lanes = 0;
	Histogram latency;
	std::uint64_t latency_sum = 0, wrong = 0;
	std::string failure;
};

// Executes one operation after the other until the phase is done. `window` lanes of each client run
// at once.
Task<void> lane(kv::Client& client, Phase& phase, Key& key) {
	const bool setting = phase.cell.op == Op::set;
	while (phase.begun < phase.wanted && phase.failure.empty()) {
		const Nanoseconds begun = monotonic_now();
		if (begun > phase.deadline) break;
		++phase.begun;
		std::optional<kv::Error> error;
		if (setting && phase.values.registered()) {
			channel::Place place = phase.values.place(key.number);
			const auto set = co_await client.set(key.name, std::move(place));
			if (!set) error = set.error();
		} else if (setting) {
			const kv::Bytes value = phase.values.of(key.number);
			const auto set = co_await client.set(key.name, value);
			if (!set) error = set.error();
		} else {
			auto got = co_await client.get(key.name);
			if (!got) error = got.error();
			else if (!phase.values.looks_right(key.number, got->bytes())) ++phase.wrong;
		}
		if (error) {
			phase.failure = kv::sentence_of(*error);
			break;
		}
		key.set = true;
		const Nanoseconds took = monotonic_now() - begun;
		phase.latency.record(took);
		phase.latency_sum += took;
		++phase.done;
	}
	--phase.lanes;
}

// Sets all keys, so that GETs find them.
Task<void> set_all(kv::Client& client, std::vector<Key>& all, const Values& values, std::string& failure) {
	for (Key& key : all) {
		const kv::Bytes value = values.of(key.number);
		const auto set = co_await client.set(key.name, value);
		if (!set) failure = kv::sentence_of(set.error());
		key.set = true;
	}
}

// Adds to `wrong` the number of keys that were set and now have another value.
Task<void> check_all(kv::Client& client, const std::vector<Key>& all, const Values& values, std::uint64_t& wrong) {
	for (const Key& key : all) {
		if (!key.set) continue;
		const auto got = co_await client.get(key.name);
		if (!got || !values.is_right(key.number, got->bytes())) ++wrong;
	}
}

std::uint64_t registrations_of(kv::Session& session) {
	return session.transport() == nullptr ? 0 : session.transport()->memory().counters().registrations;
}

// Takes as much registered memory as the window needs and frees it, so that the pool registers
// nothing during the timed operations, however short the warm-up is. `record` is the size of a
// published value with its key.
void register_memory(channel::MemoryPool& pool, const Cell& cell, std::size_t record) {
	std::vector<channel::Buffer> aside;
	for (std::uint32_t i = 0; i < cell.window * cell.clients + 1; ++i)
		for (const std::size_t bytes : {std::size_t{kv::line_bytes}, record, cell.size + std::size_t{1}})
			aside.push_back(pool.take(bytes));
}

// The counts of the first `count` clients since they connected.
Run counted(std::span<const std::unique_ptr<kv::Client>> clients, std::uint32_t count, kv::Session& session) {
	kv::ClientCounters sum;
	for (const auto& client : clients.first(count)) sum += client->counters();
	return {.messages = sum.records_sent + sum.records_received,
		.eager = sum.eager,
		.reads = sum.reads,
		.writes = sum.writes,
		.leased = sum.leased,
		.copied = sum.copied,
		.one_sided = sum.one_sided,
		.registrations = registrations_of(session)};
}

void subtract(Run& after, const Run& before) {
	for (const auto each : {&Run::messages, &Run::eager, &Run::reads, &Run::writes, &Run::leased, &Run::copied,
			 &Run::one_sided, &Run::registrations})
		after.*each -= before.*each;
}

}  // namespace

Run Worker::run(const Cell& cell) {
	Run result;
	const auto fail = [&](const std::string& why) {
		why.copy(result.failure, sizeof result.failure - 1);
		return result;
	};
	while (clients_.size() < cell.clients) {
		auto client = session_.connect_now({.one_sided = options_.one_sided});
		if (!client) return fail(client.error());
		clients_.push_back(std::move(*client));
	}
	std::vector<std::vector<Key>> keys_of(cell.clients);
	for (std::uint32_t c = 0; c < cell.clients; ++c)
		for (std::uint32_t i = 0; i < keys; ++i)
			keys_of[c].push_back({fmt::format("{:04}:{:03}", options_.first_client + c, i), c * keys + i});
	channel::MemoryPool* const pool = session_.transport() == nullptr ? nullptr : &session_.transport()->memory();
	const Values values(cell.size, cell.clients * keys, ++runs_, pool);

	std::uint64_t wrong = 0;
	std::string failure;
	for (std::uint32_t i = 0; i < cell.clients; ++i) {
		kv::ClientOptions& options = clients_[i]->options();
		options.protocol = cell.proto == Proto::eager ? kv::Protocol::eager
			: cell.proto == Proto::rndv               ? kv::Protocol::rendezvous
													  : kv::Protocol::automatic;
		options.one_sided = false;
		options.form = cell.form == Form::write ? kv::Form::write : kv::Form::read;
		if (cell.op == Op::get) session_.loop().complete(set_all(*clients_[i], keys_of[i], values, failure));
		// The server publishes a key when a client first asks for it.
		options.one_sided = cell.proto == Proto::one_sided;
		if (options.one_sided) session_.loop().complete(check_all(*clients_[i], keys_of[i], values, wrong));
	}
	if (!failure.empty()) return fail(failure);

	if (pool != nullptr && cell.proto != Proto::eager)
		register_memory(*pool, cell, cell.size + keys_of[0][0].name.size() + 1);

	const auto phase = [&](std::uint64_t operations, Nanoseconds deadline) {
		Phase phase{.cell = cell, .values = values, .wanted = operations, .deadline = deadline};
		phase.lanes = std::size_t{cell.window} * cell.clients;
		for (std::uint32_t i = 0; i < cell.window; ++i)
			for (std::uint32_t c = 0; c < cell.clients; ++c)
				session_.loop().spawn(lane(*clients_[c], phase, keys_of[c][i % keys]));
		session_.loop().run_until([&] { return phase.lanes == 0; });
		return phase;
	};
	if (cell.warmup > 0) phase(cell.warmup, never);
	const Run before = counted(clients_, cell.clients, session_);
	for (std::uint32_t i = 0; i < cell.clients; ++i) clients_[i]->reset_depth();
	const Nanoseconds begun = monotonic_now();
	const Phase timed = phase(cell.iters, begun + static_cast<Nanoseconds>(cell.seconds_max * 1e9));
	result = counted(clients_, cell.clients, session_);
	result.elapsed_ns = monotonic_now() - begun;
	subtract(result, before);
	result.operations = timed.done;
	result.latency_sum_ns = timed.latency_sum;
	result.p50_ns = timed.latency.quantile(0.5);
	result.p99_ns = timed.latency.quantile(0.99);
	for (std::uint32_t i = 0; i < cell.clients; ++i)
		result.depth_max = std::max(result.depth_max, clients_[i]->counters().under_way_max);
	if (!timed.failure.empty()) return fail(timed.failure);
	// The store must have the value that was set last for each key.
	if (cell.op == Op::set)
		for (std::uint32_t i = 0; i < cell.clients; ++i)
			session_.loop().complete(check_all(*clients_[i], keys_of[i], values, wrong));
	result.wrong = wrong + timed.wrong;
	return result;
}

std::uint64_t Worker::operations() const {
	std::uint64_t all = 0;
	for (const auto& client : clients_) all += client->counters().operations;
	return all;
}

}  // namespace verbena::kvbench
