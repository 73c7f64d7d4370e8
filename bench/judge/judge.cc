// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <unordered_map>

#include "base/statistics.h"
#include "bench/judge/copies.h"
#include "bench/judge/distance.h"
#include "bench/judge/environment_rules.h"
#include "bench/judge/kind.h"

namespace verbena::bench {
namespace {

// Sums and medians of the same numbers may differ in the last digits.
constexpr double same = 1e-9;

bool is_figure(const Column& column) { return column.kind == Kind::count || column.kind == Kind::number; }

// A cell that could not be run has "n/a" for its figures in a published table.
bool has_figure(const Json& row, const Column& column) {
	return has_value(row, column.name) && word_of(row, column.name) != "n/a";
}

// Whether the row claims a figure that was measured.
bool claims_figures(const Experiment& experiment, const Json& row) {
	return std::ranges::any_of(experiment.columns,
		[&](const Column& column) { return column.role == Role::result && has_figure(row, column); });
}

// Names in the environment that our programs write. One of them is enough: a file that was stripped
// of its repetitions and of its commit is still ours.
constexpr std::string_view our_names[] = {"commit", "command", "settings", "device", "kind", "gid", "gid_index", "mtu",
	"link", "connect", "transport", "peer_device", "peer_kind", "core_to_core_ns", distance_key, "cpu", "cores",
	"kernel", "date"};

// Whether the table has columns, or an environment, that no published table has.
bool is_ours(const Experiment& experiment, const Table& table) {
	if (std::ranges::any_of(table.environment, [](const auto& entry) {
			return std::ranges::find(our_names, lowered(entry.first)) != std::end(our_names);
		}))
		return true;
	return std::ranges::any_of(experiment.columns, [&](const Column& column) {
		return !column.is_published &&
			std::ranges::any_of(table.rows, [&](const Json& row) { return row.contains(column.name); });
	});
}

std::string cell_of(const Experiment& experiment, const Json& row) {
	std::string cell;
	for (const Column& column : experiment.columns) {
		if (column.role != Role::cell) continue;
		const auto number = is_figure(column) ? number_of(row, column.name) : std::nullopt;
		cell += (number ? fmt::format("{}", number->value) : word_of(row, column.name)) + '\n';
	}
	return cell;
}

void examine_values(const Experiment& experiment, const Json& row, Findings& findings) {
	for (const Column& column : experiment.columns) {
		if (!has_value(row, column.name)) {
			if (column.is_published && column.role != Role::result)
				findings.invalid(fmt::format("there is no {}", column.name));
			continue;
		}
		const Json& value = row.at(column.name);
		if (column.kind == Kind::list && !value.is_array())
			findings.invalid(fmt::format("{} is not a list", column.name));
		if (column.kind == Kind::word && !value.is_string())
			findings.invalid(fmt::format("{} {} is not a word", column.name, value.dump()));
		if (!is_figure(column) || !has_figure(row, column)) continue;
		const auto number = number_of(row, column.name);
		if (!number)
			findings.invalid(
				fmt::format("{} '{}' is not a finite number of 0 or more", column.name, word_of(row, column.name)));
		else if (column.kind == Kind::count && number->value != std::floor(number->value))
			findings.invalid(fmt::format("{} {} is not a whole number", column.name, number->value));
	}
}

// Compares a figure of the row with the one that its repetitions give.
void compare(const Column& column, const Json& row, const Json& summary, Findings& findings) {
	const Json& true_value = summary.at(column.name);
	const std::string claimed = has_value(row, column.name) ? word_of(row, column.name) : "nothing";
	const std::string given = true_value.is_null() ? "nothing" : text_of(true_value);
	if (is_figure(column) && !true_value.is_null()) {
		const auto number = number_of(row, column.name);
		if (number && std::abs(number->value - true_value.get<double>()) <= same * true_value.get<double>()) return;
	} else if (claimed == given || (given.empty() && claimed == "nothing")) {
		return;
	}
	findings.invalid(fmt::format("{} is {}, but the repetitions give {}", column.name, claimed, given));
}

void examine_histograms(const Experiment& experiment, const Json& row, const Json& repetition, Findings& findings) {
	if (experiment.latencies == nullptr) return;
	for (const Latency& each : experiment.latencies(row)) examine_presence(repetition, each, findings);
}

void examine_repetitions(const Experiment& experiment, const Json& row, bool has_histograms, Findings& findings) {
	const Json& repetitions = row.at("repetitions");
	try {
		for (std::size_t i = 0; i < repetitions.size(); ++i) {
			Findings of_one;
			if (has_histograms) examine_histograms(experiment, row, repetitions[i], of_one);
			experiment.examine_repetition(row, repetitions[i], of_one);
			findings.add(fmt::format("repetition {}: ", i + 1), of_one);
		}
		const Json summary = experiment.summarize(row, repetitions);
		for (const Column& column : experiment.columns)
			if (summary.contains(column.name)) compare(column, row, summary, findings);
	} catch (const Json::exception&) {
		findings.invalid("a repetition lacks a number that every repetition has");
	}
}

// The distance of a sweep: that of the environment, else the commonest one of all repetitions, as
// when it was measured.
double distance_of(const Table& table) {
	const double stated = stated_number(table.environment, distance_key).value_or(Number{}).value;
	if (stated > 0) return stated;
	std::vector<double> trips;
	for (const Json& row : table.rows)
		for (const char* list : {"repetitions", "apart"}) {
			if (!has_value(row, list) || !row[list].is_array()) continue;
			for (const Json& each : row[list])
				for (const double trip : distances_in(each)) trips.push_back(trip);
		}
	return common_distance(std::move(trips));
}

// Only the distance is a reason to set a repetition apart, and what it shows to be false is false.
void examine_apart(const Experiment& experiment, const Json& row, double distance, Findings& findings) {
	if (!has_value(row, "apart") || !row["apart"].is_array() || row["apart"].empty()) return;
	findings.remark(fmt::format("{} more at another distance between the processors, apart", row["apart"].size()));
	const auto counts = [&](const Json& each) { return is_at(each, distance); };
	// With less than two at the distance the first ones count (part()): their spread shows that.
	const bool is_parted =
		std::ranges::count_if(row["repetitions"], counts) + std::ranges::count_if(row["apart"], counts) >= 2;
	try {
		for (std::size_t i = 0; is_parted && i < row["repetitions"].size(); ++i)
			if (!counts(row["repetitions"][i]))
				findings.invalid(fmt::format("repetition {} counts, but was measured at another distance", i + 1));
		for (std::size_t i = 0; i < row["apart"].size(); ++i) {
			const Json& each = row["apart"][i];
			if (is_parted && counts(each))
				findings.invalid(fmt::format("repetition {} apart was measured at the distance of the others", i + 1));
			Findings of_one;
			experiment.examine_repetition(row, each, of_one);
			if (of_one.is_invalid()) findings.add(fmt::format("repetition {} apart: ", i + 1), of_one);
		}
	} catch (const Json::exception&) {
		findings.invalid("a repetition apart lacks a number that every repetition has");
	}
}

std::size_t size_of(const Json& row, const char* list) {
	return has_value(row, list) && row[list].is_array() ? row[list].size() : 0;
}
std::size_t repetitions_of(const Json& row) { return size_of(row, "repetitions"); }

// A sweep measures each cell as often as the others, unless one fails, or the sweep is ended early.
// The number of repetitions at the distance of the sweep differs from row to row.
void examine_numbers(const Table& table, std::span<Findings> findings) {
	if (table.rows.empty()) return;
	const auto most_in = [&](auto number_of) {
		return std::ranges::max(table.rows | std::views::transform(number_of));
	};
	const auto measured = [](const Json& row) { return size_of(row, "repetitions") + size_of(row, "apart"); };
	const std::size_t most = most_in(repetitions_of), most_measured = most_in(measured);
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const std::size_t own = repetitions_of(table.rows[i]), all = measured(table.rows[i]);
		if (own == 0 || findings[i].is_invalid()) continue;
		if (own < most && all < most_measured)
			findings[i].suspect(fmt::format("{} repetitions, but other rows have {}", own, most));
		else if (own < repetitions_of_interval && own < most)
			findings[i].suspect(fmt::format("only {} repetitions at one distance, which give no interval", own));
	}
}

Findings findings_on(const Experiment& experiment, const Table& table, std::size_t index, std::size_t first,
	double distance, bool ours) {
	const Json& row = table.rows[index];
	Findings findings;
	examine_values(experiment, row, findings);
	if (first != index) findings.invalid(fmt::format("the same cell as row {}", first + 1));
	if (repetitions_of(row) > 0) {
		examine_repetitions(experiment, row, table.has_histograms, findings);
		examine_apart(experiment, row, distance, findings);
	} else if (!claims_figures(experiment, row)) {
		findings.not_applicable(word_of(row, "reason"));
		return findings;
	} else if (ours) {
		findings.invalid("it has figures but no repetitions from which they could follow");
	}
	// Rules about figures mean nothing if there is no figure to speak of.
	if (!findings.is_invalid()) experiment.examine_row(row, table, findings);
	return findings;
}

}  // namespace

