// SPDX-License-Identifier: Apache-2.0
// The tables of this experiment: its columns, and how a row follows from its repetitions.
//
// A row is a cell of one system. `proto` is the protocol that was asked for, and `protocol` the one
// that the operations used, which their counts show: eager, rendezvous, one-sided, mixed, or none
// if there was no operation; RESP or text where the system is redis or memcached. A published row
// has only a `protocol`.
//
// Threads: constant data and pure functions.
#pragma once

#include <string>

#include "bench/judge/experiment.h"
#include "bench/kv/cell.h"

namespace verbena::kvbench {

const bench::Experiment& experiment();

// The row of a cell with its repetitions (json_of); without any, it has no figures. Not judged yet.
bench::Json row_of(const Cell& cell, bench::Json repetitions);

// The names and values of the columns that the cell consists of. A repetition carries this name, so
// one that was moved to another row is noticed.
std::string cell_name(const bench::Json& row);

// Whether the row is one of another system (redis, memcached).
bool is_rival(const bench::Json& row);

// A size such as "64 B", "4 KiB" or "1 MiB".
std::string bytes_text(std::uint64_t size);

}  // namespace verbena::kvbench
