// SPDX-License-Identifier: Apache-2.0
// `verbena top` shows the processes of this host that are on the NIC or have channels of the
// library: their traffic, their queue pairs, the credits of their channels, and the peer for which
// each waits.
//
// It asks each process at its doors (base/door.h) and computes rates from two answers.
//
// Errors: exit code 2 if an option makes no sense. No process to show is no error.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "nic/status/door.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/top_channels.h"

namespace verbena::tools {
namespace {

using Json = nlohmann::ordered_json;
using status::Process;
using status::QueuePair;

struct TopOptions {
	double interval = 1;  // seconds
	std::uint64_t count = 0;  // 0: until it is stopped
	bool json = false;
};

constexpr double interval_min = 0.05, interval_max = 3600;
constexpr std::uint64_t bytes_a_word = 4;

struct QueuePairNow {
	const QueuePair* qp;
	const Process* process;
	double sends = 0, receives = 0;  // a second
};

struct ProcessNow {
	const Process* process;
	double bytes_out = 0, bytes_in = 0, packets = 0;  // a second
	std::uint64_t again = 0, not_ready = 0;  // since it began
};

// All processes now, and the rates since an earlier look.
class Look {
public:
	Look(const std::vector<Process>& before, const std::vector<Process>& now) : now_(now) {
		for (const Process& process : before) before_[process.pid] = &process;
		for (const Process& process : now) add(process);
		// The busiest first, and those that wait before those that are idle.
		std::ranges::stable_sort(queue_pairs_, [](const QueuePairNow& a, const QueuePairNow& b) {
			const auto waits = [](const QueuePairNow& each) {
				return each.qp->waits == "receive" || each.qp->waits == "room";
			};
			if (waits(a) != waits(b)) return waits(a);
			return a.sends + a.receives > b.sends + b.receives;
		});
	}
	const std::vector<ProcessNow>& processes() const { return processes_; }
	const std::vector<QueuePairNow>& queue_pairs() const { return queue_pairs_; }

	// "812 server"
	std::string name_of(std::uint32_t pid) const {
		const auto found = std::ranges::find(now_, pid, &Process::pid);
		return found == now_.end() ? fmt::format("{}", pid) : fmt::format("{} {}", pid, found->program);
	}
	std::string peer_of(const QueuePair& qp) const {
		if (qp.peer_qpn == 0) return "-";
		return fmt::format("0x{:x} of {}", qp.peer_qpn, qp.peer_pid ? name_of(qp.peer_pid) : qp.peer_address);
	}
	std::string wait_of(const QueuePair& qp) const {
		const std::string peer = qp.peer_pid ? name_of(qp.peer_pid) : qp.peer_address;
		if (qp.waits == "receive") return fmt::format("a receive of {}", peer);
		if (qp.waits == "room") return fmt::format("room on the way to {}", peer);
		if (qp.waits == "window") return fmt::format("acknowledgements of {} (window full)", peer);
		if (qp.waits == "answer") return fmt::format("{} to answer", peer);
		return {};
	}

private:
	void add(const Process& process) {
		ProcessNow row{.process = &process};
		row.again = process.counter("hw_counters/completer_retry_err");
		row.not_ready = process.counter("hw_counters/rcvd_rnr_err");
		const auto at = before_.find(process.pid);
		const Process* const before = at == before_.end() ? nullptr : at->second;
		const double seconds =
			before && process.time > before->time ? static_cast<double>(process.time - before->time) / 1e9 : 0;
		const auto rate = [&](const char* counter) {
			const std::uint64_t then = before ? before->counter(counter) : 0, now = process.counter(counter);
			return seconds > 0 && now > then ? static_cast<double>(now - then) / seconds : 0.0;
		};
		row.bytes_out = rate("counters/port_xmit_data") * bytes_a_word;
		row.bytes_in = rate("counters/port_rcv_data") * bytes_a_word;
		row.packets = rate("counters/port_xmit_packets") + rate("counters/port_rcv_packets");
		processes_.push_back(row);

		std::map<std::uint32_t, const QueuePair*> then;
		if (before)
			for (const QueuePair& qp : before->queue_pairs) then[qp.qpn] = &qp;
		for (const QueuePair& qp : process.queue_pairs) {
			QueuePairNow each{.qp = &qp, .process = &process};
			const auto old = then.find(qp.qpn);
			if (old != then.end() && seconds > 0) {
				each.sends = (qp.sends_done - old->second->sends_done) / seconds;
				each.receives = (qp.receives_taken - old->second->receives_taken) / seconds;
			}
			queue_pairs_.push_back(each);
		}
	}

