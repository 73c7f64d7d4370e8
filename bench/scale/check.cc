#include "bench/scale/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/sizes.h"
#include "bench/fields.h"

namespace verbena::scale {
namespace {

using bench::Fields;
using bench::read_rows;

constexpr double tolerance = 1.05;  // for means of measured times, and for printed digits
constexpr double threads_needed = 0.5;  // at least this part of the clients must have a thread

// The work of the clients in the published table, in the order of its rows. The table does not have
// it; the published command lines do.
struct PublishedRow {
	std::uint64_t clients, messages, stagger_ms, think_ms;
	double messages_per_second;
};
constexpr std::array<PublishedRow, 6> published{{{10, 100, 0, 10, 924}, {100, 10, 0, 10, 6337}, {1000, 5, 5, 10, 9656},
	{5000, 2, 10, 50, 4808}, {10000, 1, 20, 100, 2462}, {20000, 1, 50, 200, 2342}}};

std::string text_of(const Fields& row, std::string_view name) {
	const auto found = row.find(name);
	return found == row.end() ? "" : found->second;
}

std::optional<double> number_of(const Fields& row, std::string_view name) {
	const std::string text = text_of(row, name);
	double number = 0;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
	return number;
}

// The reason why the row cannot be true; empty if it can.
std::string impossible(const Fields& row, double clients) {
	const auto success = number_of(row, "success_percent"), rate = number_of(row, "messages_per_second");
	const auto latency = number_of(row, "avg_latency_ms"), peak = number_of(row, "peak_clients");
	if (success && (*success < 0 || *success > 100)) return fmt::format("{} % of the clients succeeded", *success);
	if (peak && success && *success == 100 && *peak != clients)
		return fmt::format("the server had {:.0f} clients at once, but {:.0f} had connected", *peak, clients);
	if (const auto labels = number_of(row, "distinct_ids"); labels && success && *success == 100 && *labels != clients)
		return fmt::format("the server counted {:.0f} different logical clients instead of {:.0f}", *labels, clients);
	const auto own = number_of(row, "server_echoes"), theirs = number_of(row, "client_echoes");
	if (own && theirs && *own > 0 && success && *success == 100 && *own != *theirs)
		return fmt::format("the server counted {:.0f} echoes, but the clients verified {:.0f}", *own, *theirs);
	// Little's law holds for each repetition, but not for the medians of rate and latency over all
	// of them. The slowest repetition has the longest latency, so use its rate with the median
	// latency.
	const auto slowest = number_of(row, "messages_per_second_low");
	const double under_way = std::min(rate.value_or(0), slowest.value_or(rate.value_or(0))) * latency.value_or(0) / 1e3;
	const double most = clients * number_of(row, "window").value_or(1);
	if (number_of(row, "rate").value_or(0) == 0 && under_way > most * tolerance)
		return fmt::format("{:.1f} messages under way on average, but the windows allow {:.0f}", under_way, most);
	for (const std::string name : {"connect", "latency"}) {
		const auto half = number_of(row, name + "_p50_ms"), most_of = number_of(row, name + "_p99_ms"),
				   max = number_of(row, name + "_max_ms");
		if (half && most_of && max && !(*half <= *most_of && *most_of <= *max))
			return name + " percentiles are not in ascending order";
	}
	return {};
}

// The work of each client of the row, as text; empty if the table has no such columns.
std::string work_of(const Fields& row) {
	if (!row.contains("messages")) return {};
	std::string work;
	for (const char* name : {"messages", "think_ms", "stagger_ms", "size", "window"})
		work += fmt::format("{}{} {}", work.empty() ? "" : ", ", name, text_of(row, name));
	return work;
}

const PublishedRow* published_row(const Fields& row, double clients) {
	const auto rate = number_of(row, "messages_per_second");
	const auto found = std::ranges::find_if(published, [&](const PublishedRow& each) {
		return static_cast<double>(each.clients) == clients && rate && *rate == each.messages_per_second;
	});
	return found == published.end() ? nullptr : &*found;
}

// The reasons why the row cannot be compared with the others; empty if there are none.
std::string not_comparable(const std::vector<Fields>& rows, const Fields& row, double clients) {
	std::string reason;
	const auto add = [&](const std::string& text) { reason += (reason.empty() ? "" : "; ") + text; };
	if (const PublishedRow* known = published_row(row, clients); known != nullptr && !row.contains("messages")) {
		const auto line = [](const PublishedRow& of) {
			return fmt::format("-n {} -d {} -t {}", of.messages, of.stagger_ms, of.think_ms);
		};
		const PublishedRow& other = known == &published.front() ? published.back() : published.front();
		add(fmt::format("its clients did other work ({}) than those of the other rows ({} clients: {})", line(*known),
			other.clients, line(other)));
	}
	const std::string work = work_of(row);
	const auto other = std::ranges::find_if(rows, [&](const Fields& each) {
		return text_of(each, "transport") == text_of(row, "transport") &&
			text_of(each, "rate") == text_of(row, "rate") &&
			text_of(each, "shared_qps") == text_of(row, "shared_qps") &&
			text_of(each, "without") == text_of(row, "without") &&
			text_of(each, "connect") == text_of(row, "connect") && text_of(each, "engine") == text_of(row, "engine") &&
			work_of(each) != work;
	});
	if (!work.empty() && other != rows.end())
		add(fmt::format("its clients did other work ({}) than those of the row of {} ({})", work,
			text_of(*other, "clients"), work_of(*other)));
	const auto threads = number_of(row, "peak_threads");
	if (!row.contains("peak_clients") && threads && *threads < threads_needed * clients)
		add(
			fmt::format("{:.0f} threads at most, although each of the {:.0f} clients has one: not all were connected "
						"at once",
				*threads, clients));
	return reason;
}

}  // namespace

bool is_scale_table(std::string_view text) {
	const auto rows = read_rows(text);
	return rows && !rows->empty() && rows->front().contains("clients") && rows->front().contains("success_percent");
}

std::expected<std::vector<CheckedRow>, std::string> check_table(std::string_view text) {
	const auto rows = read_rows(text);
	if (!rows) return std::unexpected(rows.error());
	if (rows->empty()) return std::unexpected("no rows");
	std::vector<CheckedRow> checked;
	for (std::size_t i = 0; i < rows->size(); ++i) {
		const Fields& row = (*rows)[i];
		const auto clients = number_of(row, "clients");
		if (!clients || *clients < 1)
			return std::unexpected(fmt::format("row {}: column clients has no number of 1 or more", i + 1));
		CheckedRow& out = checked.emplace_back(CheckedRow{.transport = text_of(row, "transport"),
			.clients = static_cast<std::uint64_t>(*clients),
			.rate = number_of(row, "rate").value_or(0),
			.validity = text_of(row, "validity"),
			.reason = text_of(row, "reason")});
		if (out.validity == "n/a" || out.validity == "invalid") continue;
		if (const std::string why = impossible(row, *clients); !why.empty()) {
			out.validity = "invalid";
			out.reason = why;
		} else if (const std::string apart = not_comparable(*rows, row, *clients); !apart.empty()) {
			out.validity = "not comparable";
			out.reason = apart;
		} else if (out.validity.empty()) {
			out.validity = "valid";
		}
	}
	return checked;
}

}  // namespace verbena::scale
