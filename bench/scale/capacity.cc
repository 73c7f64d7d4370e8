#include "bench/scale/capacity.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/statistics.h"

namespace verbena::scale {
namespace {

constexpr std::uint64_t descriptors_aside = 64;  // of the process itself and its device

// Nothing that a client cannot cost: a slope that noise made negative counts as a byte.
constexpr double kib_min = 1.0 / 1024;

std::uint64_t number_in(const char* file, std::uint64_t otherwise) {
	std::uint64_t number = 0;
	return std::ifstream(file) >> number ? number : otherwise;
}

}  // namespace

Cost cost_of(std::span<const Outcome> few, std::span<const Outcome> many) {
	std::vector<double> slopes;
	for (std::size_t i = 0; i < std::min(few.size(), many.size()); ++i) {
		if (!few[i].server || !many[i].server || many[i].connected <= few[i].connected) continue;
		const auto growth = [](const Outcome& run) {
			return static_cast<double>(run.server->connected.resident_bytes) - static_cast<double>(run.server->before.resident_bytes);
		};
		slopes.push_back((growth(many[i]) - growth(few[i])) / 1024 / static_cast<double>(many[i].connected - few[i].connected));
	}
	if (slopes.empty()) return {};
	const auto interval = median_interval(slopes);
	return {.kib = median(slopes), .low = interval.low, .high = interval.high};
}

Resources resources_here() {
	Resources here;
	here.memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
	here.memory_bytes = std::min(here.memory_bytes, number_in("/sys/fs/cgroup/memory.max", here.memory_bytes));
	here.descriptors = descriptors_max();
	rlimit processes{};
	getrlimit(RLIMIT_NPROC, &processes);
	here.threads = std::min({number_in("/proc/sys/kernel/threads-max", ~0ull), number_in("/proc/sys/kernel/pid_max", ~0ull),
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

Limit limit_of(ClientKind kind, const Cost& cost, const Resources& resources) {
	Limit limit{.kind = kind, .cost = cost, .by = {}};
	const double each = std::max(cost.kib, kib_min) * 1024;
	limit.by.emplace_back("memory", static_cast<std::uint64_t>(static_cast<double>(resources.memory_bytes) / each));
	const bool rdma = kind == ClientKind::rdma || kind == ClientKind::thread;
	if (rdma && resources.queue_pairs > 0) limit.by.emplace_back("queue pairs", resources.queue_pairs);
	if ((kind == ClientKind::tcp_tls || kind == ClientKind::tcp_clear) && resources.descriptors > descriptors_aside)
		limit.by.emplace_back("descriptors", resources.descriptors - descriptors_aside);
	if (kind == ClientKind::thread) {
		limit.by.emplace_back("threads", resources.threads);
		limit.by.emplace_back("the engine's own limit", engine_threads_max);
	}
	if (kind == ClientKind::logical) limit.by.emplace_back("ids of 64 carriers", std::uint64_t{64} * channel::MuxId::slots_max);
	std::ranges::stable_sort(limit.by, {}, &std::pair<std::string, std::uint64_t>::second);
	return limit;
}

std::string describe(const Limit& limit) {
	std::string text = fmt::format("{:.2f} KiB [{:.2f}, {:.2f}] a client", limit.cost.kib, limit.cost.low, limit.cost.high);
	for (const auto& [resource, clients] : limit.by) text += fmt::format("; {}: {}", resource, clients);
	return text + fmt::format("; at most {}, bound by {}", limit.clients(), limit.binds());
}

}  // namespace verbena::scale