	const std::vector<Process>& now_;
	std::map<std::uint32_t, const Process*> before_;
	std::vector<ProcessNow> processes_;
	std::vector<QueuePairNow> queue_pairs_;
};

// All answers at one time.
struct Seen {
	std::vector<Process> on_nic;
	channel::TransportsSeen transports;
};

Seen look_around() {
	const std::vector<door::Found> doors = door::find_all();
	const std::vector<door::Answer> answers = door::ask(doors, geteuid(), door::patience);
	return {.on_nic = status::all_in(doors, answers), .transports = channel::transports_in(doors, answers)};
}

// "1.5M"
std::string short_number(double value) {
	if (value < 999.5) return fmt::format("{:.0f}", value);
	for (const char* const unit : {"k", "M", "G"}) {
		value /= 1000;
		if (value < 99.95) return fmt::format("{:.1f}{}", value, unit);
		if (value < 999.5) return fmt::format("{:.0f}{}", value, unit);
	}
	return fmt::format("{:.0f}T", value / 1000);
}

std::string clock_text() {
	const std::time_t now = std::time(nullptr);
	std::tm local{};
	localtime_r(&now, &local);
	char text[32];
	return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

std::string page(const Look& look, const Channels& channels, const TopOptions& options, std::size_t lines) {
	std::string out = fmt::format("verbena top  {}  {} processes, {} queue pairs  rates of the last {:g} s\n\n",
		clock_text(), look.processes().size(), look.queue_pairs().size(), options.interval);
	const auto put = std::back_inserter(out);
	if (look.processes().empty()) {
		out += "No process of this user is on the NIC in this network namespace.\n";
		return out + channels.page(lines);
	}
	fmt::format_to(put, "{:>8} {:15} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}\n", "PID", "PROGRAM", "QPS", "OUT B/s",
		"IN B/s", "PACKETS/s", "RETRIES", "RNR NAKS");
	for (const ProcessNow& each : look.processes())
		fmt::format_to(put, "{:>8} {:15.15} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}\n", each.process->pid,
			each.process->program, each.process->queue_pairs.size(), short_number(each.bytes_out),
			short_number(each.bytes_in), short_number(each.packets), each.again, each.not_ready);
	fmt::format_to(put, "\n{:>8} {:>8} {:4} {:5} {:>6} {:>6} {:>8} {:>8}  {:31} {}\n", "PID", "QP", "TYPE", "STATE",
		"SENDS", "RECVS", "SENDS/s", "RECVS/s", "PEER", "WAITS FOR");
	const std::size_t used = look.processes().size() + (channels.empty() ? 6 : 9);
	std::size_t room = lines > used ? lines - used : 1;
	// Channels have up to half of the page.
	const std::size_t for_channels = std::min(channels.rows().size(), std::max<std::size_t>(room / 2, 1));
	room = room > for_channels ? room - for_channels : 1;
	for (const QueuePairNow& each : look.queue_pairs()) {
		if (room-- == 0) {
			fmt::format_to(put, "{:>8} more queue pairs\n", "...");
			break;
		}
		const QueuePair& qp = *each.qp;
		fmt::format_to(put, "{:>8} {:>8} {:4} {:5} {:>6} {:>6} {:>8} {:>8}  {:31.31} {}\n", each.process->pid,
			fmt::format("0x{:x}", qp.qpn), qp.type, qp.state, qp.sends_open(), qp.receives_open(),
			short_number(each.sends), short_number(each.receives), look.peer_of(qp), look.wait_of(qp));
	}
	return out + channels.page(for_channels);
}

std::string document(const Look& look, const Channels& channels) {
	Json json{{"time", static_cast<std::int64_t>(std::time(nullptr))}, {"processes", Json::array()}};
	for (const ProcessNow& each : look.processes()) {
		Json process{{"pid", each.process->pid}, {"uid", each.process->uid}, {"program", each.process->program},
			{"bytes_sent_per_second", each.bytes_out}, {"bytes_received_per_second", each.bytes_in},
			{"packets_per_second", each.packets}, {"counters", Json::object()}, {"queue_pairs", Json::array()}};
		for (const auto& [name, value] : each.process->counters) process["counters"][name] = value;
		for (const QueuePairNow& of : look.queue_pairs()) {
			if (of.process != each.process) continue;
			const QueuePair& qp = *of.qp;
			process["queue_pairs"].push_back(
				{{"qp", qp.qpn}, {"type", qp.type}, {"state", qp.state}, {"peer_qp", qp.peer_qpn},
					{"peer_pid", qp.peer_pid}, {"peer_address", qp.peer_address}, {"link", qp.link},
					{"waits_for", qp.waits}, {"sends_open", qp.sends_open()}, {"receives_open", qp.receives_open()},
					{"sends_per_second", of.sends}, {"receives_per_second", of.receives},
					{"retries_left", qp.retries_left}, {"completions_unpolled", qp.unpolled}});
		}
		channels.describe(each.process->pid, process);
		json["processes"].push_back(std::move(process));
	}
	for (const std::uint32_t pid : channels.pids_beside_nic()) {
		Json process{{"pid", pid}, {"uid", channels.user_of(pid)}, {"program", channels.program_of(pid)}};
		channels.describe(pid, process);
		json["processes"].push_back(std::move(process));
	}
	return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

volatile std::sig_atomic_t stopped = 0;

void pause_for(double seconds) {
	timespec left{static_cast<std::time_t>(seconds), static_cast<long>((seconds - static_cast<long>(seconds)) * 1e9)};
	while (!stopped && nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

int watch(TopOptions options) {
	const bool terminal = isatty(STDOUT_FILENO) && !options.json;
	if (options.count == 0 && !isatty(STDOUT_FILENO) && !options.json) options.count = 1;
	for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stopped = 1; });
	Seen before = look_around();
	for (std::uint64_t shown = 0; !stopped && (options.count == 0 || shown < options.count); ++shown) {
		pause_for(options.interval);
		if (stopped) break;
		Seen now = look_around();
		const Look look(before.on_nic, now.on_nic);
		const Channels channels(now.transports, now.on_nic);
		winsize size{};
		std::size_t lines = SIZE_MAX;
		if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0) lines = size.ws_row;
		const std::string text = options.json ? document(look, channels) : page(look, channels, options, lines);
		if (terminal) fmt::print("\033[H\033[2J{}", text);
		else fmt::print("{}", text);
		if (std::fflush(stdout) != 0) return failed;  // the reader has gone
		before = std::move(now);
	}
	return good;
}

}  // namespace

void add_top(CLI::App& app, Action& action) {
	CLI::App* const sub =
		add_command(app, "top", "Show the processes on the NIC: traffic, queue pairs, credits, and who waits for whom");
	sub->footer(
		"Examples:\n"
		"  verbena top                       each second, until Ctrl-C\n"
		"  verbena top --count 1             once, with the rates of one second\n"
		"  verbena top --json --count 1      the same as one JSON object\n"
		"It shows the processes of this user (of all users for root) in this network namespace, and the channels of\n"
		"programs of this project's library also on hardware. On standard output that is no terminal it shows one "
		"page.");
	auto options = std::make_shared<TopOptions>();
	sub->add_option("--interval", options->interval, "Seconds between two pages")
		->check(CLI::Range(interval_min, interval_max))
		->capture_default_str();
	sub->add_option("--count", options->count, "End after so many pages; 0: never")
		->type_name("N")
		->check(CLI::NonNegativeNumber);
	sub->add_flag("--json", options->json, "Print a JSON object a line instead of pages");
	sub->callback([options, &action] { action = [options] { return watch(*options); }; });
}

}  // namespace verbena::tools
