// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/time.h"
#include "bench/judge/distance.h"
#include "bench/judge/judge.h"
#include "bench/sweep/interruption.h"
#include "bench/sweep/progress_line.h"
#include "bench/sweep/write_pace.h"
#include "bench/table/file.h"
#include "bench/table/table.h"

namespace verbena::bench {
namespace {

// A trial is measured at most this many times as often as asked for.
constexpr std::uint32_t times_most = 2;

struct Planned {
	Trial& trial;
	Json repetitions = Json::array();
	bool failed = false;

	// Repetitions that are missing.
	std::size_t lacks(std::size_t all) const {
		return is_measured() ? all - std::min<std::size_t>(all, repetitions.size()) : 0;
	}
	bool is_measured() const { return trial.can_run() && !failed; }
	std::size_t at(double distance_ns) const {
		return static_cast<std::size_t>(
			std::ranges::count_if(repetitions, [&](const Json& each) { return is_at(each, distance_ns); }));
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
	const auto text = text_of_file(path);
	if (!text) return std::unexpected(fmt::format("cannot read {}: {}", path, text.error()));
	const auto earlier = read_table(*text);
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
			for (const char* list : {"repetitions", "apart"})
				for (const Json& repetition : row.value(list, Json::array()))
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
		Interruption interruption;
		{
			ProgressLine progress(!options_.quiet, wanted());
			for (std::uint32_t i = 1; i <= options_.repetitions; ++i) pass(interruption, progress, i);
		}
		// All trials are measured equally often, so that none can lose a repetition unnoticed.
		while (!is_over_ && goal_ < times_most * options_.repetitions && lacks_some()) {
			++goal_;
			ProgressLine progress(!options_.quiet, wanted());
			pass(interruption, progress, goal_);
		}
		if (!end_.error.empty()) return std::move(end_);
		make_table(is_over_ ? wanted() : 0);
		if (auto done = files_.write_last(end_.table); !done) end_.error = done.error();
		return std::move(end_);
	}

private:
	// Measures each trial that has less than `all` repetitions once, unless the sweep is over
	// before.
	void pass(const Interruption& interruption, ProgressLine& progress, std::size_t all) {
		for (Planned& each : plans_) {
			if (is_over_ || each.lacks(all) == 0) continue;
			if (interruption.asked()) {
				end_.interrupted = is_over_ = true;
				return;
			}
			progress.next(fmt::format(
				"{}, repetition {}", experiment_.title(each.trial.row(Json::array())), each.repetitions.size() + 1));
			Measured measured = each.trial.measure([&](const std::string& step) { progress.show(step); });
			each.failed = measured.failed;
			each.repetitions.push_back(std::move(measured.repetition));
			end_.failed |= measured.failed;
			is_over_ = measured.far_end_lost;
			if (!is_over_) write_now_and_then();
		}
	}

	void write_now_and_then() {
		const Nanoseconds now = monotonic_now();
		if (!pace_.is_due(now) || wanted() == 0) return;
		make_table(wanted());
		if (auto done = files_.write_so_far(end_.table); !done) {
			end_.error = done.error();
			is_over_ = true;
		}
		pace_.wrote(now, monotonic_now());
	}

	double distance_ns() const {
		std::vector<double> all;
		for (const Planned& each : plans_)
			for (const Json& repetition : each.repetitions)
				for (const double trip : distances_in(repetition)) all.push_back(trip);
		return common_distance(std::move(all));
	}

	// Repetitions that are still to be measured.
	std::size_t wanted() const {
		std::size_t count = 0;
		for (const Planned& each : plans_) count += each.lacks(goal_);
		return count;
	}

	// Whether a further pass is of use: a trial has too few repetitions at the distance of the
	// sweep, or an earlier sweep was ended in the middle of such a pass.
	bool lacks_some() const {
		if (options_.repetitions < repetitions_of_interval) return false;
		const double distance = distance_ns();
		return std::ranges::any_of(plans_, [&](const Planned& each) {
			return each.is_measured() && (each.at(distance) < options_.repetitions || each.repetitions.size() > goal_);
		});
	}

	// `unmeasured`: repetitions that the table lacks.
	void make_table(std::size_t unmeasured) {
		end_.table.rows.clear();
		const double distance = distance_ns();
		for (const Planned& each : plans_) {
			if (each.trial.can_run() && each.repetitions.empty()) continue;
			auto [together, apart] = part(each.repetitions, distance, options_.repetitions);
			end_.table.rows.push_back(each.trial.row(std::move(together)));
			end_.table.rows.back()["apart"] = std::move(apart);
		}
		end_.table.environment = describe_(end_.table.rows);
		if (distance > 0) end_.table.environment.emplace_back(distance_key, text_of(distance));
		if (unmeasured > 0)
			end_.table.environment.emplace_back(
				"unfinished", fmt::format("{} repetitions were not measured", unmeasured));
		judge_measured(experiment_, end_.table);
	}

	const Experiment& experiment_;
	const DescribeEnvironment& describe_;
	const SweepOptions& options_;
	OutputFiles& files_;
	std::vector<Planned>& plans_;
	WritePace pace_{monotonic_now()};
	std::size_t goal_ = options_.repetitions;  // repetitions of each trial, apart or not
	bool is_over_ = false;  // interrupted, the far end lost, or a file not written
	SweepEnd end_;
};

}  // namespace

SweepEnd sweep(const Experiment& experiment, std::span<const std::unique_ptr<Trial>> trials,
	const DescribeEnvironment& describe, const SweepOptions& options, OutputFiles& files) {
	std::vector<Planned> plans;
	for (const auto& trial : trials) plans.push_back({.trial = *trial});
	if (!options.resume.empty())
		if (auto taken =
				take_earlier(experiment, options.resume, describe({}), times_most * options.repetitions, plans);
			!taken)
			return {.error = taken.error()};
	return Sweep(experiment, describe, options, files, plans).run();
}

}  // namespace verbena::bench
