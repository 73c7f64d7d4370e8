#include "bench/connect/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/statistics.h"
#include "bench/table/row.h"

namespace verbena::connect {
namespace {

// For the error of a mean of measured times.
constexpr double little_tolerance = 1.05;

double median_of(const std::vector<Repetition>& repetitions, const std::function<double(const Repetition&)>& value) {
	std::vector<double> values;
	for (const Repetition& each : repetitions) values.push_back(value(each));
	return median(values);
}

// The reason why the row is invalid; empty if it is valid.
std::string judge(const std::vector<Repetition>& repetitions) {
	for (std::size_t i = 0; i < repetitions.size(); ++i) {
		const Repetition& r = repetitions[i];
		const std::string which = fmt::format("repetition {}: ", i + 1);
		if (!r.failure.empty()) return which + r.failure;
		if (r.account.established != r.count || r.account.disconnected != r.count)
			return which +
				fmt::format("the server counted {} established and {} disconnected connections of {}",
					r.account.established, r.account.disconnected, r.count);
		const double mean_s =
			std::accumulate(r.total_ns.begin(), r.total_ns.end(), 0.0) / static_cast<double>(r.total_ns.size()) / 1e9;
		if (const double under_way = r.connects_per_s() * mean_s; under_way > r.clients * little_tolerance)
			return which +
				fmt::format("{:.1f} connects under way on average, but there are {} clients", under_way, r.clients);
	}
	return {};
}

void add_times(Json& row, const std::string& name, const std::vector<Repetition>& repetitions,
	const std::function<const std::vector<double>&(const Repetition&)>& times) {
	const auto of = [&](double fraction) {
		return median_of(repetitions,
			[&](const Repetition& r) { return times(r).empty() ? 0 : quantile(times(r), fraction) / 1e3; });
	};
	row[name + "p50_us"] = of(0.5);
	row[name + "p99_us"] = of(0.99);
}

Json counts_of(const Repetition& r, std::span<const std::string_view> parts) {
	Json one{{"connects_per_s", r.connects_per_s()}, {"disconnects_per_s", r.disconnects_per_s()},
		{"established", r.account.established}, {"disconnected", r.account.disconnected}, {"failure", r.failure}};
	one["round_trip_ns"] = r.round_trip_ns ? Json(*r.round_trip_ns) : Json(nullptr);
	if (r.total_ns.empty()) return one;
	one["p50_us"] = quantile(r.total_ns, 0.5) / 1e3;
	one["p99_us"] = quantile(r.total_ns, 0.99) / 1e3;
	one["max_us"] = quantile(r.total_ns, 1) / 1e3;
	for (std::size_t i = 0; i < parts.size(); ++i)
		one[std::string(parts[i]) + "_p50_us"] = quantile(r.part_ns[i], 0.5) / 1e3;
	return one;
}

std::string text_of(const Json& value) {
	if (value.is_null()) return "";
	return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string quoted(const std::string& field) {
	if (field.find_first_of(",\"\r\n") == field.npos) return field;
	std::string text = "\"";
	for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
	return text + '"';
}

}  // namespace

Json row_of(
	std::string_view connect, std::span<const std::string_view> parts, const std::vector<Repetition>& repetitions) {
	std::vector<double> rates;
	Account all;
	double longest_ns = 0;
	for (const Repetition& r : repetitions) {
		rates.push_back(r.connects_per_s());
		all.established += r.account.established;
		all.disconnected += r.account.disconnected;
		for (const double took : r.total_ns) longest_ns = std::max(longest_ns, took);
	}
	const Interval interval = median_interval(rates);
	Json row{{"experiment", "connect"}, {"connect", connect}, {"clients", repetitions.front().clients},
		{"count", repetitions.front().count}, {"connects_per_s", median(rates)}, {"connects_per_s_low", interval.low},
		{"connects_per_s_high", interval.high}, {"spread", spread(rates)}};
	add_times(row, "", repetitions, [](const Repetition& r) -> const auto& { return r.total_ns; });
	row["max_us"] = longest_ns / 1e3;
	for (std::size_t i = 0; i < parts.size(); ++i)
		add_times(row, std::string(parts[i]) + '_', repetitions,
			[i](const Repetition& r) -> const auto& { return r.part_ns[i]; });
	row["disconnects_per_s"] = median_of(repetitions, [](const Repetition& r) { return r.disconnects_per_s(); });
	add_times(row, "disconnect_", repetitions, [](const Repetition& r) -> const auto& { return r.disconnect_ns; });
	row["established"] = all.established;
	row["disconnected"] = all.disconnected;
	std::vector<double> trips;
	for (const Repetition& r : repetitions)
		if (r.round_trip_ns) trips.push_back(*r.round_trip_ns);
	row["round_trip_ns"] = trips.empty() ? Json(nullptr) : Json(median(trips));
	const std::string reason = judge(repetitions);
	row["validity"] = reason.empty() ? "valid" : "invalid";
	row["reason"] = reason;
	row["repetitions"] = Json::array();
	for (const Repetition& r : repetitions) row["repetitions"].push_back(counts_of(r, parts));
	return row;
}

std::string to_json(const Table& table) {
	Json json{{"environment", Json::object()}, {"rows", table.rows}};
	for (const auto& [key, value] : table.environment) json["environment"][key] = value;
	return json.dump(1, '\t') + '\n';
}

std::string to_csv(const Table& table) {
	std::string text;
	for (const auto& [key, value] : table.rows.front().items())
		if (!value.is_array()) text += (text.empty() ? "" : ",") + key;
	text += '\n';
	for (const Json& row : table.rows) {
		std::string line;
		for (const auto& [key, value] : row.items())
			if (!value.is_array()) line += (key == "experiment" ? "" : ",") + quoted(text_of(value));
		text += line + '\n';
	}
	for (const auto& [key, value] : table.environment) text += fmt::format("# {}: {}\n", key, value);
	return text;
}

std::string to_markdown(const Table& table) {
	const bool all_valid = std::ranges::all_of(table.rows, [](const Json& row) { return row["validity"] == "valid"; });
	const auto shown = [&](const std::string& key, const Json& value) {
		return !value.is_array() && key != "experiment" && !key.ends_with("_low") && !key.ends_with("_high") &&
			!key.ends_with("_p99_us") && (key != "reason" || !all_valid);
	};
	std::string names = "|", rule = "|", text;
	for (const auto& [key, value] : table.rows.front().items()) {
		if (!shown(key, value)) continue;
		names += ' ' + key + " |";
		rule += value.is_string() ? " --- |" : " ---: |";
	}
	for (const Json& row : table.rows) {
		text += '|';
		for (const auto& [key, value] : row.items())
			if (shown(key, value))
				text +=
					' ' + (value.is_number_float() ? bench::three_digits(value.get<double>()) : text_of(value)) + " |";
		text += '\n';
	}
	text = names + '\n' + rule + '\n' + text + '\n';
	for (const auto& [key, value] : table.environment) text += fmt::format("- {}: {}\n", key, value);
	return text;
}

}  // namespace verbena::connect
