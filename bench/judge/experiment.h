// SPDX-License-Identifier: Apache-2.0
// An experiment as a value: what the judge has to know about the tables of one benchmark. The
// program that measures and `verbena check` use the same value, so a row is judged in one way
// wherever it comes from.
//
// Threads: constant data and pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/judge/findings.h"
#include "bench/judge/repetitions.h"
#include "bench/table/row.h"

namespace verbena::bench {

struct Experiment {
	std::string_view name;  // as in `verbena bench NAME`
	// In the order of the tables. Two of them are `repetitions`, from which a row follows, and
	// `apart`, the repetitions at another distance between the processors (distance.h).
	std::span<const Column> columns;

	// The cell of a row in words: "RC send 64 B window 4 local".
	std::string (*title)(const Json& row);

	// The names of the times in a repetition, no two of which take the same ones (copies.h).
	std::span<const std::string_view> times;

	// The latencies of each repetition of the row, which have histograms in JSON. May be null.
	std::span<const Latency> (*latencies)(const Json& row) = nullptr;

	// Computes the columns of Role::result, and those settings that a measurement may raise, from
	// the repetitions of a cell. `row` has the cell's columns. A repetition that came from CSV has
	// no histograms; the columns that need them are then left out. May throw Json::exception if a
	// repetition has not what a repetition has.
	Json (*summarize)(const Json& row, const Json& repetitions);

	// Examines one repetition of the row's cell by itself. May throw Json::exception.
	void (*examine_repetition)(const Json& row, const Json& repetition, Findings&);

	// Examines a row of a table, published ones too: what can be said without its repetitions.
	void (*examine_row)(const Json& row, const Table& table, Findings&);

	// Examines the rows of a table beside each other; `findings` has an entry for each row. May be
	// null. Called after the other examinations, so that it can leave out invalid rows.
	void (*examine_table)(const Table& table, std::span<Findings> findings) = nullptr;

	// A sentence about what the table as a whole cannot show; empty if there is none. May be null.
	std::string (*remark)(const Table& table) = nullptr;
};

}  // namespace verbena::bench
