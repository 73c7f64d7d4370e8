// SPDX-License-Identifier: Apache-2.0
// verbena check FILE: reads a result table, ours or a published one, and judges whether each row
// can be true. The columns decide which experiment's rules apply.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "bench/connect/rows.h"
#include "bench/judge/judge.h"
#include "bench/judge/kind.h"
#include "bench/kv/rows.h"
#include "bench/rcud/rows.h"
#include "bench/rpc/rows.h"
#include "bench/scale/rows.h"
#include "bench/table/file.h"
#include "bench/table/table.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

// A title has words of the file.
constexpr std::size_t title_bytes_max = 200;

struct CheckedTable {
	std::string file;
	bool strict = false;
	bool json = false;
	bool table = false;
	std::size_t rows_max = std::numeric_limits<std::size_t>::max();
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

auto number_of_rows(std::span<const bench::Verdict> verdicts, bench::Validity validity) {
	return std::ranges::count(verdicts, validity, &bench::Verdict::validity);
}

// "3 rows: 1 invalid, 0 suspect"; the other verdicts follow if a row has them.
std::string counts_text(std::span<const bench::Verdict> verdicts) {
	using bench::Validity;
	std::string text = fmt::format("{} rows:", verdicts.size());
	for (const Validity each :
		{Validity::invalid, Validity::suspect, Validity::not_comparable, Validity::mislabelled}) {
		const auto count = number_of_rows(verdicts, each);
		if (count > 0 || each == Validity::invalid || each == Validity::suspect)
			text += fmt::format("{} {} {}", text.ends_with(':') ? "" : ",", count, bench::name_of(each));
	}
	return text;
}

// A value as the judge reads it: a figure as a number, a word as its text, a list as it is. Null if
// there is none, and for a figure that is no number. A list is moved out of the row.
bench::Json value_as_judged(bench::Json& row, const bench::Column& column) {
	if (!bench::has_value(row, column.name)) return nullptr;
	if (column.kind == bench::Kind::word) return bench::word_of(row, column.name);
	if (column.kind == bench::Kind::list) {
		bench::Json& list = row[std::string(column.name)];
		return list.is_array() ? std::move(list) : bench::Json();
	}
	const auto number = bench::number_of(row, column.name);
	return number ? bench::Json(number->value) : bench::Json();
}

// The row's values by column, and half a unit of the last printed digit of each figure that does
// not follow from repetitions.
void add_values(bench::Json& document, const bench::Experiment& experiment, bench::Json& row) {
	const bool is_rounded = !bench::has_value(row, "repetitions");
	bench::Json& values = document["values"] = bench::Json::object();
	for (const bench::Column& column : experiment.columns) {
		if (column.role == bench::Role::verdict) continue;
		if (is_rounded && column.role == bench::Role::result)
			if (const auto number = bench::number_of(row, column.name); number && std::isfinite(number->rounding))
				document["rounding"][std::string(column.name)] = number->rounding;
		if (bench::Json value = value_as_judged(row, column); !value.is_null())
			values[std::string(column.name)] = std::move(value);
	}
}

// The verdict on a row and the columns of its cell, by which a reader finds it.
bench::Json document_of(const bench::Experiment& experiment, const bench::Json& row, const bench::Verdict& verdict) {
	bench::Json document = bench::Json::object();
	for (const bench::Column& column : experiment.columns) {
		if (column.role != bench::Role::cell) continue;
		const auto number = bench::number_of(row, column.name);
		if (column.kind == bench::Kind::count && number)
			document[std::string(column.name)] = static_cast<std::uint64_t>(number->value);
		else document[std::string(column.name)] = bench::word_of(row, column.name);
	}
	document["validity"] = bench::name_of(verdict.validity);
	document["reason"] = verdict.reason;
	return document;
}

void print_json(const CheckedTable& options, const bench::Experiment& experiment, bench::Table& table,
	std::string_view kind, std::span<const bench::Verdict> verdicts) {
	bench::Json document{{"file", options.file}, {"experiment", experiment.name}, {"kind", kind},
		{"rows", bench::Json::array()}, {"remark", bench::remark_on(experiment, table)},
		{"invalid", number_of_rows(verdicts, bench::Validity::invalid)},
		{"suspect", number_of_rows(verdicts, bench::Validity::suspect)}};
	if (options.table) {
		bench::Json& cell = document["cell"] = bench::Json::array();
		for (const bench::Column& column : experiment.columns)
			if (column.role == bench::Role::cell) cell.push_back(column.name);
		bench::Json& environment = document["environment"] = bench::Json::object();
		for (const auto& [key, value] : table.environment) environment[key] = value;
	}
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		bench::Json& row = document["rows"].emplace_back(document_of(experiment, table.rows[i], verdicts[i]));
		if (options.table) add_values(row, experiment, table.rows[i]);
	}
	// Indented, a histogram would have a line for each of its numbers.
	const int indentation = options.table ? -1 : 2;
	fmt::print("{}\n", document.dump(indentation, ' ', false, bench::Json::error_handler_t::replace));
}

void print_findings(
	const bench::Experiment& experiment, const bench::Table& table, std::span<const bench::Verdict> verdicts) {
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const auto& [validity, reason] = verdicts[i];
		if (validity >= bench::Validity::suspect)
			fmt::print("{:<7}  {}: {}\n", bench::name_of(validity),
				bench::printable(bench::shortened(experiment.title(table.rows[i]), title_bytes_max)),
				bench::printable(reason));
	}
	if (const std::string remark = bench::remark_on(experiment, table); !remark.empty())
		fmt::print("{}\n", bench::printable(remark));
	fmt::print("{}\n", counts_text(verdicts));
}

// Judges a table by the one judge and prints what it finds.
int check_table(const CheckedTable& options, const bench::Experiment& experiment, bench::Table& table) {
	const auto verdicts = bench::judge(experiment, table);
	const std::string file = bench::printable(options.file);
	if (!verdicts) return complain(fmt::format("{}: {}", file, bench::printable(verdicts.error())));
	const auto kind = bench::kind_of(table);
	if (!kind) return complain(fmt::format("{}: {}", file, bench::printable(kind.error())));
	if (options.json) print_json(options, experiment, table, *kind, *verdicts);
	else print_findings(experiment, table, *verdicts);
	return options.strict && number_of_rows(*verdicts, bench::Validity::invalid) > 0 ? impossible_data : good;
}

int check(const CheckedTable& options) {
	const std::string file = bench::printable(options.file);
	const auto text = bench::text_of_file(options.file);
	if (!text) return complain(fmt::format("cannot read {}: {}", file, text.error()));
	auto table = bench::read_table(*text);
	if (!table) return complain(fmt::format("{}: {}", file, bench::printable(table.error())));
	if (table->rows.size() > options.rows_max)
		return complain(fmt::format("{}: more than {} rows: name a part of them", file, options.rows_max));
	return check_table(options, experiment_of(*table), *table);
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
	CLI::App* sub = add_command(app, "check", "Check whether the rows of a result table can be true");
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
	CLI::Option* const json = sub->add_flag("--json", options->json, "Print JSON");
	sub->add_flag("--table", options->table, "Print the environment and the values of each row too")->needs(json);
	sub->add_option("--rows-max", options->rows_max, "Refuse a table of more rows")
		->type_name("N")
		->check(CLI::Range(0, 1'000'000'000));
	sub->callback([options, &action] { action = [options] { return check(*options); }; });
}

}  // namespace verbena::tools
