// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/cell.h"

#include <memory>
#include <vector>

#include "bench/rpc/functions.h"
#include "bench/rpc/peer.h"
#include "bench/rpc/processes.h"
#include "lib/rpc/client_pool.h"

namespace verbena::rpcbench {
namespace {

using async::Task;

rpc::ibv_config ibv_of(const CellOptions& options) {
	rpc::ibv_config config;
	if (options.per_connection) config.recv_mode = rpc::recv_mode_t::per_connection;
	if (options.send_buffers > 0) config.send_buffer_cnt = options.send_buffers;
	if (options.lacks(Behaviour::inline_data)) config.cap.max_inline_data = 0;
	if (options.lacks(Behaviour::send_queue)) {
		config.send_buffer_cnt = 1;
		config.channel.part_bytes = config.buffer_pool_config.buffer_size;
	}
	if (options.lacks(Behaviour::coalescing)) config.channel.coalesce = false;
	return config;
}

void serve(const CellOptions& options, Board& board) {
	rpc::Server server({.address = "127.0.0.1",
		.port = 0,
		.thread_num = options.server_threads,
		.limits = {.coalesce = !options.lacks(Behaviour::coalescing)},
		.spin = options.spin,
		.log = [](std::string_view) {}});
	server.register_handler<sink, echo>();
	if (options.rdma) server.init_ibv(ibv_of(options));
	const auto started = server.async_start();
	if (started.hasResult()) return board.fail("server: " + server.error_text());
	stand_by(board, server.port(), [&] {
		if (const std::size_t connections = server.connection_count(); connections > 0)
			board.outcome.pinned_kib =
				static_cast<double>(server.rdma().pinned_bytes) / 1024 / static_cast<double>(connections);
	});
	board.outcome.served = server.totals().requests;
	board.outcome.connections = server.totals().connections;
	server.stop();
}

// The client's side of a cell. Belongs to `thread`, on which all callers run.
struct Run {
	const CellOptions& options;
	Outcome& outcome;
	rpc::IoThread& thread;
	std::string address;
	std::vector<std::unique_ptr<rpc::Client>> clients;
	std::shared_ptr<rpc::client_pool<>> pool;  // replaces `clients` in an ablation of it
	std::vector<std::string> memory, answers;  // one entry for each caller
	std::vector<channel::Place> registered;  // replaces `memory` with options.registered
	bool counting = false, stopping = false;
	std::uint32_t active = 0;
	std::uint64_t next_number = 0;
	std::string error;

