// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/export.h"

#include <civetweb.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

namespace verbena::metrics {
namespace {

// A connection holds a thread until its request has arrived and its answer is read, or until this
// time is over.
constexpr char endpoint_threads[] = "16", request_timeout_ms[] = "1000";

prometheus::ClientMetric metric_of(const Sample& sample, Kind kind) {
	prometheus::ClientMetric metric;
	for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
	if (kind == Kind::counter) metric.counter.value = sample.value;
	if (kind == Kind::gauge) metric.gauge.value = sample.value;
	if (kind != Kind::histogram) return metric;
	const Distribution& of = sample.distribution;
	for (std::size_t i = 0; i < of.counts.size(); ++i) {
		metric.histogram.sample_count += of.counts[i];
		const double bound = i < of.bounds.size() ? of.bounds[i] : std::numeric_limits<double>::infinity();
		metric.histogram.bucket.push_back({metric.histogram.sample_count, bound});
	}
	metric.histogram.sample_sum = of.sum;
	return metric;
}

std::vector<prometheus::MetricFamily> collected(const Families& of) {
	std::vector<prometheus::MetricFamily> families;
	for (const Family& each : of) {
		prometheus::MetricFamily& family = families.emplace_back();
		family.name = each.name;
		family.help = each.help;
		family.type = each.kind == Kind::counter ? prometheus::MetricType::Counter
			: each.kind == Kind::gauge           ? prometheus::MetricType::Gauge
												 : prometheus::MetricType::Histogram;
		for (const Sample& sample : each.samples) family.metric.push_back(metric_of(sample, each.kind));
	}
	return families;
}

struct Answer {
	int status;
	const char* type;
	std::string text;
};

std::string_view method_of(const mg_connection* connection) { return mg_get_request_info(connection)->request_method; }

const char* name_of(int status) {
	return status == 200 ? "OK" : status == 405 ? "Method Not Allowed" : "Service Unavailable";
}

// Sends the whole answer to a request, and returns its status. HEAD gets no text, and a request
// that is neither GET nor HEAD is refused.
int send(mg_connection* connection, Answer answer) {
	const std::string_view method = method_of(connection);
	if (method != "GET" && method != "HEAD") answer = {405, "text/plain; charset=utf-8", "GET or HEAD\n"};
	mg_printf(connection, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
		answer.status, name_of(answer.status), answer.type, answer.text.size(),
		answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
	if (method != "HEAD") mg_write(connection, answer.text.data(), answer.text.size());
	return answer.status;
}

// The web server is civetweb, which is also the one of prometheus-cpp.
class HttpEndpoint final : public Endpoint {
public:
	HttpEndpoint(const std::string& where, Collect collect, Health health)
		: collect_(std::move(collect)), health_(std::move(health)) {
		const char* options[] = {"listening_ports", where.c_str(), "num_threads", endpoint_threads,
			"request_timeout_ms", request_timeout_ms, nullptr};
		context_ = mg_start(nullptr, nullptr, options);
		if (context_ == nullptr) return;
		mg_set_request_handler(
			context_, "/metrics$",
			[](mg_connection* connection, void* self) {
				return send(connection,
					{200, "text/plain; version=0.0.4; charset=utf-8",
						prometheus::TextSerializer().Serialize(
							collected(static_cast<HttpEndpoint*>(self)->collect()))});
			},
			this);
		if (!health_) return;
		mg_set_request_handler(
			context_, "/health$",
			[](mg_connection* connection, void* self) {
				const Condition now = static_cast<HttpEndpoint*>(self)->health();
				return send(connection, {now.good ? 200 : 503, "text/plain; charset=utf-8", now.text + "\n"});
			},
			this);
	}
	~HttpEndpoint() override {
		if (context_ != nullptr) mg_stop(context_);
	}
	HttpEndpoint(const HttpEndpoint&) = delete;
	HttpEndpoint& operator=(const HttpEndpoint&) = delete;

	bool listens() const { return context_ != nullptr; }
	std::uint16_t port() const override {
		mg_server_port ports[1]{};
		return mg_get_server_ports(context_, 1, ports) < 1 ? 0 : static_cast<std::uint16_t>(ports[0].port);
	}

private:
	Families collect() {
		const std::lock_guard lock(mutex_);
		return collect_();
	}
	Condition health() {
		const std::lock_guard lock(mutex_);
		return health_();
	}

	Collect collect_;
	Health health_;
	std::mutex mutex_;  // one call of collect_ or health_ at a time
	mg_context* context_ = nullptr;
};

std::string_view name_of(Kind kind) {
	return kind == Kind::counter ? "counter" : kind == Kind::gauge ? "gauge" : "histogram";
}

}  // namespace

std::string mistake_in_address(const std::string& where) {
	const std::size_t colon = where.rfind(':');
	const std::string_view port = std::string_view(where).substr(colon == where.npos ? 0 : colon + 1);
	std::uint16_t number = 0;
	const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), number);
	if (wrong == std::errc{} && end == port.data() + port.size()) return "";
	return "'" + std::string(port) + "' is not a port, 0 to 65535";
}

