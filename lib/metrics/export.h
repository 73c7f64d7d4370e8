// SPDX-License-Identifier: Apache-2.0
// Exports metrics: an HTTP endpoint for Prometheus (text format 0.0.4, at /metrics), and the same
// as JSON. The endpoint can also answer whether the program works (/health).
//
// Threads: threads of an Endpoint call Collect and Health, one at a time, and a thread of a
//   JsonWriter calls Collect; their methods belong to their owner's thread.
// Lifetime: what Collect and Health use outlives the Endpoint or JsonWriter. Their destructors wait
//   for a call that is running.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lib/metrics/families.h"

namespace verbena::metrics {

// Returns the current metrics. Called at each scrape, on a thread of the endpoint.
using Collect = std::function<Families()>;

// Whether the program works, and a sentence about it for people.
struct Condition {
	bool good = true;
	std::string text;
};
using Health = std::function<Condition()>;

// The mistake in an address [HOST:]PORT, as "'abc' is not a port, 0 to 65535"; empty if there is
// none. An address without a mistake may still be none of this host.
std::string mistake_in_address(const std::string& where);

class Endpoint {
public:
	// Serves at `where`: "9400" is 127.0.0.1:9400; "0.0.0.0:9400" lets other hosts ask; port 0
	// takes any free one. With `health`, GET /health has the status 200 or 503. The error is one
	// sentence.
	static std::expected<std::unique_ptr<Endpoint>, std::string> open(
		const std::string& where, Collect collect, Health health = {});
	virtual ~Endpoint() = default;
	virtual std::uint16_t port() const = 0;
};

// The metrics as JSON:
//     {"name": {"help": ..., "type": ..., "samples": [{"labels": {...}, "value": ...}]}}
// A sample of a histogram has {"labels": {...}, "buckets": [[bound, cumulative count], ...],
// "count": ..., "sum": ...}.
std::string to_json(const Families& families);
// Writes the metrics to a file each second, and once more when it is destroyed.
class JsonWriter {
public:
	JsonWriter(std::string file, Collect collect);

private:
	std::jthread thread_;
};

// Writes a file beside `file` and renames it, so that a reader sees all of it or the old one.
std::expected<void, std::string> write_json(const std::string& file, const Families& families);

}  // namespace verbena::metrics
