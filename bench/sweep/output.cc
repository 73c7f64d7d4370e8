// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "bench/table/table.h"

namespace verbena::bench {
namespace {

std::unexpected<std::string> cannot_write(const std::string& path) {
	return std::unexpected(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

std::expected<void, std::string> put(const std::string& path, const std::string& text) {
	const bool to_stdout = path == "-";
	std::FILE* const file = to_stdout ? stdout : std::fopen(path.c_str(), "w");
	if (file == nullptr) return cannot_write(path);
	bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
	good = (to_stdout ? std::fflush(file) : std::fclose(file)) == 0 && good;
	if (!good) return cannot_write(path);
	return {};
}

std::expected<void, std::string> replace(const std::string& path, const std::string& text) {
	const std::string part = path + ".part";
	if (auto done = put(part, text); !done) {
		std::remove(part.c_str());
		return done;
	}
	if (std::rename(part.c_str(), path.c_str()) != 0) {
		auto error = cannot_write(path);
		std::remove(part.c_str());
		return error;
	}
	return {};
}

}  // namespace

std::expected<OutputFiles, std::string> OutputFiles::open(const Outputs& outputs, std::span<const Column> columns) {
	OutputFiles files(columns);
	for (const auto& [path, render] : {std::pair<const std::string&, Render>(outputs.csv, to_csv),
			 std::pair<const std::string&, Render>(outputs.json, to_json),
			 std::pair<const std::string&, Render>(
				 outputs.markdown, outputs.as_markdown ? outputs.as_markdown : to_markdown)})
		if (!path.empty())
			if (auto added = files.add(path, render); !added) return std::unexpected(added.error());
	return files;
}

std::expected<void, std::string> OutputFiles::add(const std::string& path, Render render) {
	if (path == "-") {
		files_.push_back({path, render, false, false});
		return {};
	}
	std::error_code unknown;
	const bool is_new = !std::filesystem::exists(path, unknown);
	std::FILE* const file = std::fopen(path.c_str(), "a");
	if (file == nullptr) return cannot_write(path);
	std::fclose(file);
	// A rename must replace the file and not a link to it.
	const std::string whole = std::filesystem::weakly_canonical(path, unknown).string();
	const bool is_regular = !unknown && std::filesystem::is_regular_file(whole, unknown);
	const auto is_same = [&](const File& other) {
		std::error_code absent;
		return other.is_regular && std::filesystem::equivalent(other.path, whole, absent);
	};
	if (is_regular && std::ranges::any_of(files_, is_same))
		return std::unexpected(fmt::format("{} is named for two tables: name two files", path));
	files_.push_back({is_regular ? whole : path, render, is_regular, is_new});
	return {};
}

OutputFiles::~OutputFiles() {
	for (const File& file : files_)
		if (file.is_new) std::remove(file.path.c_str());
}

std::expected<void, std::string> OutputFiles::write_so_far(const Table& table) {
	for (File& file : files_) {
		if (!file.is_regular) continue;
		if (auto done = replace(file.path, file.render(table, columns_)); !done) return done;
		file.is_new = false;
	}
	return {};
}

std::expected<void, std::string> OutputFiles::write_last(const Table& table) {
	if (auto done = write_so_far(table); !done) return done;
	for (File& file : files_) {
		if (file.is_regular) continue;
		if (auto done = put(file.path, file.render(table, columns_)); !done) return done;
		file.is_new = false;
	}
	return {};
}

}  // namespace verbena::bench