std::expected<std::unique_ptr<Endpoint>, std::string> Endpoint::open(
	const std::string& where, Collect collect, Health health) {
	if (const std::string mistake = mistake_in_address(where); !mistake.empty())
		return std::unexpected("metrics cannot be served: " + mistake + " (--metrics [HOST:]PORT)");
	const std::string address = where.contains(':') ? where : "127.0.0.1:" + where;
	auto endpoint = std::make_unique<HttpEndpoint>(address, std::move(collect), std::move(health));
	if (endpoint->listens()) return std::unique_ptr<Endpoint>(std::move(endpoint));
	return std::unexpected("metrics cannot be served at " + address +
		": the port is in use, or this is not an address of this host (--metrics [HOST:]PORT)");
}

std::string to_json(const Families& families) {
	nlohmann::ordered_json json;
	for (const Family& family : families) {
		auto& out = json[family.name];
		out = {{"help", family.help}, {"type", name_of(family.kind)}, {"samples", nlohmann::ordered_json::array()}};
		for (const Sample& sample : family.samples) {
			nlohmann::ordered_json one{{"labels", nlohmann::ordered_json::object()}};
			for (const auto& [name, value] : sample.labels) one["labels"][name] = value;
			if (family.kind != Kind::histogram) {
				one["value"] = sample.value;
			} else {
				std::uint64_t count = 0;
				one["buckets"] = nlohmann::ordered_json::array();
				for (std::size_t i = 0; i < sample.distribution.counts.size(); ++i) {
					count += sample.distribution.counts[i];
					if (i < sample.distribution.bounds.size())
						one["buckets"].push_back({sample.distribution.bounds[i], count});
				}
				one["count"] = count;
				one["sum"] = sample.distribution.sum;
			}
			out["samples"].push_back(std::move(one));
		}
	}
	return json.dump(1, '\t', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::expected<void, std::string> write_json(const std::string& file, const Families& families) {
	const std::string text = to_json(families), beside = file + ".new";
	std::FILE* const out = std::fopen(beside.c_str(), "w");
	const bool written = out != nullptr && std::fputs(text.c_str(), out) >= 0;
	const bool closed = out != nullptr && std::fclose(out) == 0;
	if (!written || !closed || std::rename(beside.c_str(), file.c_str()) != 0)
		return std::unexpected("metrics cannot be written to " + file);
	return {};
}

JsonWriter::JsonWriter(std::string file, Collect collect)
	: thread_([file = std::move(file), collect = std::move(collect)](const std::stop_token& stop) {
		  std::mutex lock;
		  std::condition_variable_any told;
		  bool complained = false;
		  do {
			  const auto written = write_json(file, collect());
			  if (!written && !std::exchange(complained, true)) std::fprintf(stderr, "%s\n", written.error().c_str());
			  std::unique_lock guard(lock);
			  told.wait_for(guard, stop, std::chrono::seconds(1), [] { return false; });
		  } while (!stop.stop_requested());
		  (void)write_json(file, collect());
	  }) {
	pthread_setname_np(thread_.native_handle(), "metrics-json");
}

}  // namespace verbena::metrics
