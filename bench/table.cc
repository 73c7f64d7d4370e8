#include "bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/columns.h"
#include "bench/fields.h"

namespace verbena::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted(const std::string& field) {
	if (field.find_first_of(",\"\r\n") == field.npos && !field.starts_with('#')) return field;
	std::string text = "\"";
	for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
	return text + '"';
}

std::expected<std::vector<const Column*>, std::string> match_header(const std::vector<std::string>& names) {
	std::vector<const Column*> matched;
	for (const std::string& name : names) {
		const auto known = std::ranges::find(columns(), name, &Column::name);
		matched.push_back(known == columns().end() ? nullptr : &*known);
		if (matched.back() != nullptr && std::ranges::count(matched, matched.back()) > 1)
			return std::unexpected(fmt::format("column '{}' appears twice", name));
	}
	for (const Column& column : columns().first(required_columns))
		if (std::ranges::find(matched, &column) == matched.end())
			return std::unexpected(fmt::format("no column '{}' in the header line", column.name));
	return matched;
}

std::expected<Table, std::string> read_csv(std::string_view text) {
	Table table;
	std::vector<const Column*> header;
	for (std::size_t line = 1; !text.empty(); ++line) {
		if (text.starts_with('#')) {
			const std::string_view comment = text.substr(1, text.find('\n') - 1);
			text.remove_prefix(std::min(text.size(), comment.size() + 2));
			const auto colon = comment.find(':');
			if (colon == comment.npos) continue;
			const auto trim = [](std::string_view part) {
				const auto from = part.find_first_not_of(" \t\r");
				return from == part.npos ? std::string()
										 : std::string(part.substr(from, part.find_last_not_of(" \t\r") - from + 1));
			};
			table.environment.emplace_back(trim(comment.substr(0, colon)), trim(comment.substr(colon + 1)));
			continue;
		}
		const auto record = take_record(text);
		if (!record) return std::unexpected(fmt::format("line {}: {}", line, record.error()));
		if (record->size() == 1 && record->front().empty()) continue;
		if (header.empty()) {
			const auto matched = match_header(*record);
			if (!matched) return std::unexpected(matched.error());
			header = *matched;
			continue;
		}
		if (record->size() != header.size())
			return std::unexpected(
				fmt::format("line {}: {} fields, but the header has {}", line, record->size(), header.size()));
		Row row;
		for (std::size_t i = 0; i < header.size(); ++i) {
			if (header[i] == nullptr) continue;
			if (const auto done = header[i]->set(row, (*record)[i]); !done)
				return std::unexpected(fmt::format("line {}, column {}: {}", line, header[i]->name, done.error()));
		}
		table.rows.push_back(std::move(row));
	}
	if (header.empty()) return std::unexpected("no header line");
	if (table.rows.empty()) return std::unexpected("no rows");
	return table;
}

std::expected<Table, std::string> read_json(std::string_view text) {
	const Json json = Json::parse(text, nullptr, false);
	if (json.is_discarded()) return std::unexpected("not valid JSON");
	if (!json.contains("rows") || !json["rows"].is_array() || json["rows"].empty()) return std::unexpected("no rows");
	Table table;
	if (json.contains("environment") && json["environment"].is_object())
		for (const auto& [key, value] : json["environment"].items())
			table.environment.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
	for (const Json& each : json["rows"]) {
		Row row;
		if (!each.is_object()) return std::unexpected("a row is not an object");
		for (std::size_t i = 0; i < columns().size(); ++i) {
			const Column& column = columns()[i];
			const auto value = each.find(column.name);
			if (value == each.end()) {
				if (i < required_columns) return std::unexpected(fmt::format("a row has no '{}'", column.name));
				continue;
			}
			const std::string written = value->is_null() ? ""
				: value->is_string()                     ? value->get<std::string>()
														 : value->dump();
			if (const auto done = column.set(row, written); !done)
				return std::unexpected(fmt::format("row {}, {}: {}", table.rows.size() + 1, column.name, done.error()));
		}
		table.rows.push_back(std::move(row));
	}
	return table;
}

}  // namespace

