// SPDX-License-Identifier: Apache-2.0
#include "bench/table/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "bench/table/histogram.h"
#include "bench/table/limits.h"

namespace verbena::bench {
namespace {

std::string trimmed(std::string_view text) {
	const auto from = text.find_first_not_of(" \t\r");
	return from == text.npos ? std::string()
							 : std::string(text.substr(from, text.find_last_not_of(" \t\r") - from + 1));
}

// Two values of one name would let two readers see two tables.
std::string appears_twice(std::string_view what, std::string_view name) {
	return fmt::format("{} '{}' appears twice", what, shortened(name));
}

std::string too_many(std::string_view what) { return fmt::format("more than {} {}", names_max, what); }

// The judge knows the keys of the environment in any case, so two that differ in case are the same.
std::expected<void, std::string> examine_keys(const Environment& environment) {
	std::set<std::string> known;
	for (const auto& [key, value] : environment)
		if (!known.insert(lowered(key)).second) return std::unexpected(appears_twice("environment key", key));
	return {};
}

// Says why a text cannot be a table that our programs wrote; empty if it can.
std::string_view foreign(std::string_view text) {
	try {
		(void)Json(text).dump();  // throws if the text is not UTF-8
	} catch (const Json::exception&) {
		return "not UTF-8 text: name a CSV or JSON file of `verbena bench`";
	}
	if (text.find('\0') != text.npos) return "a byte 0 in the text: name a CSV or JSON file of `verbena bench`";
	return {};
}

// Removes a line "# key: value" from the front of `text`.
void take_comment(std::string_view& text, Environment& environment) {
	const std::string_view comment = text.substr(1, text.find('\n') - 1);
	text.remove_prefix(std::min(text.size(), comment.size() + 2));
	if (const auto colon = comment.find(':'); colon != comment.npos)
		environment.emplace_back(trimmed(comment.substr(0, colon)), trimmed(comment.substr(colon + 1)));
}

// Whether JSON has more lists and objects within each other than a table has. A parser or a printer
// that calls itself for each of them would need a stack as deep.
bool is_too_deep(std::string_view json) {
	std::size_t depth = 0;
	bool in_text = false;
	for (std::size_t i = 0; i < json.size(); ++i) {
		const char c = json[i];
		if (in_text) {
			if (c == '\\') ++i;
			else in_text = c != '"';
		} else if (c == '"') {
			in_text = true;
		} else if (c == '[' || c == '{') {
			if (++depth > depth_max) return true;
		} else if ((c == ']' || c == '}') && depth > 0) {
			--depth;
		}
	}
	return false;
}

// Says why the text can be no table before it is read; empty if it can.
std::string fault_of(std::string_view text) {
	if (text.find_first_not_of(" \t\r\n") == text.npos) return "it is empty";
	if (text.size() > bytes_max) return fmt::format("more than {} MiB, which no table has", bytes_max >> 20);
	if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "it is UTF-16, so save it as UTF-8";
	return {};
}

std::string excess_of_row(const Json& row) {
	for (const auto& [name, value] : row.items()) {
		if (value.is_array() && value.size() > repetitions_max && (name == "repetitions" || name == "apart"))
			return fmt::format("has more than {} {}", repetitions_max, name);
		if (value.is_string() && value.get_ref<const std::string&>().size() > text_bytes_max)
			return fmt::format("has more than {} KiB in '{}'", text_bytes_max >> 10, shortened(name));
	}
	return {};
}

// Says which limit the table exceeds; empty if none.
std::string excess_of(const Table& table) {
	if (table.rows.size() > rows_max) return fmt::format("more than {} rows", rows_max);
	for (const auto& [key, value] : table.environment)
		if (value.size() > text_bytes_max)
			return fmt::format("the environment has more than {} KiB in '{}'", text_bytes_max >> 10, shortened(key));
	for (std::size_t i = 0; i < table.rows.size(); ++i)
		if (const std::string excess = excess_of_row(table.rows[i]); !excess.empty())
			return fmt::format("row {} {}", i + 1, excess);
	return {};
}

// Sees each name of a JSON document while it is parsed. Objects keep their names in order, and look
// each one up among all before it, so one with very many names would take hours.
class Names {
public:
	// The document; it is discarded if the text is no JSON.
	Json parse(std::string_view text) {
		const auto see = [this](int depth, Json::parse_event_t event, const Json& parsed) {
			return take(depth, event, parsed);
		};
		return Json::parse(text, see, false);
	}

