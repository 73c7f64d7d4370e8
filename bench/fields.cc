#include "bench/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace verbena::bench {
namespace {

using Json = nlohmann::ordered_json;

std::expected<std::vector<Fields>, std::string> read_csv(std::string_view text) {
	std::vector<std::string> header;
	std::vector<Fields> rows;
	std::size_t line = 1;
	while (!text.empty()) {
		if (text.starts_with('#')) {
			text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
			++line;
			continue;
		}
		const std::string_view before = text;
		const auto fields = take_record(text);
		if (!fields) return std::unexpected(fmt::format("line {}: {}", line, fields.error()));
		const std::size_t at = line;
		line += static_cast<std::size_t>(std::ranges::count(before.substr(0, before.size() - text.size()), '\n'));
		if (fields->size() == 1 && fields->front().empty()) continue;
		if (header.empty()) {
			header = *fields;
			continue;
		}
		if (fields->size() != header.size())
			return std::unexpected(
				fmt::format("line {}: {} fields, but the header has {}", at, fields->size(), header.size()));
		Fields& row = rows.emplace_back();
		for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = (*fields)[i];
	}
	return rows;
}

std::expected<std::vector<Fields>, std::string> read_json(std::string_view text) {
	const Json json = Json::parse(text, nullptr, false);
	if (json.is_discarded()) return std::unexpected("not valid JSON");
	if (!json.contains("rows") || !json["rows"].is_array()) return std::unexpected("no rows");
	std::vector<Fields> rows;
	for (const Json& each : json["rows"]) {
		Fields& row = rows.emplace_back();
		for (const auto& [key, value] : each.items())
			if (!value.is_array())
				row[key] = value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
	}
	return rows;
}

}  // namespace

std::expected<std::vector<std::string>, std::string> take_record(std::string_view& text) {
	std::vector<std::string> fields(1);
	bool in_quotes = false;
	std::size_t i = 0;
	for (; i < text.size(); ++i) {
		const char c = text[i];
		if (in_quotes) {
			if (c != '"') fields.back() += c;
			else if (i + 1 < text.size() && text[i + 1] == '"') fields.back() += text[++i];
			else in_quotes = false;
		} else if (c == '"' && fields.back().empty()) {
			in_quotes = true;
		} else if (c == ',') {
			fields.emplace_back();
		} else if (c == '\n') {
			++i;
			break;
		} else if (c != '\r') {
			fields.back() += c;
		}
	}
	if (in_quotes) return std::unexpected("a quoted field does not end before the end of the file");
	text.remove_prefix(i);
	return fields;
}

std::expected<std::vector<Fields>, std::string> read_rows(std::string_view text) {
	const auto first = text.find_first_not_of(" \t\r\n");
	return first != text.npos && text[first] == '{' ? read_json(text) : read_csv(text);
}

}  // namespace verbena::bench