std::string to_csv(const Table& table) {
	std::string text;
	for (const Column& column : columns()) text += (text.empty() ? "" : ",") + std::string(column.name);
	text += '\n';
	for (const Row& row : table.rows) {
		for (const Column& column : columns())
			text += (&column == columns().data() ? "" : ",") + quoted(column.text(row));
		text += '\n';
	}
	for (const auto& [key, value] : table.environment) text += fmt::format("# {}: {}\n", key, value);
	return text;
}

std::string to_json(const Table& table) {
	Json json{{"environment", Json::object()}, {"rows", Json::array()}};
	for (const auto& [key, value] : table.environment) json["environment"][key] = value;
	for (const Row& row : table.rows) {
		Json object = Json::object();
		for (const Column& column : columns()) {
			const std::string text = column.text(row);
			object[std::string(column.name)] = !column.is_number ? Json(text)
				: text.empty()                                   ? Json(nullptr)
																 : Json::parse(text);
		}
		if (!row.repetition_counts.empty()) object["repetition_counts"] = Json::parse(row.repetition_counts);
		json["rows"].push_back(std::move(object));
	}
	return json.dump(1, '\t') + '\n';
}

std::expected<Table, std::string> read_table(std::string_view text) {
	return text.starts_with('{') ? read_json(text) : read_csv(text);
}

std::string three_digits(double number) {
	if (number == 0) return "0";
	const int before_point = static_cast<int>(std::floor(std::log10(std::abs(number)))) + 1;
	return fmt::format("{:.{}f}", number, std::clamp(3 - before_point, 0, 12));
}

std::string to_markdown(const Table& table) {
	const auto shown = [](const Column& column, const Row& row) -> std::string {
		const std::string text = column.text(row);
		if (column.name == "mops" || column.name == "gib") return text.empty() ? "n/a" : three_digits(std::stod(text));
		if (column.name.starts_with("rtt_") && column.is_number && !text.empty())
			return fmt::format("{:.0f}", std::stod(text));
		if (column.name == "spread" || column.name.starts_with("mops_") || column.name.ends_with("_us"))
			return text.empty() ? text : three_digits(std::stod(text));
		return text;
	};
	std::vector<const Column*> wanted;
	for (const Column& column : columns())
		if (column.name != "repetitions" &&
			(&column < columns().data() + required_columns ||
				std::ranges::any_of(table.rows, [&](const Row& row) { return !column.text(row).empty(); })))
			wanted.push_back(&column);

	std::vector<std::size_t> widths;
	for (const Column* column : wanted) {
		std::size_t width = column->name.size();
		for (const Row& row : table.rows) width = std::max(width, shown(*column, row).size());
		widths.push_back(width);
	}
	std::string text = "|";
	for (std::size_t i = 0; i < wanted.size(); ++i) text += fmt::format(" {:<{}} |", wanted[i]->name, widths[i]);
	text += "\n|";
	for (std::size_t i = 0; i < wanted.size(); ++i)
		text +=
			wanted[i]->is_number ? fmt::format(" {:->{}} |", ":", widths[i]) : fmt::format(" {:-<{}} |", "", widths[i]);
	text += '\n';
	for (const Row& row : table.rows) {
		text += '|';
		for (std::size_t i = 0; i < wanted.size(); ++i) {
			std::string field = shown(*wanted[i], row);
			std::ranges::replace(field, '|', '/');
			text += wanted[i]->is_number ? fmt::format(" {:>{}} |", field, widths[i])
										 : fmt::format(" {:<{}} |", field, widths[i]);
		}
		text += '\n';
	}
	text += '\n';
	for (const auto& [key, value] : table.environment) text += fmt::format("- {}: {}\n", key, value);
	return text;
}

}  // namespace verbena::bench