	const std::string& fault() const { return fault_; }  // empty if there is none

private:
	// For the parser: false if the name shall be left out.
	bool take(int depth, Json::parse_event_t event, const Json& parsed) {
		const auto at = static_cast<std::size_t>(depth);
		if (event == Json::parse_event_t::object_start && at + 1 < counts_.size()) {
			counts_[at + 1] = 0;
			if (at + 1 < known_.size()) known_[at + 1].clear();
		}
		if (event != Json::parse_event_t::key || at >= counts_.size()) return true;
		if (++counts_[at] > names_max) fault_ = too_many("names in an object");
		else if (at < known_.size() && !known_[at].insert(parsed.get<std::string>()).second)
			fault_ = appears_twice("name", parsed.get<std::string>());
		return fault_.empty();
	}

	std::array<std::size_t, depth_max + 2> counts_{};  // by the depth of the object
	// At each of the depths that the document, its environment and its rows have.
	std::array<std::set<std::string>, 4> known_;
	std::string fault_;
};

// A field is a list if it is one of JSON; every other field is kept as its text.
Json value_of_field(std::string field) {
	if (field.starts_with('[') && !is_too_deep(field)) {
		Names names;
		Json list = names.parse(field);
		if (list.is_array() && names.fault().empty()) return list;
	}
	return field;
}

std::expected<Table, std::string> read_csv(std::string_view text) {
	Table table{.has_histograms = false};
	std::vector<std::string> header;
	std::size_t line = 1;
	while (!text.empty()) {
		const std::string_view before = text;
		const std::size_t at = line;
		std::vector<std::string> fields;
		if (text.starts_with('#')) {
			take_comment(text, table.environment);
			if (table.environment.size() > names_max) return std::unexpected(too_many("lines '# key: value'"));
		} else if (auto record = take_record(text)) {
			fields = std::move(*record);
		} else {
			return std::unexpected(fmt::format("line {}: {}", at, record.error()));
		}
		line += static_cast<std::size_t>(std::ranges::count(before.substr(0, before.size() - text.size()), '\n'));
		if (fields.empty() || (fields.size() == 1 && fields.front().empty())) continue;
		if (header.empty()) {
			// A column with a blank beside its name would be none of the judge's columns.
			for (const std::string& field : fields) header.push_back(trimmed(field));
			for (const std::string& name : header)
				if (std::ranges::count(header, name) > 1) return std::unexpected(appears_twice("column", name));
			continue;
		}
		if (fields.size() != header.size())
			return std::unexpected(
				fmt::format("line {}: {} fields, but the header has {}", at, fields.size(), header.size()));
		if (table.rows.size() == rows_max) return std::unexpected(fmt::format("more than {} rows", rows_max));
		Json& row = table.rows.emplace_back(Json::object());
		for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = value_of_field(std::move(fields[i]));
	}
	if (header.empty()) return std::unexpected("no header line");
	return table;
}

std::expected<Table, std::string> read_json(std::string_view text) {
	if (is_too_deep(text)) return std::unexpected(fmt::format("more than {} lists within each other", depth_max));
	Names names;
	Json json = names.parse(text);
	if (!names.fault().empty()) return std::unexpected(names.fault());
	if (json.is_discarded())
		return std::unexpected(text.find_last_of('}') == text.find_last_not_of(" \t\r\n")
				? "not valid JSON"
				: "not valid JSON: it does not end with '}', so it is truncated; measure again");
	if (!json.contains("rows") || !json["rows"].is_array()) return std::unexpected("the JSON has no list 'rows'");
	Table table;
	if (const auto found = json.find("environment"); found != json.end() && !found->is_null()) {
		if (!found->is_object()) return std::unexpected("the JSON's 'environment' is not an object");
		for (const auto& [key, value] : found->items()) table.environment.emplace_back(key, text_of(value));
	}
	for (Json& row : json["rows"]) {
		if (!row.is_object()) return std::unexpected(fmt::format("row {} is not an object", table.rows.size() + 1));
		table.rows.push_back(std::move(row));
	}
	return table;
}

std::string quoted(const std::string& field) {
	if (field.find_first_of(",\"\r\n") == field.npos && !field.starts_with('#')) return field;
	std::string text = "\"";
	for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
	return text + '"';
}

const Json& value_at(const Json& row, const Column& column) {
	static const Json none;
	const auto found = row.find(column.name);
	return found == row.end() ? none : *found;
}

std::string field_of(const Json& row, const Column& column) {
	const Json& value = value_at(row, column);
	return value.is_array() ? without_histograms(value).dump() : text_of(value);
}

std::string shown(const Json& row, const Column& column) {
	if (column.kind == Kind::number) {
		const auto number = number_of(row, column.name);
		return number ? three_digits(number->value) : column.is_published ? "n/a" : "";
	}
	std::string text = word_of(row, column.name);
	std::ranges::replace(text, '|', '/');
	std::ranges::replace(text, '\n', ' ');
	return text;
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
			if (fields.size() == names_max) return std::unexpected(too_many("fields"));
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

std::expected<Table, std::string> read_table(std::string_view text) {
	if (std::string fault = fault_of(text); !fault.empty()) return std::unexpected(std::move(fault));
	if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // the byte order mark of UTF-8
	const auto first = text.find_first_not_of(" \t\r\n");
	if (const std::string_view why = foreign(text); !why.empty()) return std::unexpected(std::string(why));
	auto table = first != text.npos && text[first] == '{' ? read_json(text) : read_csv(text);
	if (!table) return table;
	if (table->rows.empty()) return std::unexpected("no rows");
	if (std::string excess = excess_of(*table); !excess.empty()) return std::unexpected(std::move(excess));
	if (const auto keys = examine_keys(table->environment); !keys) return std::unexpected(keys.error());
	return table;
}

std::string to_csv(const Table& table, std::span<const Column> columns) {
	std::string text;
	for (const Column& column : columns) text += (text.empty() ? "" : ",") + std::string(column.name);
	text += '\n';
	for (const Json& row : table.rows) {
		for (const Column& column : columns)
			text += (&column == columns.data() ? "" : ",") + quoted(field_of(row, column));
		text += '\n';
	}
	for (const auto& [key, value] : table.environment) text += fmt::format("# {}: {}\n", key, value);
	return text;
}

std::string to_json(const Table& table, std::span<const Column> columns) {
	Json json{{"environment", Json::object()}, {"rows", Json::array()}};
	for (const auto& [key, value] : table.environment) json["environment"][key] = value;
	for (const Json& row : table.rows) {
		Json& object = json["rows"].emplace_back(Json::object());
		for (const Column& column : columns) object[std::string(column.name)] = value_at(row, column);
	}
	return json.dump(1, '\t') + '\n';
}

std::string to_markdown(const Table& table, std::span<const Column> columns) {
	std::vector<const Column*> wanted;
	std::vector<std::size_t> widths;
	for (const Column& column : columns) {
		if (column.kind == Kind::list || column.is_detail) continue;
		const bool has_any =
			std::ranges::any_of(table.rows, [&](const Json& row) { return has_value(row, column.name); });
		if (!has_any && !column.is_published) continue;
		wanted.push_back(&column);
		std::size_t width = column.name.size();
		for (const Json& row : table.rows) width = std::max(width, shown(row, column).size());
		widths.push_back(width);
	}
	std::string text = "|";
	for (std::size_t i = 0; i < wanted.size(); ++i) text += fmt::format(" {:<{}} |", wanted[i]->name, widths[i]);
	text += "\n|";
	for (std::size_t i = 0; i < wanted.size(); ++i)
		text += wanted[i]->kind == Kind::word ? fmt::format(" {:-<{}} |", "", widths[i])
											  : fmt::format(" {:->{}} |", ":", widths[i]);
	text += '\n';
	for (const Json& row : table.rows) {
		text += '|';
		for (std::size_t i = 0; i < wanted.size(); ++i) {
			const std::string field = shown(row, *wanted[i]);
			text += wanted[i]->kind == Kind::word ? fmt::format(" {:<{}} |", field, widths[i])
												  : fmt::format(" {:>{}} |", field, widths[i]);
		}
		text += '\n';
	}
	text += '\n';
	for (const auto& [key, value] : table.environment) text += fmt::format("- {}: {}\n", key, value);
	return text;
}

}  // namespace verbena::bench
