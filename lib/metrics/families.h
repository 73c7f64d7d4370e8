// Metrics as values: what a program counts, at one instant. Names and units are those of docs/metrics.md; rendering is
// export.h's.
//
// A Buckets is recorded into by any thread, and read by any.
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

namespace verbena::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Distribution {
	std::vector<double> bounds;         // upper, ascending; one more bucket is without end
	std::vector<std::uint64_t> counts;  // of each bucket, not cumulative; one more than bounds
	double sum = 0;
};

struct Sample {
	Labels labels;
	double value = 0;
	Distribution distribution;  // of a histogram
};

enum class Kind : std::uint8_t { counter, gauge, histogram };

struct Family {
	std::string name, help;
	Kind kind = Kind::gauge;
	std::vector<Sample> samples;
};
using Families = std::vector<Family>;

// One family of one sample.
Family counter(std::string name, std::string help, double value, Labels labels = {});
Family gauge(std::string name, std::string help, double value, Labels labels = {});

// Durations in seconds: from 1 us to 67 s, each bucket twice the one before.
class Buckets {
public:
	static constexpr std::size_t bounds = 27;

	void record(std::uint64_t nanoseconds);
	Family family(std::string name, std::string help, Labels labels = {}) const;

private:
	std::array<std::atomic<std::uint64_t>, bounds + 1> counts_{};
	std::atomic<std::uint64_t> sum_ns_{0};
};

// How often each of a few words was said, as errors by their status. Beyond `words_max` different ones they count as
// "other".
class Tally {
public:
	static constexpr std::size_t words_max = 32;

	void count(std::string_view word);
	Family family(std::string name, std::string help, const std::string& label) const;

private:
	mutable std::mutex lock_;
	std::vector<std::pair<std::string, std::uint64_t>> counts_;
};

// This process: memory, CPU, threads and descriptors, under the names that Prometheus clients give them.
Families process_families();

// What the device counts for a port (lib/verbs/port_counters.h): `counters` and `hw_counters` by their names, and
// retries by one name for all drivers. What it does not count is absent, and not zero. `folder`:
// ibv_device::ibdev_path.
Families port_families(const std::string& folder, const std::string& device, std::uint8_t port);

}  // namespace verbena::metrics