	std::span<char> payload(std::uint32_t index) {
		if (registered.empty()) return memory[index];
		const auto bytes = registered[index].bytes();
		return {reinterpret_cast<char*>(bytes.data()), bytes.size()};
	}
};

void prepare(rpc::Client& client, const CellOptions& options) {
	client.init_config({.coalesce = !options.lacks(Behaviour::coalescing)});
	if (options.rdma) client.init_ibv(ibv_of(options));
}

// Makes one call. Returns whether the answer was right.
Task<bool> call_by(Run& run, rpc::Client& client, std::uint32_t index) {
	const std::span<char> payload = run.payload(index);
	const std::string_view text(payload.data(), payload.size());
	rpc::request_config_t config;
	config.request_attachment = text;
	channel::Place adopted;
	if (!run.registered.empty()) config.request_place = &run.registered[index];
	if (run.options.lacks(Behaviour::pool)) {
		auto buffer = client.memory()->adopt(std::as_writable_bytes(payload));
		if (!buffer) {
			run.error = buffer.error();
			co_return false;
		}
		adopted = channel::Place(std::move(*buffer));
		config.request_place = &adopted;
	}
	if (run.options.mode == Mode::sink) {
		const auto result = co_await client.call<sink>(config);
		if (!result) run.error = result.error().msg;
		co_return result && *result == reply_of_sink;
	}
	std::string& answer = run.answers[index];
	config.resp_attachment_buf = answer;
	const auto result = co_await client.call<echo>(config);
	if (!result) run.error = result.error().msg;
	co_return result&& answer == text;
}

Task<bool> call_by_new_connection(Run& run, std::uint32_t index) {
	rpc::Client client(run.thread);
	prepare(client, run.options);
	const auto failed = co_await client.connect(run.address);
	if (failed) {
		run.error = client.error_text();
		co_return false;
	}
	const bool good = co_await call_by(run, client, index);
	co_return good;
}

Task<bool> call_by_pool(Run& run, std::uint32_t index) {
	const std::span<char> payload = run.payload(index);
	rpc::request_config_t config;
	config.request_attachment = std::string_view(payload.data(), payload.size());
	const auto operation = [&config](rpc::client_reuse_hint, rpc::Client& client) {
		return client.send_request<sink>(config);
	};
	auto sent = co_await run.pool->send_request(operation);
	if (!sent) {
		run.error = run.pool->error_text();
		co_return false;
	}
	const auto result = co_await std::move(*sent);
	if (!result) run.error = result.error().msg;
	co_return result && result->result() == reply_of_sink;
}

// One of the `concurrency` callers: calls again as soon as it has its answer.
Task<void> caller(Run& run, std::uint32_t index) {
	++run.active;
	while (!run.stopping) {
		stamp(run.payload(index), run.next_number++);
		const bool counting = run.counting;
		const Nanoseconds sent = monotonic_now();
		bool good = false;
		bool broken = false;
		if (run.pool) {
			good = co_await call_by_pool(run, index);
		} else if (run.clients.empty()) {
			good = co_await call_by_new_connection(run, index);
		} else {
			rpc::Client& client = *run.clients[index % run.clients.size()];
			good = co_await call_by(run, client, index);
			broken = client.has_closed();
		}
		const Nanoseconds took = monotonic_now() - sent;
		if (!good) {
			++run.outcome.failed;
			if (broken) break;
		} else if (counting && run.counting) {
			++run.outcome.requests;
			run.outcome.latency_sum_us += static_cast<double>(took) / 1e3;
			run.outcome.latency.record(took);
		}
	}
	--run.active;
}

// Makes the connections, and allocates and fills the memory of the requests.
Task<bool> set_up(Run& run) {
	const CellOptions& options = run.options;
	for (std::uint32_t i = 0; i < (options.ablation == Behaviour::connection_pool ? 0 : options.connections); ++i) {
		rpc::Client& client = *run.clients.emplace_back(std::make_unique<rpc::Client>(run.thread));
		prepare(client, options);
		const auto failed = co_await client.connect(run.address);
		if (failed) {
			run.error = client.error_text();
			co_return false;
		}
	}
	for (std::uint32_t i = 0; i < options.concurrency; ++i) {
		run.answers.emplace_back(options.mode == Mode::echo ? options.size : 0, ' ');
		if (!options.registered) {
			fill(run.memory.emplace_back(options.size, ' '));
			continue;
		}
		channel::MemoryPool* const memory = run.clients[i % run.clients.size()]->memory();
		channel::Buffer buffer = memory == nullptr ? channel::Buffer() : memory->take(options.size);
		if (!buffer) {
			run.error = "no registered memory for the requests";
			co_return false;
		}
		run.registered.emplace_back(std::move(buffer));
		fill(run.payload(i));
	}
	co_return true;
}

// Warms up, measures, and waits for the callers to end.
Task<void> drive(Run& run, Board& board) {
	async::Loop& loop = run.thread.loop();
	const bool ready = co_await set_up(run);
	if (!ready) {
		board.fail("client: " + run.error);
		co_return;
	}
	for (std::uint32_t i = 0; i < run.options.concurrency; ++i) loop.spawn(caller(run, i));
	co_await loop.sleep_for(run.options.warmup);
	board.measuring = true;
	run.counting = true;
	const Nanoseconds began = monotonic_now();
	const double cpu_before = cpu_seconds();
	do {
		co_await loop.sleep_for(run.options.duration);
	} while (run.outcome.requests == 0 && run.active > 0 && monotonic_now() - began < measured_at_most);
	run.counting = false;
	run.outcome.seconds = static_cast<double>(monotonic_now() - began) / 1e9;
	run.outcome.client_cpu_s = cpu_seconds() - cpu_before;
	run.outcome.callers = run.active;
	board.measured = true;
	run.stopping = true;
	while (run.active > 0) co_await loop.sleep_for(1'000'000);
	run.registered.clear();
	for (const auto& client : run.clients) {
		const auto counters = co_await client->counters();
		run.outcome.frames += counters.frames;
		run.outcome.messages += counters.messages;
	}
	run.outcome.rdma = run.thread.rdma();
	if (run.outcome.requests == 0) board.fail(run.error.empty() ? "no request was answered" : run.error);
}

Task<void> on_thread(Run& run, Board& board) {
	co_await run.thread.on();
	co_await drive(run, board);
}

void call(const CellOptions& options, Board& board) {
	const int port = wait_for_port(board);
	if (port == 0) return;
	// The client's thread polls as long as the server's.
	rpc::IoThreads threads(1, {.spin = options.spin});
	Run run{.options = options,
		.outcome = board.outcome,
		.thread = threads.at(0),
		.address = "127.0.0.1:" + std::to_string(port)};
	if (options.ablation == Behaviour::connection_pool && !options.without) {
		rpc::pool_config settings{.threads = &threads};
		if (options.rdma) settings.ibv = ibv_of(options);
		run.pool = rpc::client_pool<>::create(run.address, std::move(settings));
	}
	rpc::syncAwait(on_thread(run, board));
	board.wait_for(board.server_reported);
	run.clients.clear();
	run.pool.reset();
}

}  // namespace

std::expected<Outcome, std::string> run_cell(const CellOptions& options) {
	if (options.system != System::verbena) return run_peer(options);
	return run_processes([&](Board& board) { serve(options, board); }, [&](Board& board) { call(options, board); });
}

}  // namespace verbena::rpcbench
