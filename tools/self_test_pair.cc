// SPDX-License-Identifier: Apache-2.0
#include "tools/self_test_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/far_end/server.h"
#include "bench/rcud/rows.h"
#include "bench/rcud/server.h"
#include "bench/rcud/session.h"
#include "tools/commands.h"
#include "tools/finding.h"
#include "tools/loopback_device.h"
#include "tools/wire_pair.h"

namespace verbena::tools {
namespace {

using rcud::Cell;
using rcud::Mode;
using rcud::Op;
using rcud::WindowMode;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* advice =
	"'verbena doctor' looks for the cause; VERBENA_LOG=info makes the NIC print its reasons on standard error";

Cell cell_of(Mode mode, Op op, std::uint32_t msg, std::uint32_t window) {
	// Credits keep a sender from overrunning the receiver of SENDs.
	return {.mode = mode,
		.op = op,
		.window_mode = op == Op::send ? WindowMode::credit : WindowMode::local,
		.msg = msg,
		.window = window};
}

std::string name_of(const Cell& cell) {
	std::string op(rcud::name_of(cell.op));
	std::ranges::transform(op, op.begin(), [](unsigned char c) { return std::toupper(c); });
	return fmt::format("{} {}", rcud::name_of(cell.mode), op);
}

// The two processes, and the place of which their findings speak: "this host" or "two hosts".
class Pair {
public:
	Pair(lib::OpenDevice& device, bench::OwnServer& server, bool on_this_host, bool two_cores, const Report& report)
		: where_(on_this_host ? "this host" : "two hosts"),
		  two_cores_(two_cores),
		  client_(device, server.control(), on_this_host ? &server.page() : nullptr),
		  report_(report) {}

	std::uint32_t mtu() const { return client_.limits().mtu; }

	// Messages that arrive whole: every byte of each is compared.
	void check(const Cell& cell, rcud::Connect connect = rcud::Connect::exchange) {
		const std::uint64_t count = 300;
		const auto ran = run(cell, {.iters = count, .warmup = 0, .verify = true, .connect = connect});
		const rcud::Delivery& got = ran.delivery;
		const std::string name = connect == rcud::Connect::rdmacm ? "rdma_cm" : name_of(cell);
		const bool whole = got.delivered == count && got.corrupt == 0 && got.duplicated == 0;
		Finding finding{fmt::format("{}, {}", name, where_), Level::good,
			fmt::format("{} messages of {} bytes arrived, each byte was compared", count, cell.msg), ""};
		if (!ran.failure.empty()) {
			finding = {finding.subject, Level::problem, ran.failure, advice};
		} else if (!whole) {
			finding = {finding.subject, Level::problem,
				fmt::format("of {} messages {} arrived; {} were damaged, {} came twice", count, got.delivered,
					got.corrupt, got.duplicated),
				advice};
		}
		report_({{"finding", json_of(finding)}});
	}

	// Measures nothing after this time, so that a slow machine gets the result of the checks.
	void measure_until(Clock::time_point time) { until_ = time; }

	void measure(const Cell& cell) {
		if (Clock::now() > until_) {
			if (!std::exchange(too_late_, true))
				report_({{"finding",
					json_of({fmt::format("speed, {}", where_), Level::note, "not measured: the machine is slow or busy",
						"--limit gives the test more time"})}});
			return;
		}
		// Fixed numbers, which take 5 to 200 ms on most machines.
		const std::uint64_t count = cell.msg > 4096 ? 2000 : cell.window == 1 ? 1000 : 20'000;
		const auto ran = run(cell, {.iters = count, .warmup = count / 10});
		if (!ran.failure.empty()) {
			report_({{"finding",
				json_of({fmt::format("{}, {}", name_of(cell), where_), Level::problem, ran.failure, advice})}});
			return;
		}
		const double mops = ran.delivery.mops();
		Json speed{{"where", where_}, {"transport", rcud::name_of(cell.mode)}, {"op", rcud::name_of(cell.op)},
			{"bytes", cell.msg}, {"window", cell.window}, {"mops", mops}, {"gib_s", rcud::gib_of(mops, cell.msg)},
			{"us", static_cast<double>(ran.latency_ns.quantile(0.5)) / 1e3},
			{"us_p99", static_cast<double>(ran.latency_ns.quantile(0.99)) / 1e3}};
		if (ran.rtt_before_ns) {
			speed["cores"] = two_cores_ ? bench::class_of(*ran.rtt_before_ns) : "one";
			speed["cache_line_ns"] = *ran.rtt_before_ns;
		}
		report_({{"speed", speed}});
	}

private:
	rcud::Repetition run(const Cell& cell, const rcud::Settings& settings) {
		rcud::Repetition ran;
		const auto shape = rcud::shape_of(cell, settings, client_.limits());
		if (!shape) ran.failure = shape.error();
		else client_.measure(cell, *shape, settings, ran);
		return ran;
	}

