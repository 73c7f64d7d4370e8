// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/texts.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "bench/kv/rows.h"

namespace verbena::kvbench {
namespace {

using bench::Json;
using bench::Number;
using bench::number_of;
using bench::word_of;

double rate_of(const Json& row, const char* end = "") {
	return number_of(row, fmt::format("gigabytes_per_second{}", end)).value_or(Number{}).value;
}

std::uint64_t size_of(const Json& row) {
	return static_cast<std::uint64_t>(number_of(row, "value_bytes").value_or(Number{}).value);
}

// The rows of eager and of the forms of rendezvous, by size and way.
using BySize = std::map<std::uint64_t, std::map<std::string, const Json*>>;

// Compares eager and one form of rendezvous in one group of rows.
std::string crossover_of(const std::string& group, const std::string& name, const BySize& sizes) {
	std::string text = fmt::format("{}: eager against {} (GB/s, with 95 % intervals)\n", group, name);
	// The smallest size from which on rendezvous is faster at every size; 0: none so far.
	std::uint64_t from = 0;
	for (const auto& [size, ways] : sizes) {
		if (!ways.contains("eager") || !ways.contains(name)) continue;
		const Json &eager = *ways.at("eager"), &other = *ways.at(name);
		const bool apart =
			rate_of(eager, "_high") < rate_of(other, "_low") || rate_of(other, "_high") < rate_of(eager, "_low");
		const bool ahead = rate_of(other) > rate_of(eager);
		text += fmt::format("  {:>8}  {:9.6f} [{:.6f}, {:.6f}]  {:9.6f} [{:.6f}, {:.6f}]  {}\n", bytes_text(size),
			rate_of(eager), rate_of(eager, "_low"), rate_of(eager, "_high"), rate_of(other), rate_of(other, "_low"),
			rate_of(other, "_high"),
			!apart      ? "no significant difference"
				: ahead ? name
						: "eager");
		if (!ahead) from = 0;
		else if (from == 0 && apart) from = size;
	}
	return text +
		(from > 0 ? fmt::format("  {} is ahead from {} on: --eager-max {}\n", name, bytes_text(from), from)
				  : fmt::format("  {} is not ahead at the largest sizes measured\n", name));
}

}  // namespace

std::string to_published(const bench::Table& table, std::span<const bench::Column>) {
	std::string text;
	for (const std::string op : {"SET", "GET"}) {
		std::string of_op;
		for (const std::string protocol : {"eager", "rendezvous"}) {
			std::string lines;
			for (const Json& row : table.rows)
				if (word_of(row, "op") == op && word_of(row, "protocol") == protocol)
					lines += fmt::format("{}\t{:.6f}\tGigabytes/Second\n", size_of(row), rate_of(row));
			if (!lines.empty())
				of_op += fmt::format("{} Protocol\n{}", protocol == "eager" ? "Eager" : "Rendezvous", lines);
		}
		if (!of_op.empty()) text += fmt::format("{} THROUGHPUT MEASURE\n{}", op, of_op);
	}
	return text;
}

std::string to_crossover(const bench::Table& table, std::span<const bench::Column>) {
	std::map<std::string, BySize> groups;
	for (const Json& row : table.rows) {
		const std::string proto = word_of(row, "proto");
		if ((proto != "eager" && proto != "rendezvous") || word_of(row, "validity") == "invalid") continue;
		const std::string group =
			fmt::format("{} window {} clients {}", word_of(row, "op"), word_of(row, "window"), word_of(row, "clients"));
		groups[group][size_of(row)][word_of(row, "form") == "write" ? proto + " by write" : proto] = &row;
	}
	std::string text;
	for (const auto& [group, sizes] : groups) {
		std::set<std::string> names;
		for (const auto& [size, ways] : sizes)
			for (const auto& [name, row] : ways)
				if (name != "eager") names.insert(name);
		for (const std::string& name : names) text += crossover_of(group, name, sizes);
	}
	return text;
}

}  // namespace verbena::kvbench
