#include "bench/scale/capacity.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/statistics.h"

namespace verbena::scale {
namespace {

constexpr std::uint64_t descriptors_aside = 64;  // for the process itself and its device

constexpr double ends = 2;  // each connection has both of its ends on this host

// A client costs at least one byte: noise can make a measured slope zero or negative.
constexpr double kib_min = 1.0 / 1024;

std::uint64_t number_in(const char* file, std::uint64_t otherwise) {
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

Growth growth_of(ClientKind kind, std::span<const Outcome> few, std::span<const Outcome> many) {
	Growth growth{.kind = kind, .server = {}, .kernel = {}};
	for (std::size_t i = 0; i < std::min(few.size(), many.size()); ++i) {
		if (!few[i].server || !many[i].server || many[i].connected <= few[i].connected) continue;
		const ServerAccount &less = *few[i].server, &more = *many[i].server;
		const auto since = [](std::uint64_t before, std::uint64_t after) {
			return static_cast<double>(after) - static_cast<double>(before);
		};
		const double kib = 1024 * static_cast<double>(many[i].connected - few[i].connected);
		growth.server.push_back((since(more.before.resident_bytes, more.connected.resident_bytes) -
									since(less.before.resident_bytes, less.connected.resident_bytes)) /
			kib);
		growth.kernel.push_back(
			(since(more.kernel_before, more.kernel_connected) - since(less.kernel_before, less.kernel_connected)) /
			(ends * kib));
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
	here.memory_bytes = std::min(here.memory_bytes, number_in("/sys/fs/cgroup/memory.max", here.memory_bytes));
	here.descriptors = descriptors_max();
	rlimit processes{};
	getrlimit(RLIMIT_NPROC, &processes);
	here.threads =
		std::min({number_in("/proc/sys/kernel/threads-max", ~0ull), number_in("/proc/sys/kernel/pid_max", ~0ull),
			number_in("/sys/fs/cgroup/pids.max", ~0ull), static_cast<std::uint64_t>(processes.rlim_cur)});
	return here;
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

}  // namespace verbena::scale
