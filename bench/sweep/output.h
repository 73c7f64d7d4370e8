// SPDX-License-Identifier: Apache-2.0
// The files to which a benchmark writes its table.
//
// Every file is opened before anything is measured, so that a path that cannot be written is an
// error at once. A regular file is replaced as a whole, by a rename: a program that is killed
// leaves the table that was written last, and never a part of one.
//
// Threads: one at a time.
// Errors: one sentence that names the file.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <vector>

#include "bench/table/row.h"

namespace verbena::bench {

using Render = std::string (*)(const Table&, std::span<const Column>);

// Paths, or "-" for standard output; empty: not written.
struct Outputs {
	std::string csv, json, markdown;
	Render as_markdown = nullptr;  // another text in place of Markdown; null: to_markdown()
};

class OutputFiles {
public:
	// An existing file keeps its contents until the first write.
	static std::expected<OutputFiles, std::string> open(const Outputs& outputs, std::span<const Column> columns);
	// Removes the files that open() has made and that were never written.
	~OutputFiles();
	OutputFiles(OutputFiles&&) = default;
	OutputFiles& operator=(OutputFiles&&) = delete;

	// Replaces the regular files; other outputs, such as standard output, get only the last table.
	std::expected<void, std::string> write_so_far(const Table& table);
	std::expected<void, std::string> write_last(const Table& table);

private:
	struct File {
		std::string path;
		Render render;
		bool is_regular;
		bool is_new;  // open() has made it
	};

	explicit OutputFiles(std::span<const Column> columns) : columns_(columns) {}
	std::expected<void, std::string> add(const std::string& path, Render render);

	std::span<const Column> columns_;
	std::vector<File> files_;
};

}  // namespace verbena::bench
