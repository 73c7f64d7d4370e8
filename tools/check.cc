// SPDX-License-Identifier: Apache-2.0
// verbena check FILE: reads a result table, ours or a published one, and judges whether each row
// can be true. The columns decide which experiment's rules apply.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "bench/connect/rows.h"
#include "bench/judge/judge.h"
#include "bench/kv/rows.h"
#include "bench/rcud/rows.h"
#include "bench/rpc/rows.h"
#include "bench/scale/rows.h"
#include "bench/table/table.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

struct CheckedTable {
	std::string file;
	bool strict = false;
	bool json = false;
};

// The experiments whose tables the one judge knows.
const bench::Experiment* const experiments[] = {
	&rcud::experiment(), &connect::experiment(), &scale::experiment(), &kvbench::experiment(), &rpcbench::experiment()};

// The experiment whose published columns the table has; the first one if there is none, so that the
// error names a column.
const bench::Experiment& experiment_of(const bench::Table& table) {
	const auto has = [&](const bench::Column& column) {
		return !column.is_published ||
			std::ranges::any_of(table.rows, [&](const bench::Json& row) { return row.contains(column.name); });
	};
	const auto found = std::ranges::find_if(
		experiments, [&](const bench::Experiment* each) { return std::ranges::all_of(each->columns, has); });
	return **(found == std::end(experiments) ? std::begin(experiments) : found);
}

// "3 rows: 1 invalid, 0 suspect"; the other verdicts follow if a row has them.
std::string counts_text(std::span<const bench::Verdict> verdicts) {
	using bench::Validity;
	std::string text = fmt::format("{} rows:", verdicts.size());
	for (const Validity each :
		{Validity::invalid, Validity::suspect, Validity::not_comparable, Validity::mislabelled}) {
		const auto count = std::ranges::count(verdicts, each, &bench::Verdict::validity);
		if (count > 0 || each == Validity::invalid || each == Validity::suspect)
			text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, bench::name_of(each));
	}
	return text;
}

// Judges a table by the one judge and prints what it finds.
int check_table(const CheckedTable& options, const bench::Experiment& experiment, const bench::Table& table) {
	const auto verdicts = bench::judge(experiment, table);
	if (!verdicts) return complain(fmt::format("{}: {}", options.file, verdicts.error()));
	const auto count = [&](bench::Validity validity) {
		return std::ranges::count(*verdicts, validity, &bench::Verdict::validity);
	};
	const auto invalid = count(bench::Validity::invalid), suspect = count(bench::Validity::suspect);
	const std::string remark = experiment.remark ? experiment.remark(table) : "";
	if (options.json) {
		bench::Json rows = bench::Json::array();
		for (std::size_t i = 0; i < table.rows.size(); ++i) {
			bench::Json& row = rows.emplace_back(bench::Json::object());
			for (const bench::Column& column : experiment.columns) {
				if (column.role != bench::Role::cell) continue;
				const auto number = bench::number_of(table.rows[i], column.name);
				if (column.kind == bench::Kind::count && number)
					row[std::string(column.name)] = static_cast<std::uint64_t>(number->value);
				else row[std::string(column.name)] = bench::word_of(table.rows[i], column.name);
			}
			row["validity"] = bench::name_of((*verdicts)[i].validity);
			row["reason"] = (*verdicts)[i].reason;
		}
		fmt::print("{}\n",
			bench::Json{{"file", options.file}, {"experiment", experiment.name}, {"rows", rows}, {"remark", remark},
				{"invalid", invalid}, {"suspect", suspect}}
				.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
	} else {
		for (std::size_t i = 0; i < table.rows.size(); ++i) {
			const auto& [validity, reason] = (*verdicts)[i];
			if (validity >= bench::Validity::suspect)
				fmt::print("{:<7}  {}: {}\n", bench::name_of(validity), experiment.title(table.rows[i]), reason);
		}
		if (!remark.empty()) fmt::print("{}\n", remark);
		fmt::print("{}\n", counts_text(*verdicts));
	}
	return options.strict && invalid > 0 ? impossible_data : good;
}

int check(const CheckedTable& options) {
	std::stringstream text;
	if (options.file == "-") {
		text << std::cin.rdbuf();
	} else {
		std::ifstream file(options.file);
		if (!file || !(text << file.rdbuf()))
			return complain(fmt::format(
				"cannot read {}: {}", options.file, file ? "it is empty or not a file" : std::strerror(errno)));
	}
	const auto table = bench::read_table(text.str());
	if (!table) return complain(fmt::format("{}: {}", options.file, table.error()));
	return check_table(options, experiment_of(*table), *table);
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
	CLI::App* sub = app.add_subcommand("check", "Check whether the rows of a result table can be true");
	sub->footer(
		"Examples:\n  verbena check bench/published/rc_vs_ud.csv\n  verbena check rows.csv --strict --json\n"
		"  verbena check bench/published/connection_scale.csv\n"
		"  verbena check bench/published/kv_set_get.csv\n"
		"The columns decide whose rules apply:\n"
		"  clients, success_percent                         bench scale\n"
		"  op, protocol, value_bytes, gigabytes_per_second  bench kv\n"
		"  request_size, concurrency, gigabits_per_second,\n"
		"  p90_us, p99_us, qps                              bench rpc\n"
		"  experiment, connect, clients, count              bench connect\n"
		"  experiment, mode, msg, window, iters, mops, gib  bench rcud\n"
		"With --strict, the exit code is 3 if a row cannot be true.");
	auto options = std::make_shared<CheckedTable>();
	sub->add_option("file", options->file, "Table in CSV or JSON (- is standard input)")->required()->type_name("FILE");
	sub->add_flag("--strict", options->strict, "Exit with 3 if a row is invalid");
	sub->add_flag("--json", options->json, "Print JSON");
	sub->callback([options, &action] { action = [options] { return check(*options); }; });
}

}  // namespace verbena::tools
