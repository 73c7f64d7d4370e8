// SPDX-License-Identifier: Apache-2.0
// `verbena timeline TRACE...` puts traces on one time line, for https://ui.perfetto.dev.
//
// Errors: exit code 1 if a trace cannot be read, has no event, or if the output cannot be written.
#include <fmt/format.h>

#include "nic/trace/read/timeline.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/trace_input.h"

namespace verbena::tools {
namespace {

struct TimelineOptions {
	std::vector<std::string> traces;
	std::string output;  // empty: standard output
};

int write(const std::string& document, const std::string& path) {
	if (path.empty())
		return std::fwrite(document.data(), 1, document.size(), stdout) == document.size() && std::fflush(stdout) == 0
			? good
			: complain(fmt::format("cannot write the time line: {}", std::strerror(errno)));
	std::ofstream out(path, std::ios::binary | std::ios::trunc);
	out << document;
	out.flush();
	return out ? good : complain(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

int draw(const TimelineOptions& options) {
	trace::Timeline timeline;
	for (const std::string& path : options.traces) {
		const auto input = read_trace_input(path);
		if (!input) return complain(input.error());
		if (const auto* trace = std::get_if<trace::Trace>(&*input)) {
			timeline.add(*trace);
		} else if (const std::string& text = std::get<std::string>(*input); timeline.add_lines(text) == 0) {
			return complain(text.starts_with("# trace of ")
					? path + ": this trace is text; write it as JSON lines: verbena run --trace=FILE.json -- PROGRAM"
					: path + ": there is no event of verbena run --trace=FILE.json in it");
		}
	}
	return write(timeline.render(), options.output);
}

}  // namespace

void add_timeline(CLI::App& app, Action& action) {
	CLI::App* const sub =
		add_command(app, "timeline", "Put traces on one time line for Perfetto: verbena timeline TRACE... [-o FILE]");
	sub->footer(
		"Examples:\n"
		"  verbena run --trace=server.json -- ./server &\n"
		"  verbena run --trace=client.json -- ./client\n"
		"  verbena timeline server.json client.json -o both.perfetto.json\n"
		"Open the file in https://ui.perfetto.dev or chrome://tracing.");
	auto options = std::make_shared<TimelineOptions>();
	sub->add_option("TRACE", options->traces, "A file of `verbena run --trace=FILE.json`, or a folder of VERBENA_TRACE")
		->required();
	sub->add_option("-o,--output", options->output, "Write to FILE instead of standard output")->type_name("FILE");
	sub->callback([options, &action] { action = [options] { return draw(*options); }; });
}

}  // namespace verbena::tools
