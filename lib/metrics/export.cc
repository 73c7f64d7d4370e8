// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/export.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

namespace verbena::metrics {
namespace {

constexpr std::size_t endpoint_threads = 1;

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

class Collector final : public prometheus::Collectable {
public:
	explicit Collector(metrics::Collect collect) : collect_(std::move(collect)) {}
	std::vector<prometheus::MetricFamily> Collect() const override {
		std::vector<prometheus::MetricFamily> families;
		for (const Family& each : collect_()) {
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

private:
	metrics::Collect collect_;
};

class HttpEndpoint final : public Endpoint {
public:
	HttpEndpoint(const std::string& where, Collect collect)
		: collector_(std::make_shared<Collector>(std::move(collect))), exposer_(where, endpoint_threads) {
		exposer_.RegisterCollectable(collector_);
	}
	std::uint16_t port() const override { return static_cast<std::uint16_t>(exposer_.GetListeningPorts().at(0)); }

private:
	std::shared_ptr<Collector> collector_;
	prometheus::Exposer exposer_;
};

std::string_view name_of(Kind kind) {
	return kind == Kind::counter ? "counter" : kind == Kind::gauge ? "gauge" : "histogram";
}

}  // namespace

std::expected<std::unique_ptr<Endpoint>, std::string> Endpoint::open(const std::string& where, Collect collect) {
	const std::string address = where.find(':') == where.npos ? "127.0.0.1:" + where : where;
	try {
		return std::make_unique<HttpEndpoint>(address, std::move(collect));
	} catch (const std::exception&) {
		return std::unexpected("metrics cannot be served at " + address +
			": the port is in use, or this is not an address of this host (--metrics [HOST:]PORT)");
	}
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
