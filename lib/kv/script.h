// One line of a kv_client script: `SET key value`, `GET key` or `DEL key`. A key ends at the next
// space; a value is the rest of the line, with its spaces.
//
// Threads: any; a pure function.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::kv {

struct Command {
	enum class Kind : std::uint8_t { set, get, remove };
	Kind kind = Kind::get;
	std::string key, value;
};

// Parses one line. An empty line yields nullopt. The error is one sentence.
inline std::expected<std::optional<Command>, std::string> read_command(std::string_view line) {
	if (line.ends_with('\r')) line.remove_suffix(1);
	if (line.find_first_not_of(" \t") == line.npos) return std::nullopt;
	const std::size_t space = line.find(' ');
	const std::string_view word = line.substr(0, space);
	const std::string_view rest = space == line.npos ? std::string_view() : line.substr(space + 1);
	if (word == "SET") {
		const std::size_t end = rest.find(' ');
		if (space == line.npos || end == rest.npos)
			return std::unexpected("SET needs a key and a value: SET key value");
		return Command{Command::Kind::set, std::string(rest.substr(0, end)), std::string(rest.substr(end + 1))};
	}
	if (word != "GET" && word != "DEL")
		return std::unexpected(
			"'" + std::string(word.substr(0, 20)) + "' is no command; use SET key value, GET key or DEL key");
	if (space == line.npos) return std::unexpected(std::string(word) + " needs a key: " + std::string(word) + " key");
	if (rest.find(' ') != rest.npos)
		return std::unexpected(std::string(word) + " takes one key, and a key has no spaces here");
	return Command{word == "GET" ? Command::Kind::get : Command::Kind::remove, std::string(rest), {}};
}

}  // namespace verbena::kv