	const char* where_;
	bool two_cores_;
	Clock::time_point until_{};
	bool too_late_ = false;
	rcud::Client client_;
	const Report& report_;
};

// Calls `use` with two processes of which this is one. The other one is started in the network
// namespace in which this process is; `moved` is called after that.
void with_pair(bool on_this_host, const Report& report, const std::function<void()>& moved,
	const std::function<void(Pair&)>& use) {
	try {
		std::vector<std::string> arguments{"self-test", on_this_host ? "--serve-inherited" : "--serve-other-host"};
		const auto cores = bench::two_cores();
		if (cores) arguments.insert(arguments.end(), {"--core", std::to_string(cores->second)});
		bench::OwnServer server(arguments);
		moved();
		auto device = bench::take(lib::open_best({.both_ends_on_this_host = on_this_host}));
		if (cores) bench::pin_to(cores->first);
		Pair pair(device, server, on_this_host, cores.has_value(), report);
		use(pair);
	} catch (const std::exception& failure) {
		report({{"finding",
			json_of({on_this_host ? "two processes, this host" : "two processes, two hosts", Level::problem,
				failure.what(), advice})}});
	}
}

}  // namespace

void try_this_host(const Report& report, Measuring until) {
	list_loopback_device();
	with_pair(
		true, report, [] {},
		[until](Pair& pair) {
			for (const Op op : {Op::send, Op::write, Op::read}) pair.check(cell_of(Mode::rc, op, 10'000, 8));
			pair.check(cell_of(Mode::ud, Op::send, std::min(1024u, pair.mtu()), 8));
			pair.check(cell_of(Mode::rc, Op::send, 1000, 8), rcud::Connect::rdmacm);
			if (!until) return;
			pair.measure_until(*until);
			for (const std::uint32_t window : {1u, 64u})
				for (const Op op : {Op::send, Op::write}) pair.measure(cell_of(Mode::rc, op, 64, window));
			pair.measure(cell_of(Mode::ud, Op::send, 64, 64));
			pair.measure(cell_of(Mode::rc, Op::write, 64 << 10, 16));
		});
}

void try_two_hosts(const Report& report, Measuring until) {
	auto wire = WirePair::make();
	if (!wire) {
		report({{"finding",
			json_of({"RoCEv2, two hosts", Level::note, "not tried: " + wire.error(),
				"two network namespaces need root or user namespaces; docs/ci.md says how to allow them in a "
				"container"})}});
		return;
	}
	// The user's choice names devices of the namespace that this process has left.
	unsetenv("VERBENA_DEVICES");
	with_pair(
		false, report, [&] { bench::take(wire->enter_first()); },
		[until](Pair& pair) {
			for (const Op op : {Op::send, Op::write, Op::read}) pair.check(cell_of(Mode::rc, op, 10'000, 8));
			pair.check(cell_of(Mode::ud, Op::send, std::min(1024u, pair.mtu()), 8));
			if (!until) return;
			pair.measure_until(*until);
			pair.measure(cell_of(Mode::rc, Op::send, 64, 1));
			pair.measure(cell_of(Mode::rc, Op::send, 64, 64));
			pair.measure(cell_of(Mode::rc, Op::write, 64 << 10, 16));
		});
}

int serve_self_test(bool on_this_host, int core) {
	if (on_this_host) list_loopback_device();
	bench::InheritedEnds ends;
	auto device = lib::open_best({.both_ends_on_this_host = on_this_host});
	// The other process reports the same error.
	if (!device) return failed;
	if (core >= 0) bench::pin_to(core);
	rcud::serve(*device, ends.control, on_this_host ? &ends.page : nullptr);
	return good;
}

}  // namespace verbena::tools
