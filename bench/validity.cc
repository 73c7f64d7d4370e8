#include "bench/validity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/table.h"

namespace verbena::bench {
namespace {

constexpr std::uint64_t largest_mtu = 4096;
constexpr double loss_tolerated = 0.01;

struct Finding {
	const char* validity = "valid";
	std::string reason;
};

Finding invalid(std::string reason) { return {"invalid", std::move(reason)}; }

Finding check_arithmetic(const Row& row) {
	if (!row.mops || !row.gib) return invalid("no rate");
	const double expected = gib_of(*row.mops, row.msg);
	// Our own numbers are printed in full precision and have no rounding; allow a millionth for the
	// text form.
	const double tolerance = row.gib_rounding + gib_of(row.mops_rounding, row.msg) + 1e-6 * expected;
	if (std::abs(*row.gib - expected) <= tolerance) return {};
	return invalid(fmt::format("gib {} is not mops * msg / 2^30 = {}", three_digits(*row.gib), three_digits(expected)));
}

Finding check_mtu(const Row& row) {
	const std::uint64_t mtu = row.mtu.value_or(largest_mtu);
	if (row.mode != "UD" || row.msg <= mtu || row.delivered == 0u) return {};
	return invalid(
		fmt::format("UD message of {} B is larger than the MTU of {} B: such a send emits nothing", row.msg, mtu));
}

Finding check_account(const Row& row) {
	if (!row.delivered) return {};
	if (*row.delivered == 0) {
		if (row.mode == "UD" && row.msg > row.mtu.value_or(largest_mtu))
			return invalid(fmt::format("nothing delivered: UD message of {} B is larger than the MTU of {} B", row.msg,
				row.mtu.value_or(largest_mtu)));
		return invalid("nothing delivered");
	}
	if (row.posted) {
		if (*row.delivered > *row.posted)
			return invalid(fmt::format("{} delivered of {} posted", *row.delivered, *row.posted));
		if (row.completed && *row.completed > *row.posted)
			return invalid(fmt::format("{} completed of {} posted", *row.completed, *row.posted));
		if (row.lost && *row.delivered + *row.lost != *row.posted)
			return invalid(
				fmt::format("{} delivered + {} lost is not {} posted", *row.delivered, *row.lost, *row.posted));
	}
	// A repetition that failed has given its reason already, and the messages that were in flight
	// then were not lost by the transport.
	if (row.validity == "invalid" && row.mops == 0.0) return {};
	if (row.mode == "RC" && row.lost.value_or(0) > 0) return invalid(fmt::format("RC lost {} messages", *row.lost));
	if (row.mode == "RC" && row.duplicated.value_or(0) > 0)
		return invalid(fmt::format("RC duplicated {} messages", *row.duplicated));
	if (row.mops && row.mops_low && row.mops_high &&
		(*row.mops < *row.mops_low * (1 - 1e-9) || *row.mops > *row.mops_high * (1 + 1e-9)))
		return invalid("mops is outside of its own interval");
	if (row.lost.value_or(0) == 0) return {};
	const std::uint64_t posted = row.posted.value_or(*row.delivered + *row.lost);
	const double share = static_cast<double>(*row.lost) / static_cast<double>(posted);
	const std::string lost = fmt::format("{} of {} lost", *row.lost, posted);
	if (share <= loss_tolerated) return {"valid", lost};
	return {"suspect",
		fmt::format("{} ({} %): the receiver did not keep up, so this is the rate of the messages that found a receive",
			lost, three_digits(100 * share))};
}

Finding check_littles_law(const Row& row) {
	if (!row.mops || !row.p50_us) return {};
	const double in_flight = *row.mops * *row.p50_us;
	if (in_flight <= 2.0 * static_cast<double>(row.window)) return {};
	return {"suspect",
		fmt::format(
			"mops * p50 gives {} messages in flight, but the window is {}", three_digits(in_flight), row.window)};
}

// The plateau of RC in GiB/s among the rows that are measured like `like`: the rate that no longer
// grows with the message size. 0 if there is none.
double rc_plateau(std::span<const Row> rows, const Row& like) {
	std::vector<const Row*> rc;
	for (const Row& row : rows)
		if (row.mode == "RC" && row.window == like.window && row.op == like.op && row.window_mode == like.window_mode &&
			row.device == like.device && row.gib)
			rc.push_back(&row);
	if (rc.size() < 2) return 0;
	std::ranges::sort(rc, {}, &Row::msg);
	const double last = *rc.back()->gib;
	const double before = *rc[rc.size() - 2]->gib;
	if (std::abs(last - before) >= 0.1 * std::max(last, before)) return 0;
	return *(*std::ranges::max_element(rc, {}, [](const Row* row) { return *row->gib; }))->gib;
}

Finding check_plateau(const Row& row, std::span<const Row> rows) {
	if (!row.mode.starts_with("UD") || !row.gib) return {};
	if (row.device.starts_with("vb_") && row.delivered) return {};
	const double plateau = rc_plateau(rows, row);
	if (plateau == 0 || *row.gib <= 1.02 * plateau) return {};
	return {"suspect",
		fmt::format("{} GiB/s is above the plateau of {} GiB/s that RC reaches at window {}", three_digits(*row.gib),
			three_digits(plateau), row.window)};
}

int severity(std::string_view validity) { return validity == "invalid" ? 2 : validity == "suspect" ? 1 : 0; }

Finding verdict(const Row& row, std::span<const Row> rows) {
	Finding worst;
	for (const Finding& finding :
		{check_account(row), check_mtu(row), check_arithmetic(row), check_plateau(row, rows), check_littles_law(row)}) {
		if (severity(finding.validity) > severity(worst.validity)) worst.validity = finding.validity;
		if (finding.reason.empty()) continue;
		worst.reason += (worst.reason.empty() ? "" : "; ") + finding.reason;
	}
	return worst;
}

}  // namespace

void judge(std::span<Row> rows) {
	std::vector<Finding> findings;
	for (const Row& row : rows) findings.push_back(verdict(row, rows));
	for (std::size_t i = 0; i < rows.size(); ++i) {
		Row& row = rows[i];
		if (row.validity == "n/a" && !row.mops && !row.gib) continue;
		if (row.validity.empty() || row.validity == "n/a" || severity(findings[i].validity) > severity(row.validity))
			row.validity = findings[i].validity;
		const std::string& reason = findings[i].reason;
		if (!reason.empty() && row.reason.find(reason) == row.reason.npos)
			row.reason += (row.reason.empty() ? "" : "; ") + reason;
	}
}

}  // namespace verbena::bench
