// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/labels.h"

#include <fmt/format.h>

namespace verbena::rcud {

using bench::word_of;

bench::Json columns_of(const Cell& cell) {
	bench::Json columns{{"experiment", cell.qps > 0 ? qp_sweep : msg_sweep}, {"mode", name_of(cell.mode)},
		{"msg", cell.msg}, {"window", cell.window}, {"op", name_of(cell.op)},
		{"window_mode", name_of(cell.window_mode)}};
	if (cell.qps > 0) columns.update({{"qps", cell.qps}, {"senders", cell.senders}});
	return columns;
}

std::string title(const bench::Json& row) {
	std::string text = word_of(row, "mode");
	if (const std::string op = word_of(row, "op"); !op.empty()) text += ' ' + op;
	text += fmt::format(" {} B window {}", word_of(row, "msg"), word_of(row, "window"));
	if (const std::string mode = word_of(row, "window_mode"); !mode.empty()) text += ' ' + mode;
	if (!bench::has_value(row, "qps")) return text;
	text += fmt::format(", {} queue pairs", word_of(row, "qps"));
	if (const std::string senders = word_of(row, "senders"); senders != "1")
		text += fmt::format(" of {} senders", senders);
	return text;
}

}  // namespace verbena::rcud