std::string remark_on(const Experiment& experiment, const Table& table) {
	std::string text = experiment.remark ? experiment.remark(table) : "";
	const bool lacks_evidence = !is_ours(experiment, table) && std::ranges::any_of(table.rows, [&](const Json& row) {
		return repetitions_of(row) == 0 && claims_figures(experiment, row);
	});
	for (const std::string& more : {std::string(lacks_evidence ? no_evidence : ""), remark_on_environment(table)})
		if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
	return text;
}

std::expected<std::vector<Verdict>, std::string> judge(const Experiment& experiment, const Table& table) {
	for (const Column& column : experiment.columns)
		if (column.is_published &&
			std::ranges::none_of(table.rows, [&](const Json& row) { return row.contains(column.name); }))
			return std::unexpected(fmt::format("no column '{}'", column.name));
	std::unordered_map<std::string, std::size_t> cells;  // the first row of each
	const bool ours = is_ours(experiment, table);
	const double distance = distance_of(table);
	std::vector<Findings> findings;
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		findings.push_back(findings_on(experiment, table, i,
			cells.try_emplace(cell_of(experiment, table.rows[i]), i).first->second, distance, ours));
	examine_copies(experiment, table, findings);
	examine_numbers(table, findings);
	examine_environment(table, findings);
	examine_devices(table, findings);
	if (experiment.examine_table) experiment.examine_table(table, findings);
	std::vector<Verdict> verdicts;
	for (const Findings& each : findings) verdicts.push_back(each.verdict());
	return verdicts;
}

