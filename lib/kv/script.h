// SPDX-License-Identifier: Apache-2.0
// One line of a kv_client script: `SET key value`, `GET key`, `DEL key`, with a time to live
// `SETEX key time value`, or with versions `GETV key`, `CAS key version value`, `DEL key version`.
// `SCAN` and `SCAN prefix` ask for keys, `WATCH key`, `PWATCH` and `PWATCH prefix` for events, and
// `INFO` for facts of the servers. A key ends at the next space; a value is the rest of the line,
// with its spaces.
//
// Threads: any; a pure function.
#pragma once

#include <charconv>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::kv {

struct Command {
	enum class Kind : std::uint8_t { set, get, get_version, remove, scan, info, watch, watch_prefix };
	Kind kind = Kind::get;
	std::string key, value;
	std::optional<std::uint64_t> expected;  // CAS, and DEL with a version
	std::uint32_t ttl_ms = 0;  // SETEX
};

inline std::optional<std::uint64_t> read_version(std::string_view text) {
	std::uint64_t version = 0;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
	if (error != std::errc() || end != text.data() + text.size() || version == UINT64_MAX) return std::nullopt;
	return version;
}

// A time as users write it: a number and its unit, ms, s, m, h or d. Returns milliseconds, from 1
// to 2^32 - 1 (49 days).
inline std::optional<std::uint32_t> read_time(std::string_view text) {
	std::uint64_t number = 0;
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (error != std::errc() || number > UINT32_MAX) return std::nullopt;
	const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
	constexpr std::pair<std::string_view, std::uint64_t> units[] = {
		{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
	for (const auto& [name, milliseconds] : units)
		if (const std::uint64_t time = number * milliseconds; name == unit && time > 0 && time <= UINT32_MAX)
			return static_cast<std::uint32_t>(time);
	return std::nullopt;
}

// Parses one line. An empty line yields nullopt. The error is one sentence.
inline std::expected<std::optional<Command>, std::string> read_command(std::string_view line) {
	using Kind = Command::Kind;
	if (line.ends_with('\r')) line.remove_suffix(1);
	if (line.find_first_not_of(" \t") == line.npos) return std::nullopt;
	std::string_view rest = line;
	// Takes the next word; nothing if the line has ended.
	const auto next = [&rest]() -> std::optional<std::string_view> {
		if (rest.data() == nullptr) return std::nullopt;
		const std::size_t space = rest.find(' ');
		const std::string_view word = rest.substr(0, space);
		rest = space == rest.npos ? std::string_view() : rest.substr(space + 1);
		return word;
	};
	const std::string word(*next());
	const auto key = next();
	if (word == "SET") {
		if (!key || rest.data() == nullptr) return std::unexpected("SET needs a key and a value: SET key value");
		return Command{.kind = Kind::set, .key = std::string(*key), .value = std::string(rest)};
	}
	if (word == "SETEX") {
		const auto text = next();
		const auto time = text ? read_time(*text) : std::nullopt;
		if (!key || !time || rest.data() == nullptr)
			return std::unexpected("SETEX needs a key, a time from 1ms to 49d and a value: SETEX key 10s value");
		return Command{.kind = Kind::set, .key = std::string(*key), .value = std::string(rest), .ttl_ms = *time};
	}
	if (word == "CAS") {
		const auto text = next();
		const auto version = text ? read_version(*text) : std::nullopt;
		if (!key || !version || rest.data() == nullptr)
			return std::unexpected("CAS needs a key, a version and a value: CAS key version value");
		return Command{.kind = Kind::set, .key = std::string(*key), .value = std::string(rest), .expected = version};
	}
	if (word == "INFO") {
		if (key) return std::unexpected("INFO stands alone in its line");
		return Command{.kind = Kind::info, .key = {}, .value = {}};
	}
	if (word == "SCAN" || word == "PWATCH") {
		if (rest.data() != nullptr) return std::unexpected(word + " takes at most a prefix, which has no spaces here");
		return Command{.kind = word == "SCAN" ? Kind::scan : Kind::watch_prefix,
			.key = std::string(key.value_or("")),
			.value = {}};
	}
	if (word != "GET" && word != "GETV" && word != "DEL" && word != "WATCH")
		return std::unexpected("'" + word.substr(0, 20) +
			"' is no command; use SET key value, GET key, DEL key, SETEX key time value, GETV key, CAS key version "
			"value, DEL key version, "
			"SCAN prefix, WATCH key, PWATCH prefix or INFO");
	if (!key) return std::unexpected(word + " needs a key: " + word + " key");
	if (rest.data() == nullptr)
		return Command{.kind = word == "GET" ? Kind::get
				: word == "GETV"             ? Kind::get_version
				: word == "WATCH"            ? Kind::watch
											 : Kind::remove,
			.key = std::string(*key)};
	const auto version = word == "DEL" ? read_version(rest) : std::nullopt;
	if (!version)
		return std::unexpected(word + " takes one key" + (word == "DEL" ? " and perhaps a version" : "") +
			", and a key has no spaces here");
	return Command{.kind = Kind::remove, .key = std::string(*key), .expected = version};
}

}  // namespace verbena::kv
