// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "bench/kv/one_copy.h"

namespace verbena::kvbench {
namespace {

using async::Task;

// The store is the benchmark's own, so its size is an option of the benchmark.
std::string failure_of(kv::Error error) {
	if (error == kv::Error::full) return "the store is full: give `verbena bench kv` more --memory";
	return std::string(kv::sentence_of(error));
}

// The keys of each client.
std::vector<std::vector<Key>> keys_of(std::uint32_t clients, std::uint32_t first_client) {
	std::vector<std::vector<Key>> all(clients);
	for (std::uint32_t c = 0; c < clients; ++c)
		for (std::uint32_t i = 0; i < keys_of_client; ++i)
			all[c].push_back({fmt::format("{:04}:{:03}", first_client + c, i), c * keys_of_client + i});
	return all;
}

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
Task<void> lane(kv::Router& client, Phase& phase, Key& key) {
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
			phase.failure = failure_of(*error);
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
Task<void> set_all(kv::Router& client, std::vector<Key>& all, const Values& values, std::string& failure) {
	for (Key& key : all) {
		const kv::Bytes value = values.of(key.number);
		const auto set = co_await client.set(key.name, value);
		if (!set) failure = failure_of(set.error());
		key.set = true;
	}
}

// Adds to `wrong` the number of keys that were set and now have another value.
Task<void> check_all(kv::Router& client, const std::vector<Key>& all, const Values& values, std::uint64_t& wrong) {
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

// The counts of clients since they connected.
Repetition counted(std::span<const std::unique_ptr<kv::Router>> clients, kv::Session& session) {
	kv::ClientCounters sum;
	for (const auto& client : clients) sum += client->counters();
	return {.messages = sum.records_sent + sum.records_received,
		.eager = sum.eager,
		.reads = sum.reads,
		.writes = sum.writes,
		.leased = sum.leased,
		.copied = sum.copied,
		.one_sided = sum.one_sided,
		.registrations = registrations_of(session)};
}

void subtract(Repetition& after, const Repetition& before) {
	for (const auto each : {&Repetition::messages, &Repetition::eager, &Repetition::reads, &Repetition::writes,
			 &Repetition::leased, &Repetition::copied, &Repetition::one_sided, &Repetition::registrations})
		after.*each -= before.*each;
}

std::vector<std::uint64_t> operations_of(std::span<const std::unique_ptr<kv::Router>> clients) {
	std::vector<std::uint64_t> operations;
	for (const auto& client : clients) operations.push_back(client->counters().operations);
	return operations;
}

Repetition failed_run(const std::string& why) {
	Repetition run;
	fail(run, why);
	return run;
}

}  // namespace

void fail(Repetition& run, const std::string& why) { why.copy(run.failure, sizeof run.failure - 1); }

std::string Worker::connect(std::uint32_t count) {
	while (clients_.size() < count) {
		auto client = kv::Router::open_now(session_, {.one_sided = options_.one_sided});
		if (!client) return client.error();
		clients_.push_back(std::move(*client));
	}
	return "";
}

std::uint64_t Worker::check_values(const Cell& cell, const Load& load) {
	std::uint64_t wrong = 0;
	for (std::uint32_t i = 0; i < cell.clients; ++i)
		session_.loop().complete(check_all(*clients_[i], load.keys[i], load.values, wrong));
	return wrong;
}

std::string Worker::prepare(const Cell& cell, Load& load) {
	std::string failure;
	for (std::uint32_t i = 0; i < cell.clients; ++i) {
		const auto set_options = [&](bool one_sided) {
			clients_[i]->adjust([&](kv::ClientOptions& options) {
				options.protocol = cell.proto == Proto::eager ? kv::Protocol::eager
					: cell.proto == Proto::rndv               ? kv::Protocol::rendezvous
															  : kv::Protocol::automatic;
				options.one_sided = one_sided;
				options.form = cell.form == Form::write ? kv::Form::write : kv::Form::read;
			});
		};
		set_options(false);
		if (cell.op == Op::get) session_.loop().complete(set_all(*clients_[i], load.keys[i], load.values, failure));
		// The server publishes a key when a client first asks for it.
		set_options(cell.proto == Proto::one_sided);
	}
	return failure;
}

Repetition Worker::run(const Cell& cell) {
	if (const std::string failure = connect(cell.clients); !failure.empty()) return failed_run(failure);
	channel::MemoryPool* const pool = session_.transport() == nullptr ? nullptr : &session_.transport()->memory();
	Load load{.keys = keys_of(cell.clients, options_.first_client),
		.values = Values(cell.size, cell.clients * keys_of_client, ++runs_, pool)};
	if (const std::string failure = prepare(cell, load); !failure.empty()) return failed_run(failure);
	const std::uint64_t wrong_before = cell.proto == Proto::one_sided ? check_values(cell, load) : 0;
	if (pool != nullptr && cell.proto != Proto::eager)
		register_memory(*pool, cell, cell.size + load.keys[0][0].name.size() + 1);

	const auto phase = [&](std::uint64_t operations, Nanoseconds deadline) {
		Phase phase{.cell = cell, .values = load.values, .wanted = operations, .deadline = deadline};
		phase.lanes = std::size_t{cell.window} * cell.clients;
		for (std::uint32_t i = 0; i < cell.window; ++i)
			for (std::uint32_t c = 0; c < cell.clients; ++c)
				session_.loop().spawn(lane(*clients_[c], phase, load.keys[c][i % keys_of_client]));
		session_.loop().run_until([&] { return phase.lanes == 0; });
		return phase;
	};
	const double copied = bytes_copied_per_second(cell);
	std::uint64_t warmed = 0;
	if (cell.warmup > 0) {
		const Phase warming = phase(cell.warmup, never);
		if (!warming.failure.empty()) return failed_run(warming.failure);
		warmed = warming.done;
	}
	const std::span measured(clients_.data(), cell.clients);
	const Repetition before = counted(measured, session_);
	const std::vector<std::uint64_t> operations_before = operations_of(measured);
	for (const auto& client : measured) client->reset_depth();
	const Nanoseconds begun = monotonic_now();
	const Phase timed = phase(cell.iters, begun + static_cast<Nanoseconds>(cell.seconds_max * 1e9));
	Repetition result = counted(measured, session_);
	result.elapsed_ns = monotonic_now() - begun;
	subtract(result, before);
	result.bytes_copied_per_second = copied;
	result.warmup = warmed;
	result.operations = timed.done;
	result.latency_sum_ns = timed.latency_sum;
	result.latency_ns = timed.latency;
	const std::vector<std::uint64_t> operations_after = operations_of(measured);
	for (std::uint32_t i = 0; i < cell.clients; ++i) {
		result.depth_max = std::max(result.depth_max, measured[i]->counters().under_way_max);
		if (operations_after[i] > operations_before[i]) ++result.clients;
	}
	if (!timed.failure.empty()) {
		fail(result, timed.failure);
		return result;
	}
	// The store must have the value that was set last for each key.
	result.wrong = wrong_before + timed.wrong + (cell.op == Op::set ? check_values(cell, load) : 0);
	return result;
}

std::uint64_t Worker::operations() const {
	std::uint64_t all = 0;
	for (const auto& client : clients_) all += client->counters().operations;
	return all;
}

}  // namespace verbena::kvbench
