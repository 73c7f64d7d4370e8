// Metrics for others: an HTTP endpoint for Prometheus (text format 0.0.4, at /metrics), and the same as JSON.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lib/metrics/families.h"

namespace verbena::metrics {

// Called at each scrape, on a thread of the endpoint.
using Collect = std::function<Families()>;

class Endpoint {
public:
	// "9400" is 127.0.0.1:9400; "0.0.0.0:9400" says that others may ask; port 0 is any free one. One sentence on
	// failure.
	static std::expected<std::unique_ptr<Endpoint>, std::string> open(const std::string& where, Collect collect);
	virtual ~Endpoint() = default;
	virtual std::uint16_t port() const = 0;
};

// {"name": {"help": ..., "type": ..., "samples": [{"labels": {...}, "value": ...}, {"labels": {...}, "buckets":
// [[bound, cumulative count], ...], "count": ..., "sum": ...}]}}
std::string to_json(const Families& families);
// Each second, and once more when it goes.
class JsonWriter {
public:
	JsonWriter(std::string file, Collect collect);

private:
	std::jthread thread_;
};

// Written whole or not at all: to a file beside it, which then takes its name.
std::expected<void, std::string> write_json(const std::string& file, const Families& families);

}  // namespace verbena::metrics
