#include "bench/fields.h"

#include "bench/table/table.h"

namespace verbena::bench {

std::expected<std::vector<Fields>, std::string> read_rows(std::string_view text) {
	const auto table = read_table(text);
	if (!table) return std::unexpected(table.error());
	std::vector<Fields> rows;
	for (const Json& each : table->rows) {
		Fields& row = rows.emplace_back();
		for (const auto& [key, value] : each.items())
			if (!value.is_array()) row[key] = text_of(value);
	}
	return rows;
}

}  // namespace verbena::bench
