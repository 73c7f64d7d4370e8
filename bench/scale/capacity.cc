// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/capacity.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/statistics.h"
#include "bench/judge/repetitions.h"
#include "bench/scale/process_plan.h"
#include "bench/scale/repetition.h"

namespace verbena::scale {
namespace {

constexpr double ends = 2;  // each connection has both of its ends on this host

// A client costs at least one byte: noise can make a measured slope zero or negative.
constexpr double kib_min = 1.0 / 1024;

std::uint64_t number_in_file(const char* file, std::uint64_t otherwise) {
	std::uint64_t number = 0;
	return std::ifstream(file) >> number ? number : otherwise;
}

}  // namespace

Cost cost_of(std::span<const double> each) {
	if (each.empty()) return {};
	const std::vector<double> values(each.begin(), each.end());
	const auto interval = median_interval(values);
	return {.kib = median(values), .low = interval.low, .high = interval.high};
}

std::string describe(const Cost& cost) {
	return fmt::format("{:.2f} KiB [{:.2f}, {:.2f}]", cost.kib, cost.low, cost.high);
}

std::optional<ClientKind> kind_of(const bench::Json& row) {
	const auto is = [&](const char* column, std::string_view word) { return bench::word_of(row, column) == word; };
	const auto some = [&](const char* column) {
		const auto number = bench::number_of(row, column);
		return number && number->value > 0;
	};
	if (!is("system", "verbena") || !is("without", "") || some("rate") || some("stalled") ||
		bench::word_of(row, "connect").starts_with(name_of(ConnectBy::rdmacm)))
		return {};
	const bool threads = is("engine", name_of(Engine::threads)), clear = is("connect", "clear");
	if (is("transport", name_of(Transport::tcp))) {
		if (threads || some("shared_qps")) return {};
		return clear ? ClientKind::tcp_clear : ClientKind::tcp_tls;
	}
	if (some("shared_qps")) return ClientKind::logical;
	return threads ? ClientKind::thread : ClientKind::rdma;
}

Growth growth_of(ClientKind kind, const bench::Json& few, const bench::Json& many) {
	Growth growth{.kind = kind, .server = {}, .kernel = {}};
	for (std::size_t i = 0; i < std::min(few.size(), many.size()); ++i) {
		if (has_failed(few[i]) || has_failed(many[i])) continue;
		const auto count = [](const bench::Json& one, const char* name) {
			return static_cast<double>(bench::count_in(one, name));
		};
		const double clients = count(many[i], "connected") - count(few[i], "connected");
		if (clients <= 0) continue;
		const auto grown = [&](const char* before, const char* after) {
			return (count(many[i], after) - count(many[i], before) - count(few[i], after) + count(few[i], before)) /
				(1024 * clients);
		};
		growth.server.push_back(grown("resident_before", "resident_connected"));
		growth.kernel.push_back(grown("kernel_before", "kernel_connected") / ends);
	}
	return growth;
}

std::string describe_parts(std::span<const Growth> kinds) {
	const auto of = [&](ClientKind kind) {
		const auto found = std::ranges::find(kinds, kind, &Growth::kind);
		return found == kinds.end() ? Growth{} : *found;
	};
	const Growth rdma = of(ClientKind::rdma), tls = of(ClientKind::tcp_tls), clear = of(ClientKind::tcp_clear);
	if (rdma.server.empty() || tls.server.empty() || clear.server.empty()) return {};
	std::vector<double> session;
	for (std::size_t i = 0; i < std::min(tls.server.size(), clear.server.size()); ++i)
		session.push_back(tls.server[i] - clear.server[i]);
	return fmt::format(
		"a queue pair and its channel {}; a TLS session {}; a descriptor and its channel {}, and {} in the kernel",
		describe(cost_of(rdma.server)), describe(cost_of(session)), describe(cost_of(clear.server)),
		describe(cost_of(clear.kernel)));
}

Resources resources_here() {
	Resources here;
	here.memory_bytes =
		static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
	here.memory_bytes = std::min(here.memory_bytes, number_in_file("/sys/fs/cgroup/memory.max", here.memory_bytes));
	here.descriptors = descriptors_max();
	rlimit processes{};
	getrlimit(RLIMIT_NPROC, &processes);
	here.threads = std::min(
		{number_in_file("/proc/sys/kernel/threads-max", ~0ull), number_in_file("/proc/sys/kernel/pid_max", ~0ull),
			number_in_file("/sys/fs/cgroup/pids.max", ~0ull), static_cast<std::uint64_t>(processes.rlim_cur)});
	return here;
}

std::string describe(const Resources& resources) {
	return fmt::format("memory_bytes {}, descriptors {}, threads {}", resources.memory_bytes, resources.descriptors,
		resources.threads);
}

Resources resources_of(const bench::Environment& environment) {
	const std::string_view text = bench::value_of(environment, capacity_resources);
	const auto after = [&](std::string_view name) {
		std::uint64_t number = 0;
		const auto at = text.find(name);
		if (at != text.npos) std::from_chars(text.data() + at + name.size(), text.data() + text.size(), number);
		return number;
	};
	return {.memory_bytes = after("memory_bytes "),
		.descriptors = after("descriptors "),
		.queue_pairs = 0,
		.threads = after("threads ")};
}

std::string_view name_of(ClientKind kind) {
	switch (kind) {
		case ClientKind::rdma: return "rdma";
		case ClientKind::tcp_tls: return "tcp with TLS";
		case ClientKind::tcp_clear: return "tcp in clear";
		case ClientKind::logical: return "logical, on shared queue pairs";
		case ClientKind::thread: return "rdma, a thread for each";
	}
	return "";
}

Limit limit_of(const Growth& growth, const Resources& resources) {
	const ClientKind kind = growth.kind;
	const bool tcp = kind == ClientKind::tcp_tls || kind == ClientKind::tcp_clear;
	Limit limit{.kind = kind, .cost = cost_of(growth.server), .kernel = {}, .by = {}};
	// Only clients over TCP keep a descriptor. For other kinds, a change of the kernel's memory
	// between the runs has other causes.
	if (tcp) limit.kernel = cost_of(growth.kernel);
	const double each = std::max(limit.cost.kib + limit.kernel.kib, kib_min) * 1024;
	limit.by.emplace_back("memory", static_cast<std::uint64_t>(static_cast<double>(resources.memory_bytes) / each));
	const bool rdma = kind == ClientKind::rdma || kind == ClientKind::thread;
	if (rdma && resources.queue_pairs > 0) limit.by.emplace_back("queue pairs", resources.queue_pairs);
	if (tcp && resources.descriptors > descriptors_aside)
		limit.by.emplace_back("descriptors", resources.descriptors - descriptors_aside);
	if (kind == ClientKind::thread) {
		limit.by.emplace_back("threads", resources.threads);
		limit.by.emplace_back("the engine's own limit", engine_threads_max);
	}
	if (kind == ClientKind::logical)
		limit.by.emplace_back("ids of 64 carriers", std::uint64_t{64} * channel::MuxId::slots_max);
	std::ranges::stable_sort(limit.by, {}, &std::pair<std::string, std::uint64_t>::second);
	return limit;
}

std::string describe(const Limit& limit) {
	std::string text = describe(limit.cost) + " a client";
	if (limit.kernel.kib > 0) text += fmt::format(", and {} in the kernel", describe(limit.kernel));
	for (const auto& [resource, clients] : limit.by) text += fmt::format("; {}: {}", resource, clients);
	return text + fmt::format("; at most {}, bound by {}", limit.clients(), limit.binds());
}

bench::Environment capacity_of(std::span<const bench::Json> rows, Resources resources) {
	bench::Environment lines;
	std::vector<Growth> kinds;
	for (const ClientKind kind :
		{ClientKind::rdma, ClientKind::tcp_tls, ClientKind::tcp_clear, ClientKind::logical, ClientKind::thread}) {
		std::vector<const bench::Json*> same;
		for (const bench::Json& row : rows)
			if (kind_of(row) == kind && bench::number_of(row, "clients") && row.contains("repetitions") &&
				bench::has_value(row, "messages_per_second"))
				same.push_back(&row);
		const auto clients = [](const bench::Json* row) { return bench::number_of(*row, "clients")->value; };
		if (same.size() < 2) continue;
		const auto [few, many] = std::ranges::minmax(same, {}, clients);
		const Growth growth = growth_of(kind, few->at("repetitions"), many->at("repetitions"));
		if (growth.server.empty()) continue;
		resources.queue_pairs = 0;
		for (const bench::Json& each : few->at("repetitions"))
			if (!has_failed(each)) resources.queue_pairs = bench::count_in(each, "queue_pairs_max");
		lines.emplace_back(fmt::format("{}{}", capacity_prefix, name_of(kind)), describe(limit_of(growth, resources)));
		kinds.push_back(growth);
	}
	if (const std::string parts = describe_parts(kinds); !parts.empty()) lines.emplace_back(capacity_parts, parts);
	return lines;
}

}  // namespace verbena::scale
