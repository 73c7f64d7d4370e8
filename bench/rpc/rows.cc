#include "bench/rpc/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/sizes.h"
#include "base/statistics.h"
#include "bench/fields.h"
#include "bench/rpc/peer.h"

namespace verbena::rpcbench {
namespace {

using bench::Fields;
using bench::read_rows;

constexpr double product_tolerance = 0.01, little_tolerance = 1.05;

struct Numbers {
	double size = 0, concurrency = 0, gigabits = 0, gigabits_rounding = 0, p90_us = 0, p99_us = 0, qps = 0;
};

struct Verdict {
	std::string validity = "valid", reason;
};

Verdict judge(const Numbers& row) {
	const double gigabits = row.qps * row.size * 8 / 1e9;
	if (std::abs(gigabits - row.gigabits) > product_tolerance * row.gigabits + row.gigabits_rounding)
		return {"invalid",
			fmt::format("QPS x size is {:.2f} Gb/s, and the row says {:.2f} ({:+.1f} %)", gigabits, row.gigabits,
				(gigabits / row.gigabits - 1) * 100)};
	if (row.p99_us < row.p90_us) return {"invalid", "P99 is below P90"};
	// Little's law gives the mean latency from the number in flight and the rate.
	const double mean_us = row.concurrency / row.qps * 1e6;
	if (row.p90_us < mean_us && row.p90_us > 0)
		return {"suspect",
			fmt::format(
				"P90 of {:.0f} us is below the mean of {:.0f} us that follows from {:.0f} in flight at {:.0f} QPS",
				row.p90_us, mean_us, row.concurrency, row.qps)};
	return {};
}

Verdict judge(const CellOptions& cell, const Outcome& run) {
	if (run.failed > 0) return {"invalid", fmt::format("{} requests failed or had a wrong answer", run.failed)};
	if (run.served < run.requests)
		return {"invalid", fmt::format("{} answers, but the server served only {} requests", run.requests, run.served)};
	const double under_way = run.qps() * run.mean_us() / 1e6;
	if (under_way > cell.concurrency * little_tolerance)
		return {"invalid",
			fmt::format("{:.1f} requests in flight on average, more than the {} callers", under_way, cell.concurrency)};
	// If each call makes its own connection, the time between calls is no part of a call's latency.
	if (under_way < cell.concurrency * 0.9 && cell.ablation != Behaviour::connection_pool)
		return {"suspect",
			fmt::format("{:.1f} requests in flight on average instead of {}: the client was too slow", under_way,
				cell.concurrency)};
	return {};
}

std::optional<double> number_of(const Fields& row, std::string_view name) {
	const auto found = row.find(name);
	double number = 0;
	if (found == row.end()) return {};
	const char *begin = found->second.data(), *end = begin + found->second.size();
	if (begin == end || std::from_chars(begin, end, number).ptr != end) return {};
	return number;
}

// The rounding error of a printed number: half a unit of its last digit.
double rounding_of(std::string_view text) {
	const auto point = text.find('.');
	return 0.5 * std::pow(10.0, point == text.npos ? 0 : -static_cast<double>(text.size() - point - 1));
}

template <class Value> double median_of(std::span<const Outcome> runs, Value value) {
	std::vector<double> values;
	for (const Outcome& run : runs) values.push_back(value(run));
	return median(values);
}

double percentile_us(const Outcome& run, double fraction) {
	return static_cast<double>(run.latency.quantile(fraction)) / 1e3;
}

Json beginning_of(const CellOptions& cell) {
	return {{"request_size", size_text(cell.size)}, {"concurrency", cell.concurrency}};
}

void add_cell(Json& row, const CellOptions& cell) {
	row["transport"] = cell.rdma ? "rdma" : "tcp";
	row["mode"] = cell.mode == Mode::sink ? "sink" : "echo";
	row["peer"] = name_of(cell.peer);
	row["ablation"] = name_of(cell.ablation);
	row["without"] = cell.without ? name_of(cell.ablation) : "";
	row["recv_mode"] = !cell.rdma ? "" : cell.per_connection ? "per_connection" : "srq";
	row["memory"] = cell.registered ? "registered" : "user";
	row["send_buffers"] = cell.send_buffers == 0 ? Json(nullptr) : Json(cell.send_buffers);
	row["connections"] = cell.connections;
	row["in_flight"] = cell.concurrency;
	row["seconds"] = static_cast<double>(cell.duration) / 1e9;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
	if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
	if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
	return fmt::format("{}B", bytes);
}

std::string_view name_of(Behaviour behaviour) {
	switch (behaviour) {
		case Behaviour::none: return "";
		case Behaviour::inline_data: return "inline";
		case Behaviour::coalescing: return "coalescing";
		case Behaviour::send_queue: return "send-queue";
		case Behaviour::pool: return "pool";
		case Behaviour::connection_pool: return "connection-pool";
	}
	return "";
}

Json row_of(const CellOptions& cell, std::span<const Outcome> runs) {
	// All numbers are from one repetition, so that they are consistent with each other.
	std::vector<double> rates, late;
	Json repetitions = Json::array();
	for (const Outcome& run : runs) {
		rates.push_back(run.qps());
		late.push_back(percentile_us(run, 0.99));
		repetitions.push_back({{"qps", rates.back()}, {"p99_us", late.back()}});
	}
	const double middle = median(rates);
	const Outcome& run =
		*std::ranges::min_element(runs, {}, [&](const Outcome& each) { return std::abs(each.qps() - middle); });
	Json row = beginning_of(cell);
	row["gigabits_per_second"] = run.qps() * static_cast<double>(cell.size) * 8 / 1e9;
	row["p90_us"] = percentile_us(run, 0.9);
	row["p99_us"] = percentile_us(run, 0.99);
	row["qps"] = run.qps();
	add_cell(row, cell);
	row["qps_low"] = median_interval(rates).low;
	row["qps_high"] = median_interval(rates).high;
	row["p99_us_low"] = median_interval(late).low;
	row["p99_us_high"] = median_interval(late).high;
	row["p50_us"] = percentile_us(run, 0.5);
	row["p999_us"] = percentile_us(run, 0.999);
	row["mean_us"] = run.mean_us();
	row["cpu_us_per_request"] = median_of(runs, [](const Outcome& each) { return each.cpu_us(); });
	row["server_cpu_us_per_request"] = median_of(runs, [](const Outcome& each) {
		return each.server_cpu_s * 1e6 / static_cast<double>(std::max<std::uint64_t>(each.requests, 1));
	});
	row["requests_per_message"] = run.messages == 0 ? Json(nullptr) : Json(median_of(runs, [](const Outcome& each) {
		return static_cast<double>(each.frames) / static_cast<double>(std::max<std::uint64_t>(each.messages, 1));
	}));
	// Empty over TCP, and if no connection stays open.
	const auto of_rdma = [&](auto value) { return run.rdma.frames == 0 ? Json(nullptr) : Json(value); };
	row["inline_share"] = of_rdma(
		static_cast<double>(run.rdma.frames_inline) / static_cast<double>(std::max<std::uint64_t>(run.rdma.frames, 1)));
	row["registrations"] = of_rdma(run.rdma.registrations);
	row["parts_under_way"] = of_rdma(run.rdma.parts_most);
	row["connections_made"] = run.connections;
	row["pinned_kib_per_connection"] = median_of(runs, [](const Outcome& each) { return each.pinned_kib; });
	row["requests"] = run.requests;
	row["repetitions"] = runs.size();
	row["each_repetition"] = std::move(repetitions);
	Verdict worst;
	for (const Outcome& each : runs) {
		const Verdict verdict = judge(cell, each);
		if (verdict.validity == "invalid" || (verdict.validity == "suspect" && worst.validity == "valid"))
			worst = verdict;
	}
	row["validity"] = worst.validity;
	row["reason"] = worst.reason;
	return row;
}

Json row_not_run(const CellOptions& cell, const std::string& reason) {
	Json row = row_of(cell, std::span<const Outcome>(std::vector<Outcome>(1)));
	for (auto& [key, value] : row.items())
		if (value.is_number_float()) value = nullptr;
	row["seconds"] = static_cast<double>(cell.duration) / 1e9;
	row["repetitions"] = 0;
	row["each_repetition"] = Json::array();
	row["validity"] = "invalid";
	row["reason"] = reason;
	return row;
}

std::string to_markdown(const std::vector<Json>& rows) {
	std::string text =
		"| Size | In flight | Gb/s | P90 us | P99 us | QPS | Transport | P50 us | P99.9 us | CPU us | Requests/message "
		"| |\n"
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n";
	const auto number = [](const Json& value, int digits) {
		return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "";
	};
	const auto word = [](const Json& row, const char* name) { return row[name].get<std::string>(); };
	for (const Json& row : rows) {
		std::string kind = word(row, "peer").empty() ? word(row, "transport") : word(row, "peer");
		if (row["mode"] == "echo") kind += ", echo";
		if (row["recv_mode"] == "per_connection") kind += ", own buffers";
		if (row["memory"] == "registered") kind += ", registered";
		if (!word(row, "ablation").empty())
			kind += (word(row, "without").empty() ? ", with " : ", without ") + word(row, "ablation");
		text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
			word(row, "request_size"), row["concurrency"].get<std::uint32_t>(), number(row["gigabits_per_second"], 2),
			number(row["p90_us"], 0), number(row["p99_us"], 0), number(row["qps"], 0), kind, number(row["p50_us"], 0),
			number(row["p999_us"], 0), number(row["cpu_us_per_request"], 1), number(row["requests_per_message"], 1),
			row["validity"] == "valid" ? "" : word(row, "validity") + ": " + word(row, "reason"));
	}
	return text;
}

bool is_rpc_table(std::string_view text) {
	const auto rows = read_rows(text);
	return rows && !rows->empty() && rows->front().contains("request_size") && rows->front().contains("qps");
}

std::expected<std::vector<CheckedRow>, std::string> check_table(std::string_view text) {
	const auto rows = read_rows(text);
	if (!rows) return std::unexpected(rows.error());
	std::vector<CheckedRow> checked;
	for (std::size_t i = 0; i < rows->size(); ++i) {
		Fields row = (*rows)[i];
		CheckedRow& out = checked.emplace_back(CheckedRow{.transport = row["transport"],
			.mode = row["mode"],
			.size = row["request_size"],
			.validity = row["validity"],
			.reason = row["reason"]});
		if (out.size.ends_with('B')) row["request_size"].pop_back();
		const auto size = parse_size(row["request_size"]);
		const auto concurrency = number_of(row, "concurrency");
		if (!size || !concurrency)
			return std::unexpected(fmt::format("row {}: the request size or the concurrency is missing", i + 1));
		out.concurrency = static_cast<std::uint64_t>(*concurrency);
		if (out.validity == "invalid" || out.validity == "n/a") continue;
		const auto gigabits = number_of(row, "gigabits_per_second"), p90 = number_of(row, "p90_us"),
				   p99 = number_of(row, "p99_us"), qps = number_of(row, "qps");
		if (!gigabits || !p90 || !p99 || !qps || *qps <= 0)
			return std::unexpected(fmt::format("row {}: a number is missing", i + 1));
		const Verdict verdict = judge(Numbers{.size = static_cast<double>(*size),
			.concurrency = *concurrency,
			.gigabits = *gigabits,
			.gigabits_rounding = rounding_of(row["gigabits_per_second"]),
			.p90_us = *p90,
			.p99_us = *p99,
			.qps = *qps});
		if (verdict.validity == "valid" && !out.validity.empty()) continue;
		out.validity = verdict.validity;
		out.reason = verdict.reason;
	}
	return checked;
}

}  // namespace verbena::rpcbench
