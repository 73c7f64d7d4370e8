// SPDX-License-Identifier: Apache-2.0
// verbena self-test: says whether RDMA programs run on this machine or in this container, and how
// fast. It sends messages between two processes and compares every byte of them; the checks of
// `verbena doctor`, which explain what fails, come first.
//
// Errors: exit code 1 if something does not work; a note is not a failure.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/machine_checks.h"
#include "tools/self_test_pair.h"
#include "tools/stage.h"
#include "tools/udp_loopback.h"

namespace verbena::tools {
namespace {

using Json = nlohmann::ordered_json;

struct SelfTestOptions {
	bool json = false;
	bool no_speed = false;
	double limit_s = 10;
	bool is_server = false, is_server_of_other_host = false;
	int core = -1;
};

std::string text_of_speed(const Json& speed) {
	const std::string place = speed.value("cores", "").empty()
		? speed["where"].get<std::string>()
		: fmt::format("{}, {} core{}", speed["where"].get<std::string>(), speed["cores"].get<std::string>(),
			  speed["cores"] == "one" ? "" : "s");
	if (speed.contains("offload"))
		return fmt::format("{:<8} {:<32} {:.2f} GiB/s by one thread that sends and receives{}\n", "speed",
			"UDP sockets, " + place, speed["gib_s"].get<double>(),
			speed["offload"].get<bool>() ? "" : ", without GSO and GRO");
	const auto bytes = speed["bytes"].get<std::uint64_t>();
	std::string op = speed["op"];
	for (char& c : op) c = static_cast<char>(c - 'a' + 'A');
	const std::string subject = fmt::format("{} {}, {}", speed["transport"].get<std::string>(), op, place);
	const std::string size = bytes % 1024 == 0 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} bytes", bytes);
	std::string rate;
	if (speed["window"] == 1)
		rate = fmt::format("one at a time: {:.1f} us each (99 %: {:.1f} us)", speed["us"].get<double>(),
			speed["us_p99"].get<double>());
	else
		rate = fmt::format("{} at a time: {}", speed["window"].get<int>(),
			bytes < 4096 ? fmt::format("{:.2f} million a second", speed["mops"].get<double>())
						 : fmt::format("{:.2f} GiB/s", speed["gib_s"].get<double>()));
	return fmt::format("{:<8} {:<32} {}, {}\n", "speed", subject, size, rate);
}

// Collects what the stages report and, unless it is printed as JSON, prints it at once.
class Results {
public:
	explicit Results(bool json) : json_(json) {}

	void take(const Json& reported) {
		if (reported.contains("finding")) add(finding_of(reported["finding"]));
		if (!reported.contains("speed")) return;
		speed_.push_back(reported["speed"]);
		if (!json_) fmt::print("{}", text_of_speed(reported["speed"]));
		std::fflush(stdout);
	}
	void add(const Finding& finding) {
		works_ &= finding.level != Level::problem;
		findings_.push_back(json_of(finding));
		if (!json_) fmt::print("{}", text_of(finding, "cannot"));
		std::fflush(stdout);
	}

	// Returns the exit code.
	int finish(double seconds) const {
		if (json_)
			fmt::print("{}\n",
				Json{{"works", works_}, {"findings", findings_}, {"speed", speed_}, {"seconds", seconds}}.dump(2));
		else
			fmt::print("\n{} ({:.1f} s)\n",
				works_ ? "RDMA programs run here" : "something does not work here: see the lines 'cannot'", seconds);
		return works_ ? good : failed;
	}

private:
	const bool json_;
	bool works_ = true;
	Json findings_ = Json::array(), speed_ = Json::array();
};

void look_at_machine(const Show& report, Measuring until) {
	const auto all = [&](const Findings& findings) {
		for (const Finding& each : findings) report({{"finding", json_of(each)}});
	};
	all(check_confinement());
	all(check_system_calls());
	all(check_network_and_limits());
	if (const auto rate = measure_udp_loopback(until ? 0.2 : 0); !rate)
		report({{"finding",
			json_of({"UDP sockets", Level::problem, rate.error(),
				"allow UDP on the loopback, and bring it up: ip link set lo up"})}});
	else if (until)
		report({{"speed",
			{{"where", "this host"}, {"transport", "UDP"}, {"gib_s", rate->gib_s}, {"burst_us", rate->burst_us},
				{"offload", rate->offload}}}});
	all({check_devices()});
}

int run(const SelfTestOptions& options) {
	using Clock = std::chrono::steady_clock;
	if (options.is_server || options.is_server_of_other_host) return serve_self_test(options.is_server, options.core);
	const auto start = Clock::now();
	const auto after = [&](double part) {
		return start +
			std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.limit_s * part));
	};
	Results results(options.json);
	const struct {
		const char* name;
		void (*work)(const Show&, Measuring);
		double measure_until;  // as a part of the limit
	} stages[] = {{"the checks", look_at_machine, 1}, {"two processes, this host", try_this_host, 0.4},
		{"two processes, two hosts", try_two_hosts, 0.7}};
	for (const auto& [name, work, part] : stages) {
		const Measuring until = options.no_speed ? Measuring() : after(part);
		const auto failure = run_stage(
			after(1), [&](const Show& report) { work(report, until); },
			[&](const Json& reported) { results.take(reported); });
		if (failure) results.add({name, Level::problem, *failure, "'verbena doctor' looks for the cause"});
	}
	return results.finish(std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace

void add_self_test(CLI::App& app, Action& action) {
	CLI::App* sub = add_command(app, "self-test",
		"Say whether RDMA programs run on this machine or in this container, and how fast: the checks of 'verbena "
		"doctor', then messages between two processes and between two network namespaces");
	sub->footer(
		"Examples:\n"
		"  verbena self-test\n"
		"  verbena self-test --no-speed --limit 60   in a CI job, whose machine may be busy\n"
		"  verbena self-test --json >self-test.json\n"
		"'verbena doctor' explains one missing thing at a time, sends nothing, and looks at programs.\n"
		"Exit codes: 0 if everything works (notes are no failures), 1 if something does not, 2 wrong usage.");
	auto options = std::make_shared<SelfTestOptions>();
	sub->add_flag("--json", options->json, "Print JSON");
	sub->add_flag("--no-speed", options->no_speed, "Check, and measure nothing: about a second");
	sub->add_option("--limit", options->limit_s, "Seconds after which the test gives up")
		->capture_default_str()
		->check(CLI::Range(1.0, 3600.0));
	// Hidden: for the process that this program starts.
	sub->add_flag("--serve-inherited", options->is_server)->group("");
	sub->add_flag("--serve-other-host", options->is_server_of_other_host)->group("");
	sub->add_option("--core", options->core)->group("");
	sub->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace verbena::tools
