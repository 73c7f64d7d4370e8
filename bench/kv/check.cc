#include "bench/kv/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/sizes.h"
#include "bench/fields.h"

namespace verbena::kvbench {
namespace {

using bench::Fields;
using bench::read_rows;

// Ratios: a row is too slow below `low`, and too fast for its protocol above `high`. `tolerance` is
// for the number of operations under way.
constexpr double low = 0.7, high = 1.5, tolerance = 1.05;

std::expected<double, std::string> number_of(const Fields& row, std::string_view name) {
	const auto found = row.find(name);
	if (found == row.end()) return std::unexpected(fmt::format("there is no column {}", name));
	double value = 0;
	const char* const end = found->second.data() + found->second.size();
	const auto [rest, error] = std::from_chars(found->second.data(), end, value);
	if (error != std::errc() || rest != end || !(value >= 0))
		return std::unexpected(fmt::format("{} is '{}'", name, found->second));
	return value;
}

// Replaces the row's verdict, unless it is invalid already.
void worsen(CheckedRow& row, std::string_view validity, std::string reason) {
	if (row.validity == "invalid" || row.validity == validity) return;
	row.validity = validity;
	row.reason = std::move(reason);
}

// The throughput at another size on the straight line through two points, on logarithmic scales.
double expected_at(const CheckedRow& a, const CheckedRow& b, double size) {
	const double slope = std::log(b.gigabytes_per_second / a.gigabytes_per_second) /
		std::log(static_cast<double>(b.value_bytes) / static_cast<double>(a.value_bytes));
	return a.gigabytes_per_second * std::pow(size / static_cast<double>(a.value_bytes), slope);
}

using Curve = std::vector<CheckedRow*>;  // by size

// Judges inner points first, so that both ends are compared with good points only. Outliers leave
// the curve.
void find_outliers(Curve& curve) {
	const auto judge = [](CheckedRow& row, const CheckedRow& a, const CheckedRow& b) {
		const double wanted = expected_at(a, b, static_cast<double>(row.value_bytes));
		if (row.gigabytes_per_second >= low * wanted) return false;
		worsen(row, "suspect",
			fmt::format("{:.1f} times slower than the curve through the sizes {} and {}",
				wanted / row.gigabytes_per_second, a.value_bytes, b.value_bytes));
		return true;
	};
	for (std::size_t i = 1; i + 1 < curve.size();) {
		if (judge(*curve[i], *curve[i - 1], *curve[i + 1])) curve.erase(curve.begin() + static_cast<std::ptrdiff_t>(i));
		else ++i;
	}
	if (curve.size() < 3) return;
	const std::size_t last = curve.size() - 1;
	if (judge(*curve[last], *curve[last - 2], *curve[last - 1])) curve.pop_back();
	if (curve.size() >= 3 && judge(*curve[0], *curve[1], *curve[2])) curve.erase(curve.begin());
}

// Compares the smallest size of rendezvous with both curves, extrapolated to it.
void find_mislabelled(const Curve& eager, Curve& rendezvous) {
	if (eager.size() < 2 || rendezvous.size() < 3) return;
	CheckedRow& first = *rendezvous.front();
	const auto size = static_cast<double>(first.value_bytes);
	if (eager.back()->value_bytes >= first.value_bytes) return;
	const double of_own = expected_at(*rendezvous[1], *rendezvous[2], size);
	const double of_eager = expected_at(*eager[eager.size() - 2], *eager.back(), size);
	const double ratio = first.gigabytes_per_second / of_eager;
	if (first.gigabytes_per_second < high * of_own || ratio < low || ratio > 1 / low) return;
	worsen(first, "mislabelled",
		fmt::format(
			"{:.1f} times the curve through the other sizes of rendezvous, and on the curve of eager: it was eager",
			first.gigabytes_per_second / of_own));
	rendezvous.erase(rendezvous.begin());
}

std::string text_at(const Fields& row, std::string_view name) {
	const auto found = row.find(name);
	return found == row.end() ? std::string() : found->second;
}

}  // namespace

bool is_kv_table(std::string_view text) {
	const std::string_view front = text.substr(0, std::min<std::size_t>(text.size(), 16'384));
	return front.find("value_bytes") != front.npos && front.find("protocol") != front.npos &&
		front.find("gigabytes_per_second") != front.npos;
}

std::expected<CheckedTable, std::string> check_table(std::string_view text) {
	const auto read = read_rows(text);
	if (!read) return std::unexpected(read.error());
	CheckedTable table;
	table.rows.reserve(read->size());
	for (std::size_t i = 0; i < read->size(); ++i) {
		const Fields& fields = (*read)[i];
		const auto size = number_of(fields, "value_bytes"), rate = number_of(fields, "gigabytes_per_second");
		for (const auto* each : {&size, &rate})
			if (!*each) return std::unexpected(fmt::format("row {}: {}", i + 1, each->error()));
		CheckedRow& row = table.rows.emplace_back(CheckedRow{.op = text_at(fields, "op"),
			.protocol = text_at(fields, "protocol"),
			.value_bytes = static_cast<std::uint64_t>(*size),
			.gigabytes_per_second = *rate});
		for (const char* name : {"proto", "form", "window", "clients", "transport", "rx_depth", "tx_depth", "warmup"})
			row.group += text_at(fields, name) + ' ';
		if (const std::string brought = text_at(fields, "validity"); !brought.empty() && brought != "valid")
			worsen(row, brought, text_at(fields, "reason"));
		if (*rate <= 0 || *size < 1) {
			worsen(row, "invalid", "the size and the rate must be above 0");
			continue;
		}
		const auto operations = number_of(fields, "operations_per_second"), depth = number_of(fields, "depth");
		const auto window = number_of(fields, "window"), clients = number_of(fields, "clients");
		if (operations && std::abs(*operations * *size / 1e9 - *rate) > 0.001 * *rate)
			worsen(row, "invalid", "gigabytes per second are not operations per second times bytes");
		if (depth && window && clients && *depth > *window * *clients * tolerance)
			worsen(row, "invalid", "more operations under way than the window allows");
	}

	std::map<std::string, std::map<std::string, Curve>> curves;
	std::map<std::string, std::set<std::string>> protocols;
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		CheckedRow& row = table.rows[i];
		// Rows of a sweep over another parameter have one size, so they form no curve.
		if (row.validity == "invalid" || !text_at((*read)[i], "varied").empty()) continue;
		curves[row.op + ' ' + row.group][row.protocol].push_back(&row);
		protocols[fmt::format("{} {}", row.op, row.value_bytes)].insert(row.protocol);
	}
	for (auto& [name, by_protocol] : curves) {
		for (auto& [protocol, curve] : by_protocol) std::ranges::sort(curve, {}, &CheckedRow::value_bytes);
		// The order matters: each step compares rows with curves that have no outliers any more.
		find_outliers(by_protocol["eager"]);
		find_mislabelled(by_protocol["eager"], by_protocol["rendezvous"]);
		for (auto& [protocol, curve] : by_protocol)
			if (protocol != "eager") find_outliers(curve);
	}
	const auto both = std::ranges::count_if(protocols, [](const auto& each) { return each.second.size() > 1; });
	if (both == 0) table.remarks.push_back("no size has both protocols, so the table cannot show which one is faster");
	return table;
}

}  // namespace verbena::kvbench
