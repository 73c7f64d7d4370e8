#include "bench/connect/rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::connect {
namespace {

std::string text_of(const Json& value) {
	if (value.is_null()) return "";
	return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string quoted(const std::string& field) {
	if (field.find_first_of(",\"\r\n") == field.npos) return field;
	std::string text = "\"";
	for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
	return text + '"';
}

}  // namespace

std::string to_json(const Table& table) {
	Json json{{"environment", Json::object()}, {"rows", table.rows}};
	for (const auto& [key, value] : table.environment) json["environment"][key] = value;
	return json.dump(1, '\t') + '\n';
}

std::string to_csv(const Table& table) {
	std::string text;
	for (const auto& [key, value] : table.rows.front().items())
		if (!value.is_array()) text += (text.empty() ? "" : ",") + key;
	text += '\n';
	for (const Json& row : table.rows) {
		std::string line;
		for (const auto& [key, value] : row.items())
			if (!value.is_array()) line += (key == "experiment" ? "" : ",") + quoted(text_of(value));
		text += line + '\n';
	}
	for (const auto& [key, value] : table.environment) text += fmt::format("# {}: {}\n", key, value);
	return text;
}

std::string to_markdown(const Table& table) {
	const bool all_valid = std::ranges::all_of(table.rows, [](const Json& row) { return row["validity"] == "valid"; });
	const auto shown = [&](const std::string& key, const Json& value) {
		return !value.is_array() && key != "experiment" && !key.ends_with("_low") && !key.ends_with("_high") &&
			!key.ends_with("_p99_us") && (key != "reason" || !all_valid);
	};
	std::string names = "|", rule = "|", text;
	for (const auto& [key, value] : table.rows.front().items()) {
		if (!shown(key, value)) continue;
		names += ' ' + key + " |";
		rule += value.is_string() ? " --- |" : " ---: |";
	}
	for (const Json& row : table.rows) {
		text += '|';
		for (const auto& [key, value] : row.items())
			if (shown(key, value))
				text +=
					' ' + (value.is_number_float() ? bench::three_digits(value.get<double>()) : text_of(value)) + " |";
		text += '\n';
	}
	text = names + '\n' + rule + '\n' + text + '\n';
	for (const auto& [key, value] : table.environment) text += fmt::format("- {}: {}\n", key, value);
	return text;
}

}  // namespace verbena::connect
