// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/table_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "bench/scale/capacity.h"

namespace verbena::scale {
namespace {

using bench::Findings;
using bench::Json;
using bench::number_of;
using bench::word_of;

constexpr double threads_needed = 0.5;  // at least this part of the clients must have a thread

// The work of the clients in the published table, in the order of its rows. The table does not have
// it; the published command lines do.
struct PublishedRow {
	std::uint64_t clients, messages, stagger_ms, think_ms;
	double messages_per_second;

	std::string work() const { return fmt::format("-n {} -d {} -t {}", messages, stagger_ms, think_ms); }
};
constexpr std::array<PublishedRow, 6> published{{{10, 100, 0, 10, 924}, {100, 10, 0, 10, 6337}, {1000, 5, 5, 10, 9656},
	{5000, 2, 10, 50, 4808}, {10000, 1, 20, 100, 2462}, {20000, 1, 50, 200, 2342}}};

// Null if the row is none of the published ones.
const PublishedRow* published_row(const Json& row) {
	const auto clients = number_of(row, "clients"), rate = number_of(row, "messages_per_second");
	const auto found = std::ranges::find_if(published, [&](const PublishedRow& each) {
		return clients && rate && static_cast<double>(each.clients) == clients->value &&
			each.messages_per_second == rate->value;
	});
	return found == published.end() || row.contains("messages") ? nullptr : &*found;
}

std::string words_of(const Json& row, std::initializer_list<const char*> columns) {
	std::string text;
	for (const char* column : columns) {
		const auto number = number_of(row, column);
		text += fmt::format("{}{} {}", text.empty() ? "" : ", ", column,
			number ? fmt::format("{}", number->value) : word_of(row, column));
	}
	return text;
}

// The work of each client of the row, as text; empty if the table has no such columns.
std::string work_of(const Json& row) {
	if (!row.contains("messages")) return {};
	return words_of(row, {"messages", "think_ms", "stagger_ms", "size", "window"});
}

// The kind of the row: rows of one kind are compared with each other, also those of two transports
// or engines.
std::string kind_of(const Json& row) {
	return words_of(row, {"system", "rate", "shared_qps", "without", "stalled", "server"});
}

void examine_work(const bench::Table& table, const Json& row, Findings& findings) {
	if (const PublishedRow* known = published_row(row); known != nullptr) {
		const PublishedRow& other = known == &published.front() ? published.back() : published.front();
		findings.not_comparable(
			fmt::format("its clients did other work ({}) than those of the other rows ({} clients: {})", known->work(),
				other.clients, other.work()));
	}
	const std::string work = work_of(row), kind = kind_of(row);
	const auto other = std::ranges::find_if(table.rows, [&](const Json& each) {
		return bench::has_value(each, "messages_per_second") && kind_of(each) == kind && work_of(each) != work;
	});
	if (!work.empty() && other != table.rows.end())
		findings.not_comparable(fmt::format("its clients did other work ({}) than those of the row of {} ({})", work,
			word_of(*other, "clients"), work_of(*other)));
}

void examine_threads(const Json& row, Findings& findings) {
	const auto threads = number_of(row, "peak_threads"), clients = number_of(row, "clients");
	if (row.contains("peak_clients") || !threads || !clients || threads->value >= threads_needed * clients->value)
		return;
	findings.not_comparable(
		fmt::format("{:.0f} threads at most, although each of the {:.0f} clients has one: not all were connected "
					"at once",
			threads->value, clients->value));
}

// Makes the lines of the environment once more from the rows.
void examine_capacity(const bench::Table& table, std::span<Findings> findings) {
	const auto is_capacity = [](const auto& line) {
		return line.first.starts_with(capacity_prefix) || line.first == capacity_parts;
	};
	if (std::ranges::none_of(table.environment, is_capacity)) return;
	bench::Environment made;
	try {
		made = capacity_of(table.rows, resources_of(table.environment));
	} catch (const Json::exception&) {
		made.clear();  // the repetitions are not whole, as the rules for rows say
	}
	for (const auto& line : table.environment) {
		if (!is_capacity(line) || bench::value_of(made, line.first) == line.second) continue;
		const auto truly = bench::value_of(made, line.first);
		for (Findings& each : findings)
			each.invalid(fmt::format("the environment's {} is '{}', but the rows give '{}'", line.first, line.second,
				truly.empty() ? "nothing" : truly));
	}
}

}  // namespace

void examine_table(const bench::Table& table, std::span<Findings> findings) {
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const Json& row = table.rows[i];
		if (!bench::has_value(row, "messages_per_second")) continue;
		examine_work(table, row, findings[i]);
		examine_threads(row, findings[i]);
	}
	examine_capacity(table, findings);
}

}  // namespace verbena::scale
