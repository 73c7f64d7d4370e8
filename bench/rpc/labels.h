// SPDX-License-Identifier: Apache-2.0
// The words that name a cell, in options and in tables.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/rpc/cell.h"
#include "bench/table/row.h"

namespace verbena::rpcbench {

// The name in options and tables: "inline", "send-queue"; empty for none.
std::string_view name_of(Behaviour behaviour);
std::string_view name_of(Mode mode);
// All behaviours but none.
std::span<const Behaviour> all_behaviours();
// Whether the behaviour exists only over RDMA.
bool is_of_rdma(Behaviour behaviour);

// Formats a size as the published table does: "128B", "4K", "1M".
std::string size_text(std::uint64_t bytes);
// The bytes of a text that size_text() has made; empty for every other text.
std::optional<std::uint64_t> bytes_of(std::string_view request_size);

// The columns of a row that name its cell.
bench::Json columns_of(const CellOptions& cell);
// The cell of a row in words: "128B x 16 over tcp, 4 connections". Two rows with known words have
// the same title only if they have the same cell.
std::string title(const bench::Json& row);

}  // namespace verbena::rpcbench
