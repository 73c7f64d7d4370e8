// The columns of a result table: one list from which every writer and the reader are made. A name or an order changes
// here only.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>

#include "bench/row.h"

namespace verbena::bench {

struct Column {
	std::string_view name;
	bool is_number;
	std::string (*text)(const Row&);  // shortest text that reads back equal; empty if absent
	std::expected<void, std::string> (*set)(Row&, std::string_view);  // the error says what is wrong with the text
};

std::span<const Column> columns();

// The columns that every table has, published ones too: experiment,mode,msg,window,iters,mops,gib.
inline constexpr std::size_t required_columns = 7;

}  // namespace verbena::bench
