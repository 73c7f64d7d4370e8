#include "bench/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/time.h"
#include "bench/judge/judge.h"
#include "bench/sweep/interruption.h"
#include "bench/sweep/progress_line.h"
#include "bench/table/table.h"

namespace verbena::bench {
namespace {

constexpr Nanoseconds between_writes = 1'000'000'000;
// A large table takes long to judge and to write. At most this part of a sweep's time is spent so.
constexpr Nanoseconds write_part = 20;

struct Planned {
	Trial& trial;
	Json repetitions = Json::array();
	bool failed = false;

	bool wants(std::uint32_t repetition) const {
		return trial.can_run() && !failed && repetitions.size() <= repetition;
	}
};

// Whether a row is of the wanted cell. A column that follows from the repetitions although it names
// the cell is not in `wanted`, which has none.
bool same_cell(const Experiment& experiment, const Json& row, const Json& wanted) {
	return std::ranges::all_of(experiment.columns, [&](const Column& column) {
		return column.role != Role::cell || !wanted.contains(column.name) ||
			word_of(row, column.name) == word_of(wanted, column.name);
	});
}

// Takes the repetitions that did not fail from an earlier table.
std::expected<void, std::string> take_earlier(const Experiment& experiment, const std::string& path,
	const Environment& environment, std::uint32_t most, std::vector<Planned>& plans) {
	std::ifstream file(path);
	std::stringstream text;
	if (!file || !(text << file.rdbuf()))
		return std::unexpected(
			fmt::format("cannot read {}: {}", path, file ? "it is empty or not a file" : std::strerror(errno)));
	const auto earlier = read_table(text.str());
	if (!earlier) return std::unexpected(fmt::format("{}: {}", path, earlier.error()));
	for (const char* name : {"settings", "device", "link", "connect", "commit"})
		if (const auto then = value_of(earlier->environment, name), now = value_of(environment, name); then != now)
			return std::unexpected(
				fmt::format("{} cannot be resumed: its {} was '{}' and is '{}' now", path, name, then, now));
	const auto verdicts = judge(experiment, *earlier);
	if (!verdicts) return std::unexpected(fmt::format("{}: {}", path, verdicts.error()));
	for (Planned& each : plans) {
		const Json wanted = each.trial.row(Json::array());
		for (std::size_t i = 0; i < earlier->rows.size(); ++i) {
			const Json& row = earlier->rows[i];
			if (!same_cell(experiment, row, wanted) || !row.contains("repetitions")) continue;
			if ((*verdicts)[i].validity == Validity::invalid) continue;  // it is measured anew
			for (const Json& repetition : row["repetitions"])
				if (each.repetitions.size() < most) each.repetitions.push_back(repetition);
		}
	}
	return {};
}

class Sweep {
public:
	Sweep(const Experiment& experiment, const DescribeEnvironment& describe, const SweepOptions& options,
		OutputFiles& files, std::vector<Planned>& plans)
		: experiment_(experiment), describe_(describe), options_(options), files_(files), plans_(plans) {}

	SweepEnd run() {
		const std::size_t all = wanted();
		ProgressLine progress(!options_.quiet, all);
		Interruption interruption;
		Nanoseconds next_write = monotonic_now() + between_writes;
		bool lost = false;
		for (std::uint32_t repetition = 0; repetition < options_.repetitions && !lost && !end_.interrupted;
			++repetition)
			for (Planned& each : plans_) {
				if (!each.wants(repetition)) continue;
				if (interruption.asked()) {
					end_.interrupted = true;
					break;
				}
				progress.next(
					fmt::format("{}, repetition {}", experiment_.title(each.trial.row(Json::array())), repetition + 1));
				Measured measured = each.trial.measure([&](const std::string& step) { progress.show(step); });
				each.failed = measured.failed;
				each.repetitions.push_back(std::move(measured.repetition));
				end_.failed |= measured.failed;
				lost = measured.far_end_lost;
				if (lost) break;
				const Nanoseconds now = monotonic_now();
				if (now < next_write || wanted() == 0) continue;
				make_table();
				if (auto done = files_.write_so_far(end_.table); !done) {
					end_.error = done.error();
					return std::move(end_);
				}
				next_write = monotonic_now() + std::max(between_writes, (monotonic_now() - now) * (write_part - 1));
			}
		end_.interrupted |= interruption.asked() && wanted() > 0;
		make_table();
		if (auto done = files_.write_last(end_.table); !done) end_.error = done.error();
		return std::move(end_);
	}

private:
	// Repetitions that are still to be measured.
	std::size_t wanted() const {
		std::size_t count = 0;
		for (const Planned& each : plans_)
			if (each.wants(static_cast<std::uint32_t>(each.repetitions.size())))
				count += options_.repetitions - std::min<std::size_t>(options_.repetitions, each.repetitions.size());
		return count;
	}

	void make_table() {
		end_.table.rows.clear();
		for (const Planned& each : plans_)
			if (!each.trial.can_run() || !each.repetitions.empty())
				end_.table.rows.push_back(each.trial.row(each.repetitions));
		end_.table.environment = describe_(end_.table.rows);
		if (const std::size_t left = wanted(); left > 0)
			end_.table.environment.emplace_back("unfinished", fmt::format("{} repetitions were not measured", left));
		judge_measured(experiment_, end_.table);
	}

	const Experiment& experiment_;
	const DescribeEnvironment& describe_;
	const SweepOptions& options_;
	OutputFiles& files_;
	std::vector<Planned>& plans_;
	SweepEnd end_;
};

}  // namespace

SweepEnd sweep(const Experiment& experiment, std::span<const std::unique_ptr<Trial>> trials,
	const DescribeEnvironment& describe, const SweepOptions& options, OutputFiles& files) {
	std::vector<Planned> plans;
	for (const auto& trial : trials) plans.push_back({.trial = *trial});
	if (!options.resume.empty())
		if (auto taken = take_earlier(experiment, options.resume, describe({}), options.repetitions, plans); !taken)
			return {.error = taken.error()};
	return Sweep(experiment, describe, options, files, plans).run();
}

}  // namespace verbena::bench
