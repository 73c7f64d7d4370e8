// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/rival.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/time.h"
#include "bench/kv/values.h"
#include "bench/kv/worker.h"

namespace verbena::kvbench {
namespace {

// The requests and the right answers of one kind, one for each key. All requests are equally long,
// and so are all answers. Operation i of a window uses key i modulo the number of keys.
struct Exchange {
	std::vector<std::string> requests, answers;
};

std::string key_of(std::uint32_t number) { return fmt::format("0000:{:03}", number); }

Exchange exchange_of(System system, Op op, const Values& values, std::uint32_t keys) {
	Exchange exchange;
	for (std::uint32_t i = 0; i < keys; ++i) {
		const std::string key = key_of(i);
		const std::string_view value = kv::text_of(values.of(i));
		const bool redis = system == System::redis;
		const std::string bulk = fmt::format("${}\r\n{}\r\n", value.size(), value);
		if (op == Op::set) {
			exchange.requests.push_back(redis ? fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n{}", key.size(), key, bulk)
											  : fmt::format("set {} 0 0 {}\r\n{}\r\n", key, value.size(), value));
			exchange.answers.emplace_back(redis ? "+OK\r\n" : "STORED\r\n");
		} else {
			exchange.requests.push_back(redis ? fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n{}\r\n", key.size(), key)
											  : fmt::format("get {}\r\n", key));
			exchange.answers.push_back(
				redis ? bulk : fmt::format("VALUE {} 0 {}\r\n{}\r\nEND\r\n", key, value.size(), value));
		}
	}
	return exchange;
}

class Connection {
public:
	explicit Connection(int fd) : fd_(fd) {}
	~Connection() {
		if (fd_ >= 0) close(fd_);
	}
	Connection(const Connection&) = delete;
	Connection& operator=(const Connection&) = delete;
	bool open() const { return fd_ >= 0; }

	bool send_all(std::string_view bytes) const {
		while (!bytes.empty()) {
			const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
			if (sent < 0 && errno == EINTR) continue;
			if (sent <= 0) return false;
			bytes.remove_prefix(static_cast<std::size_t>(sent));
		}
		return true;
	}

	// Receives the first `count` answers of the keys, and calls arrived(n) whenever n of them are
	// complete. Returns false if anything else arrives.
	template <class Arrived>
	bool expect(const std::vector<std::string>& answers, std::uint64_t count, Arrived arrived) {
		const std::size_t length = answers.front().size();
		std::uint64_t done = 0;
		for (std::size_t at = 0; done < count;) {
			const std::uint64_t left = (count - done) * length - at;
			const ssize_t got = recv(fd_, buffer_.data(), std::min<std::uint64_t>(buffer_.size(), left), 0);
			if (got < 0 && errno == EINTR) continue;
			if (got <= 0) return false;
			const std::uint64_t before = done;
			for (std::string_view part(buffer_.data(), static_cast<std::size_t>(got)); !part.empty();) {
				const std::size_t more = std::min(part.size(), length - at);
				if (part.substr(0, more) != std::string_view(answers[done % answers.size()]).substr(at, more))
					return false;
				part.remove_prefix(more);
				at += more;
				if (at < length) continue;
				at = 0;
				++done;
			}
			if (done > before) arrived(done - before);
		}
		return true;
	}

private:
	int fd_;
	std::vector<char> buffer_ = std::vector<char>(256 << 10);
};

// A window of requests, one after the other.
class Batches {
public:
	Batches(Connection& connection, const Exchange& exchange, std::uint32_t window)
		: connection_(connection), exchange_(exchange), window_(window) {
		for (std::uint32_t i = 0; i < window; ++i) together_ += exchange.requests[i % exchange.requests.size()];
	}

	// Does `wanted` operations, or fewer if the deadline passes. Returns false after a wrong
	// answer.
	bool run(std::uint64_t wanted, Nanoseconds deadline, Repetition& run) {
		const std::size_t length = exchange_.requests.front().size();
		while (run.operations < wanted) {
			const Nanoseconds begun = monotonic_now();
			if (begun > deadline) break;
			const std::uint64_t count = std::min<std::uint64_t>(window_, wanted - run.operations);
			const auto arrived = [&](std::uint64_t answers) {
				const Nanoseconds took = monotonic_now() - begun;
				run.latency_ns.record(took, answers);
				run.latency_sum_ns += took * answers;
				run.operations += answers;
			};
			if (!connection_.send_all(std::string_view(together_).substr(0, count * length)) ||
				!connection_.expect(exchange_.answers, count, arrived))
				return false;
		}
		return true;
	}

private:
	Connection& connection_;
	const Exchange& exchange_;
	std::uint32_t window_;
	std::string together_;
};

// Does the operation once for each of the first `count` keys.
bool once_each(Connection& connection, const Exchange& exchange, std::uint32_t count) {
	Repetition ignored;
	return Batches(connection, exchange, count).run(count, never, ignored);
}

}  // namespace

Repetition run_rival(const bench::RivalServer& server, const Cell& cell, std::uint64_t number) {
	Repetition run;
	const auto failed = [&](const std::string& why) {
		fail(run, why);
		return run;
	};
	Connection connection(server.connect(at_of(cell.transport)));
	if (!connection.open()) return failed(server.name() + " does not answer");
	const std::string wrong =
		fmt::format("{} did not answer a {} of {} B as it should", server.name(), name_of(cell.op), cell.size);
	const std::uint32_t keys = std::min(cell.window, keys_of_client);
	const Values values(cell.size, keys, number, nullptr);
	const Exchange sets = exchange_of(cell.system, Op::set, values, keys),
				   gets = exchange_of(cell.system, Op::get, values, keys);
	if (cell.op == Op::get && !once_each(connection, sets, keys)) return failed(wrong);
	Batches batches(connection, cell.op == Op::set ? sets : gets, cell.window);
	Repetition warmed;
	if (!batches.run(cell.warmup, never, warmed)) return failed(wrong);
	run.warmup = warmed.operations;
	const Nanoseconds begun = monotonic_now();
	const bool right = batches.run(cell.iters, begun + static_cast<Nanoseconds>(cell.seconds_max * 1e9), run);
	run.elapsed_ns = monotonic_now() - begun;
	run.clients = run.operations > 0 ? 1 : 0;
	run.depth_max = static_cast<std::uint32_t>(std::min<std::uint64_t>(cell.window, run.operations));
	if (!right) return failed(wrong);
	// The store must have the value that was set last for each key.
	const auto set = static_cast<std::uint32_t>(std::min<std::uint64_t>(keys, run.operations + run.warmup));
	if (cell.op == Op::set && !once_each(connection, gets, set)) return failed(wrong);
	return run;
}

}  // namespace verbena::kvbench
