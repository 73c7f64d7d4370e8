// SPDX-License-Identifier: Apache-2.0
// Metrics as values: the counters of a program at one instant. docs/metrics.md has their names and
// units; export.h renders them.
//
// Threads: Buckets and WordCounter are thread-safe; the rest are values and functions without
//   shared state.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration_buckets.h"

namespace verbena::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Distribution {
	std::vector<double> bounds;         // upper bounds, ascending; a last bucket has no bound
	std::vector<std::uint64_t> counts;  // for each bucket, not cumulative; one more than bounds
	double sum = 0;
};

struct Sample {
	Labels labels;
	double value = 0;
	Distribution distribution;  // only for a histogram
};

enum class Kind : std::uint8_t { counter, gauge, histogram };

struct Family {
	std::string name, help;
	Kind kind = Kind::gauge;
	std::vector<Sample> samples;
};
using Families = std::vector<Family>;

// Adds the samples of `from`, which has no histograms. Those with one name and equal labels are
// summed.
void add(Families& to, const Families& from);

// A family with one sample.
Family counter(std::string name, std::string help, double value, Labels labels = {});
Family gauge(std::string name, std::string help, double value, Labels labels = {});

// The samples of these durations, in seconds.
Distribution distribution_of(const DurationBuckets& durations);
// A histogram with one sample.
Family histogram(std::string name, std::string help, const DurationBuckets& durations, Labels labels = {});

// DurationBuckets of several threads.
class Buckets {
public:
	// Lock-free.
	void record(Nanoseconds duration);
	Family family(std::string name, std::string help, Labels labels = {}) const;

private:
	std::array<std::atomic<std::uint64_t>, duration_buckets> counts_{};
	std::atomic<std::uint64_t> sum_{0};
};

// Counts occurrences of a few words, such as errors by their status. At most `words_max` are kept;
// one of them is "other", which counts the words beyond that.
class WordCounter {
public:
	static constexpr std::size_t words_max = 32;

	void count(std::string_view word);
	Family family(std::string name, std::string help, const std::string& label) const;

private:
	mutable std::mutex lock_;
	std::vector<std::pair<std::string, std::uint64_t>> counts_;
};

// Memory, CPU time, threads and descriptors of this process, under the names that Prometheus client
// libraries use.
Families process_families();

// A file below ports/1/counters of the kernel's sysfs, and the name that node_exporter's infiniband
// collector gives it, without its prefix. The kernel counts data in words of 4 bytes, so such a
// value is to be multiplied by `unit`.
struct PortCounter {
	const char *file, *name, *help;
	std::uint64_t unit = 1;
};
// Those that every device keeps.
std::span<const PortCounter> port_counters();

// The counters that the device keeps for a port (lib/verbs/port_counters.h): `counters` and
// `hw_counters` by their own names, and retries by one name for all drivers. A counter that the
// device does not keep is absent, not zero. `folder` is ibv_device::ibdev_path.
Families port_families(const std::string& folder, const std::string& device, std::uint8_t port);

}  // namespace verbena::metrics
