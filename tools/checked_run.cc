// SPDX-License-Identifier: Apache-2.0
#include "tools/checked_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/descriptor.h"
#include "tools/commands.h"
#include "tools/program.h"
#include "tools/rule_findings.h"

namespace verbena::tools {
namespace {

namespace fs = std::filesystem;

// The file to which the processes append their findings. It disappears with this object.
class RecordFile {
public:
	RecordFile() : path_((fs::temp_directory_path() / "verbena-check-XXXXXX").string()) {
		file_ = Descriptor(mkostemp(path_.data(), O_CLOEXEC));
	}
	RecordFile(const RecordFile&) = delete;
	RecordFile& operator=(const RecordFile&) = delete;
	~RecordFile() {
		if (file_) unlink(path_.c_str());
	}
	explicit operator bool() const { return static_cast<bool>(file_); }
	const std::string& path() const { return path_; }

	// Prints the findings that were added since the last call.
	void print_new(RuleFindings& findings) {
		char part[64 << 10];
		for (ssize_t size = 0; (size = read(file_.get(), part, sizeof part)) > 0;)
			text_.append(part, static_cast<std::size_t>(size));
		std::size_t begin = 0;
		for (std::size_t end = 0; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1)
			print_error("{}", findings.take(std::string_view(text_).substr(begin, end - begin)));
		text_.erase(0, begin);
	}

private:
	std::string path_;
	Descriptor file_;
	std::string text_;  // the beginning of a line
};

// A finding is printed within this time.
constexpr std::chrono::milliseconds print_interval{50};

bool is_sarif(const std::string& path) { return fs::path(path).extension() == ".sarif"; }

bool write_reports(const CheckOptions& options, const RuleFindings& findings) {
	bool written = true;
	for (const std::string& path : options.reports) {
		std::ofstream out(path, std::ios::trunc);
		out << (is_sarif(path) ? findings.as_sarif() : findings.as_json());
		out.flush();
		if (out) continue;
		complain(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
		written = false;
	}
	return written;
}

}  // namespace

struct CheckedRun::Printer {
	explicit Printer(Suppressions&& suppressions) : findings(std::move(suppressions)) {}

	// Prints until it is asked to stop.
	void start() {
		thread = std::jthread([this](const std::stop_token& ended) {
			std::mutex mutex;
			std::unique_lock lock(mutex);
			std::condition_variable_any end;
			while (!end.wait_for(lock, ended, print_interval, [&] { return ended.stop_requested(); }))
				records.print_new(findings);
		});
	}

	RecordFile records;
	RuleFindings findings;
	std::jthread thread;
};

CheckedRun::CheckedRun(const CheckOptions& options) : options_(options) {}
CheckedRun::~CheckedRun() = default;

std::optional<std::string> fault_of(const CheckOptions& options) {
	if (options.level.empty() && !(options.suppressions.empty() && options.reports.empty()))
		return "--suppressions and --report need --check";
	Suppressions suppressions;
	for (const std::string& path : options.suppressions)
		if (const auto read = suppressions.read(path); !read) return read.error();
	return std::nullopt;
}

std::optional<int> CheckedRun::begin() {
	Suppressions suppressions;
	for (const std::string& path : options_.suppressions)
		if (const auto read = suppressions.read(path); !read) return complain(read.error(), usage);
	// Before the program runs: its findings must not be lost for a wrong name.
	for (const std::string& path : options_.reports)
		if (!std::ofstream(path, std::ios::app))
			return complain(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
	auto printer = std::make_unique<Printer>(std::move(suppressions));
	if (!printer->records)
		return complain(fmt::format("cannot make {}: {}; name a folder that can be written in TMPDIR",
			printer->records.path(), std::strerror(errno)));
	setenv("VERBENA_CHECK", options_.level.c_str(), 1);
	setenv("VERBENA_CHECK_FILE", printer->records.path().c_str(), 1);
	printer->start();
	printer_ = std::move(printer);
	return std::nullopt;
}

std::optional<int> CheckedRun::finish() {
	printer_->thread.request_stop();
	printer_->thread.join();
	printer_->records.print_new(printer_->findings);
	print_error("verbena: check: {}\n", printer_->findings.summary());
	const bool written = write_reports(options_, printer_->findings);
	if (printer_->findings.count() != 0) return rules_broken;
	return written ? std::nullopt : std::optional<int>(failed);
}

}  // namespace verbena::tools
