// The columns of a result table of `verbena bench rcud`: one list that every writer and the reader
// use, so that names and their order are defined once.
//
// Threads: constant data, safe to read from any thread.
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
	// The shortest text that reads back as the same value; empty if the value is absent.
	std::string (*text)(const Row&);
	// Stores the value that `text` stands for. The error says what is wrong with the text.
	std::expected<void, std::string> (*set)(Row&, std::string_view);
};

std::span<const Column> columns();

// The number of columns that every table has, a published one too. They come first:
// experiment,mode,msg,window,iters,mops,gib.
inline constexpr std::size_t required_columns = 7;

}  // namespace verbena::bench
