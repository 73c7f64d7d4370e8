// SPDX-License-Identifier: Apache-2.0
#include "tools/traced_run.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/sizes.h"
#include "nic/trace/read/pcapng.h"
#include "nic/trace/read/text.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t packet_bytes = 8192;  // all that one slot of a link carries
constexpr std::uint64_t size_min = 1 << 20, size_max = 64 << 20;

// The folder for the files of the processes: in memory if there is such a file system.
std::string make_folder() {
	std::error_code error;
	for (const fs::path& parent : {fs::path("/dev/shm"), fs::temp_directory_path(error)}) {
		std::string path = parent / "verbena-trace-XXXXXX";
		if (mkdtemp(path.data()) != nullptr) return path;
	}
	return {};
}

trace::Format format_of(const TraceOptions& options) {
	const std::string extension = fs::path(options.file).extension();
	const bool json =
		options.format == "json" || (options.format.empty() && (extension == ".json" || extension == ".jsonl"));
	return json ? trace::Format::json : trace::Format::text;
}

// False: a message says so, and where the files of the trace are.
bool write_file(const std::string& path, const std::string& text, const std::string& folder) {
	std::ofstream out(path, std::ios::binary | std::ios::trunc);
	out << text;
	out.flush();
	if (out) return true;
	complain(fmt::format("cannot write {}: {}; the files of the trace are in {}", path, std::strerror(errno), folder));
	return false;
}

// Writes the trace of the folder. False: it stays in the folder, and a message says so.
bool write_trace(const std::string& folder, const TraceOptions& options) {
	const auto read = trace::read_trace(folder);
	if (!read) {
		complain("the trace cannot be read: " + read.error());
		return false;
	}
	if (read->processes.empty()) complain("no process used the NIC, so the trace is empty");
	bool written = options.pcap.empty() || write_file(options.pcap, trace::render_pcapng(*read), folder);
	if (!options.shown) return written;
	const std::string text = trace::render(*read, format_of(options), *trace::parse_filter(options.only));
	if (!options.file.empty()) return write_file(options.file, text, folder) && written;
	written &= std::fwrite(text.data(), 1, text.size(), stderr) == text.size();
	return written;
}

}  // namespace

std::optional<std::string> fault_of(const TraceOptions& options) {
	if (!options.wanted) return std::nullopt;
	if (const auto filter = trace::parse_filter(options.only); !filter) return "--trace-only: " + filter.error();
	const auto size = parse_size(options.size);
	if (!size || *size < size_min || *size > size_max) return "--trace-size: " + options.size + " is not in 1M to 64M";
	return std::nullopt;
}

TracedRun::~TracedRun() {
	std::error_code error;
	if (!folder_.empty()) fs::remove_all(folder_, error);
}

std::optional<int> TracedRun::begin() {
	// Before the program runs: its trace must not be lost for a wrong name.
	for (const std::string& path : {options_.file, options_.pcap})
		if (!path.empty() && !std::ofstream(path, std::ios::binary | std::ios::app))
			return complain(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
	folder_ = make_folder();
	if (folder_.empty())
		return complain(fmt::format(
			"no folder for the trace: {}; name a folder that can be written in TMPDIR", std::strerror(errno)));
	setenv("VERBENA_TRACE", folder_.c_str(), 1);
	setenv("VERBENA_TRACE_BYTES", std::to_string(*parse_size(options_.size)).c_str(), 1);
	if (!options_.pcap.empty()) setenv("VERBENA_TRACE_PACKETS", std::to_string(packet_bytes).c_str(), 1);
	return std::nullopt;
}

void TracedRun::finish() {
	if (!write_trace(folder_, options_)) folder_.clear();
}

}  // namespace verbena::tools