void judge_measured(const Experiment& experiment, Table& table) {
	// A cell that could not be run has no figures.
	for (Json& row : table.rows)
		for (const Column& column : experiment.columns)
			if (!row.contains(column.name)) row[std::string(column.name)] = nullptr;
	const auto verdicts = judge(experiment, table);
	if (!verdicts) return;
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		table.rows[i]["validity"] = name_of((*verdicts)[i].validity);
		table.rows[i]["reason"] = (*verdicts)[i].reason;
	}
}

void examine_word(
	const Json& row, std::string_view column, std::initializer_list<std::string_view> known, Findings& findings) {
	const std::string word = word_of(row, column);
	if (has_value(row, column) && std::ranges::find(known, word) == known.end())
		findings.invalid(fmt::format("{} '{}' is unknown", column, word));
}

void examine_little(double rate_per_s, double mean_latency_s, const UnderWay& may, Findings& findings) {
	if (mean_latency_s <= 0 || rate_per_s <= 0) return;
	const double under_way = rate_per_s * mean_latency_s;
	const auto found = [&] {
		return fmt::format("rate and latency give {} {} under way on average", three_digits(under_way), may.what);
	};
	if (under_way > may.tolerance * may.most)
		findings.invalid(fmt::format("{}, but the window is {}", found(), may.most));
	else if (may.only_waits && under_way < little_minimum) findings.invalid(found() + ", next to none");
}

}  // namespace verbena::bench
