// SPDX-License-Identifier: Apache-2.0
#include "tools/rule_findings.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace verbena::tools {
namespace {

using json = nlohmann::json;

std::string base_name(const std::string& path) { return std::filesystem::path(path).filename(); }

std::string place_of(const Frame& frame) {
	const std::string where = frame.place.file.empty() ? fmt::format("{}+0x{:x}", frame.module, frame.offset)
													   : fmt::format("{}:{}", frame.place.file, frame.place.line);
	return fmt::format("{} {}", frame.place.function.empty() ? "?" : frame.place.function, where);
}

// Frames of the C library, in which every stack ends, say nothing.
std::string stack_text(const std::vector<Frame>& stack) {
	std::string out;
	int number = 0;
	for (const Frame& frame : stack) {
		if (base_name(frame.module).starts_with("libc.so")) continue;
		out += fmt::format("    #{} {}\n", number++, place_of(frame));
	}
	return out;
}

bool matches(const std::string& pattern, const Frame& frame) {
	return std::ranges::any_of(std::initializer_list<std::string>{frame.place.function, frame.place.file,
								   base_name(frame.place.file), frame.module, base_name(frame.module)},
		[&](const std::string& name) { return !name.empty() && fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

json stack_json(const std::vector<Frame>& stack) {
	json out = json::array();
	for (const Frame& frame : stack) {
		json one{{"module", frame.module}, {"offset", frame.offset}};
		if (!frame.place.function.empty()) one["function"] = frame.place.function;
		if (!frame.place.file.empty()) one.update({{"file", frame.place.file}, {"line", frame.place.line}});
		out.push_back(std::move(one));
	}
	return out;
}

json sarif_location(const std::vector<Frame>& stack) {
	const auto known = std::ranges::find_if(stack, [](const Frame& frame) { return !frame.place.file.empty(); });
	const Frame frame = known != stack.end() ? *known : stack.empty() ? Frame{} : stack.front();
	json location = json::object();
	if (!frame.place.file.empty())
		location["physicalLocation"] = {
			{"artifactLocation", {{"uri", frame.place.file}}}, {"region", {{"startLine", frame.place.line}}}};
	else if (!frame.module.empty()) location["physicalLocation"] = {{"artifactLocation", {{"uri", frame.module}}}};
	if (!frame.place.function.empty())
		location["logicalLocations"] =
			json::array({{{"fullyQualifiedName", frame.place.function}, {"kind", "function"}}});
	return location;
}

const char* sarif_level(const std::string& severity) {
	return severity == "error" ? "error" : severity == "portability" ? "warning" : "note";
}

std::string page_of(const std::string& rule) { return "docs/rules/" + rule + ".md"; }

}  // namespace

std::expected<void, std::string> Suppressions::read(const std::string& path) {
	std::ifstream file(path);
	if (!file) return std::unexpected(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
	std::string line;
	for (int number = 1; std::getline(file, line); ++number) {
		line = line.substr(0, line.find('#'));
		line.erase(line.find_last_not_of(" \t\r") + 1);
		line.erase(0, line.find_first_not_of(" \t"));
		if (line.empty()) continue;
		const std::size_t colon = line.find(':');
		if (colon == std::string::npos || colon == 0 || colon + 1 == line.size())
			return std::unexpected(fmt::format(
				"{}:{}: '{}' is not RULE:PATTERN, as in send-buffer-modified:heartbeat_*", path, number, line));
		patterns_.emplace_back(line.substr(0, colon), line.substr(colon + 1));
	}
	return {};
}

bool Suppressions::match(const RuleFinding& finding) const {
	return std::ranges::any_of(patterns_, [&](const auto& each) {
		return (each.first == "*" || each.first == finding.rule) &&
			std::ranges::any_of(finding.stack, [&](const Frame& frame) { return matches(each.second, frame); });
	});
}

namespace {

std::vector<Frame> frames_of(const json& list, Symbols& symbols) {
	std::vector<Frame> frames;
	for (const json& one : list) {
		const Frame frame{one.at("module"), one.at("offset"), {}};
		for (const Place& place : symbols.find(frame.module, frame.offset)) {
			// The functions of the header of verbs say nothing about the program.
			if (place.file.ends_with("infiniband/verbs.h")) continue;
			frames.push_back({frame.module, frame.offset, place});
			if (place.function.empty()) frames.back().place.function = one.at("function");
		}
	}
	return frames;
}

}  // namespace

std::string RuleFindings::take(std::string_view line) {
	const auto record = nlohmann::json::parse(line, nullptr, false);
	if (!record.is_object()) return {};
	try {
		const std::pair key{record.at("pid").get<int>(), record.at("finding").get<std::uint32_t>()};
		if (record.contains("count")) {
			if (const auto found = numbers_.find(key); found != numbers_.end())
				all_[found->second].count = record.at("count");
			return {};
		}
		RuleFinding finding{.pid = key.first,
			.program = record.at("program"),
			.rule = record.at("rule"),
			.severity = record.at("severity"),
			.what = record.at("what"),
			.why = record.at("why"),
			.stack = frames_of(record.at("stack"), symbols_),
			.notes = {}};
		for (const auto& note : record.at("notes"))
			finding.notes.push_back({note.at("text"), frames_of(note.at("stack"), symbols_)});
		finding.suppressed = suppressions_.match(finding);
		numbers_.insert_or_assign(key, all_.size());
		all_.push_back(finding);
		return finding.suppressed ? "" : text_of(finding);
	} catch (const nlohmann::json::exception&) {
		return {};
	}
}

std::size_t RuleFindings::count() const {
	return static_cast<std::size_t>(
		std::ranges::count_if(all_, [](const RuleFinding& finding) { return !finding.suppressed; }));
}

std::string RuleFindings::summary() const {
	std::map<std::string, std::size_t> rules;
	for (const RuleFinding& finding : all_)
		if (!finding.suppressed) ++rules[finding.rule];
	std::string out = count() == 0 ? "no findings" : fmt::format("{} finding{}", count(), count() == 1 ? "" : "s");
	const char* separator = ": ";
	for (const auto& [rule, number] : rules) {
		out += fmt::format("{}{} of {}", separator, number, rule);
		separator = ", ";
	}
	if (const std::size_t hidden = all_.size() - count()) out += fmt::format("; {} suppressed", hidden);
	return out;
}

std::string text_of(const RuleFinding& finding) {
	std::string out = fmt::format("verbena: check: {}: {} in {} ({}): {}\n{}", finding.severity, finding.rule,
		finding.program, finding.pid, finding.what, stack_text(finding.stack));
	for (const RuleFinding::Note& note : finding.notes)
		if (!note.stack.empty()) out += fmt::format("  {}:\n{}", note.text, stack_text(note.stack));
	out += fmt::format("  Rule: {} ({})\n", finding.why, page_of(finding.rule));
	return out;
}

std::string RuleFindings::as_json() const {
	nlohmann::json out{{"findings", nlohmann::json::array()}};
	for (const RuleFinding& finding : all_) {
		nlohmann::json notes = nlohmann::json::array();
		for (const RuleFinding::Note& note : finding.notes)
			notes.push_back({{"text", note.text}, {"stack", stack_json(note.stack)}});
		out["findings"].push_back({{"rule", finding.rule}, {"severity", finding.severity}, {"pid", finding.pid},
			{"program", finding.program}, {"what", finding.what}, {"why", finding.why}, {"count", finding.count},
			{"suppressed", finding.suppressed}, {"stack", stack_json(finding.stack)}, {"notes", notes}});
	}
	return out.dump(1, '\t') + '\n';
}

// SARIF 2.1.0 (OASIS).
std::string RuleFindings::as_sarif() const {
	json rules = json::array(), results = json::array();
	std::map<std::string, std::size_t> known;
	for (const RuleFinding& finding : all_) {
		const auto [rule, fresh] = known.try_emplace(finding.rule, rules.size());
		if (fresh)
			rules.push_back({{"id", finding.rule}, {"shortDescription", {{"text", finding.why}}},
				{"helpUri", page_of(finding.rule)},
				{"defaultConfiguration", {{"level", sarif_level(finding.severity)}}}});
		json result{{"ruleId", finding.rule}, {"ruleIndex", rule->second}, {"level", sarif_level(finding.severity)},
			{"message", {{"text", finding.what}}}, {"locations", json::array({sarif_location(finding.stack)})},
			{"occurrenceCount", finding.count}};
		json related = json::array();
		for (const RuleFinding::Note& note : finding.notes) {
			if (note.stack.empty()) continue;
			json location = sarif_location(note.stack);
			location["message"] = {{"text", note.text}};
			related.push_back(std::move(location));
		}
		if (!related.empty()) result["relatedLocations"] = related;
		if (finding.suppressed) result["suppressions"] = json::array({{{"kind", "external"}}});
		results.push_back(std::move(result));
	}
	const json out{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"},
		{"runs",
			json::array({{{"tool", {{"driver", {{"name", "verbena"}, {"version", VERBENA_VERSION}, {"rules", rules}}}}},
				{"results", results}}})}};
	return out.dump(1, '\t') + '\n';
}

}  // namespace verbena::tools
