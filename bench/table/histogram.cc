// SPDX-License-Identifier: Apache-2.0
#include "bench/table/histogram.h"

namespace verbena::bench {

Json to_json(const Histogram& histogram) {
	Json buckets = Json::array();
	histogram.for_each([&](std::uint64_t last, std::uint64_t count) { buckets.push_back({last, count}); });
	return {{"count", histogram.count()}, {"min", histogram.min()}, {"max", histogram.max()},
		{"buckets", std::move(buckets)}};
}

bool is_histogram(const Json& json) { return json.is_object() && json.contains("buckets"); }

std::expected<Histogram, std::string> histogram_of(const Json& json) {
	const auto whole = [](const Json& value) { return value.is_number_unsigned(); };
	if (!is_histogram(json) || !json["buckets"].is_array() || !json.contains("count") || !json.contains("min") ||
		!json.contains("max") || !whole(json["count"]) || !whole(json["min"]) || !whole(json["max"]))
		return std::unexpected("it has no count, min, max and buckets");
	Histogram histogram;
	std::uint64_t before = 0;
	for (const Json& bucket : json["buckets"]) {
		if (!bucket.is_array() || bucket.size() != 2 || !whole(bucket[0]) || !whole(bucket[1]))
			return std::unexpected("a bucket is not a value and a count");
		const auto value = bucket[0].get<std::uint64_t>(), count = bucket[1].get<std::uint64_t>();
		if (count == 0 || (histogram.count() > 0 && value <= before))
			return std::unexpected("its buckets are not in order");
		if (count > UINT64_MAX - histogram.count()) return std::unexpected("its counts are more than 2^64 - 1");
		histogram.record(value, count);
		before = value;
	}
	const auto min = json["min"].get<std::uint64_t>(), max = json["max"].get<std::uint64_t>();
	if (histogram.count() != json["count"]) return std::unexpected("its count is not the sum of its buckets");
	if (!histogram.narrow(min, max)) return std::unexpected("min and max are not in its first and last bucket");
	return histogram;
}

Json without_histograms(const Json& list) {
	Json kept = Json::array();
	for (const Json& each : list) {
		if (!each.is_object()) {
			kept.push_back(each);
			continue;
		}
		Json& object = kept.emplace_back(Json::object());
		for (const auto& [key, value] : each.items())
			if (!is_histogram(value)) object[key] = value;
	}
	return kept;
}

}  // namespace verbena::bench
