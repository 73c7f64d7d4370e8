// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/timeline.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "nic/trace/read/json_members.h"
#include "nic/trace/read/text.h"

namespace verbena::trace {
namespace {

std::string quoted(const std::string& text) {
	return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

// Writes the events of a time line in their order.
class TimelineWriter {
public:
	explicit TimelineWriter(const std::vector<Timeline::Event>& events) : events_(events) {}

	std::string run() {
		out_ = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
		for (const Event& event : events_) {
			name_process(event);
			if (event.kind == "verb") verb(event);
			else if (event.kind == "post_send" && !event.failed) post(event);
			else if (event.kind == "finished") finish(event);
			else if (event.kind == "polled") poll(event);
			else if (event.kind == "sent" || event.kind == "acknowledged") packet(event, true);
			else if (event.kind == "arrived" || event.kind == "acknowledgement") packet(event, false);
			// Receives are posted by the hundred.
			else if (event.kind != "post_recv" || event.failed) moment(event);
		}
		return std::move(out_) + "\n]}\n";
	}

private:
	using Event = Timeline::Event;
	using Owner = std::pair<std::uint32_t, std::uint32_t>;  // process and queue pair

	// Rows of queue pairs have numbers that no thread has (its limit is 2^22).
	static std::uint64_t packet_row(std::uint32_t qpn) { return (std::uint64_t{1} << 24) + qpn; }

	// Times are microseconds since the first event, so that a double holds them to the nanosecond.
	double at(std::uint64_t time) const { return static_cast<double>(time - events_.front().time) / 1e3; }

	template <class... Values> void put(fmt::format_string<Values...> format, Values&&... values) {
		out_ += first_ ? "\n{" : ",\n{";
		first_ = false;
		fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
		out_ += '}';
	}
	void name_process(const Event& e) {
		if (named_.insert({e.pid, 0}).second)
			put(R"("ph": "M", "name": "process_name", "pid": {}, "args": {{"name": {}}})", e.pid, quoted(e.program));
	}
	void name_packets(const Event& e) {
		if (named_.insert({e.pid, packet_row(e.qp)}).second)
			put(R"("ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": "qp 0x{:x} packets"}})",
				e.pid, packet_row(e.qp), e.qp);
	}

	void verb(const Event& e) {
		put(R"("ph": "X", "cat": "verb", "name": {}, "pid": {}, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, )"
			R"("args": {{"line": {}}})",
			quoted(e.failed ? e.name + " refused" : e.name), e.pid, e.thread, at(e.time),
			static_cast<double>(e.took) / 1e3, quoted(e.line));
	}
	void async(const char* phase, const Event& e, std::uint64_t id, const std::string& name, std::uint64_t time) {
		put(R"("ph": "{}", "cat": "request", "id2": {{"local": "{}"}}, "name": {}, "pid": {}, "tid": {}, "ts": {:.3f}, )"
			R"("args": {{"line": {}}})",
			phase, id, quoted(fmt::format("qp 0x{:x} {}", e.qp, name)), e.pid, e.thread, at(time), quoted(e.line));
	}
	void post(const Event& e) {
		async("b", e, ++async_ids_, e.name, e.time);
		posted_[{e.pid, e.qp}].push_back({e.wr_id, async_ids_, e.name});
	}
	// The requests of a queue pair finish in the order of their posts. A post may be missing, if it
	// was dropped.
	void finish(const Event& e) {
		auto& queue = posted_[{e.pid, e.qp}];
		const auto found = std::ranges::find(queue, e.wr_id, &Posted::wr_id);
		if (found == queue.end()) return moment(e);
		async("e", e, found->id, found->name, e.time);
		queue.erase(found);
		if (e.failed) moment(e);
	}
	void poll(const Event& e) {
		const std::uint64_t begin = e.time - std::min(e.took, e.time - events_.front().time);
		const std::string name = e.name.starts_with("RECV") ? "received, not polled" : "completed, not polled";
		async("b", e, ++async_ids_, name, begin);
		async("e", e, async_ids_, name, e.time);
	}
	void packet(const Event& e, bool leaves) {
		name_packets(e);
		put(R"("ph": "X", "cat": "packet", "name": {}, "pid": {}, "tid": {}, "ts": {:.3f}, "dur": 0.001, )"
			R"("args": {{"line": {}}})",
			quoted(fmt::format("{} {}", leaves ? "->" : "<-", e.name)), e.pid, packet_row(e.qp), at(e.time),
			quoted(e.line));
		const Flight flight{leaves ? e.qp : e.peer, leaves ? e.peer : e.qp, e.psn, e.name};
		if (leaves) {
			flights_[flight] = ++flow_ids_;
			flow("s", e, flow_ids_);
		} else if (const auto sent = flights_.find(flight); sent != flights_.end()) {
			flow("f", e, sent->second);
		}
	}
	void flow(const char* phase, const Event& e, std::uint64_t id) {
		put(R"("ph": "{}", "bp": "e", "cat": "packet", "name": "flight", "id": {}, "pid": {}, "tid": {}, "ts": {:.3f})",
			phase, id, e.pid, packet_row(e.qp), at(e.time));
	}
	// Everything else, and each failure: a mark on the row of its thread.
	void moment(const Event& e) {
		put(R"("ph": "i", "s": "{}", "cat": {}, "name": {}, "pid": {}, "tid": {}, "ts": {:.3f}, )"
			R"("args": {{"line": {}}})",
			e.failed ? 'p' : 't', quoted(e.kind), quoted(e.failed ? e.line : e.kind), e.pid, e.thread, at(e.time),
			quoted(e.line));
	}

	struct Posted {
		std::uint64_t wr_id, id;
		std::string name;
	};
	using Flight = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::string>;

	const std::vector<Event>& events_;
	std::string out_;
	bool first_ = true;
	std::uint64_t async_ids_ = 0, flow_ids_ = 0;
	std::set<std::pair<std::uint32_t, std::uint64_t>> named_;
	std::map<Owner, std::deque<Posted>> posted_;
	std::map<Flight, std::uint64_t> flights_;  // the latest packet of each
};

void Timeline::add(const Trace& trace) { add_lines(trace::render(trace, Format::json)); }

bool Timeline::add_line(std::string_view line) {
	const auto json = nlohmann::json::parse(line, nullptr, false);
	if (!json.is_object()) return false;
	Event event{.time = number_in<std::uint64_t>(json, "time_ns"),
		.wr_id = number_in<std::uint64_t>(json, "wr_id"),
		.pid = number_in<std::uint32_t>(json, "pid"),
		.thread = number_in<std::uint32_t>(json, "thread"),
		.qp = number_in<std::uint32_t>(json, "qp"),
		.peer = number_in<std::uint32_t>(json, "peer_qp"),
		.psn = number_in<std::uint32_t>(json, "psn"),
		.failed = json.value("failed", nlohmann::json()) == nlohmann::json(true),
		.program = text_in(json, "program"),
		.kind = text_in(json, "event"),
		.line = text_in(json, "line")};
	if (event.time == 0 || event.kind.empty()) return false;
	event.took = number_in<std::uint64_t>(json, event.kind == "verb" ? "ns" : "ns_since_completion");
	event.name = text_in(json, event.kind == "verb" ? "verb" : "opcode");
	if (event.name.empty()) event.name = "ACK";  // an acknowledgement without a packet
	events_.push_back(std::move(event));
	return true;
}

std::size_t Timeline::add_lines(std::string_view lines) {
	const std::size_t before = events_.size();
	while (!lines.empty()) {
		const std::string_view line = lines.substr(0, lines.find('\n'));
		lines.remove_prefix(std::min(line.size() + 1, lines.size()));
		if (line.starts_with('{')) add_line(line);
	}
	return events_.size() - before;
}

std::string Timeline::render() {
	std::ranges::stable_sort(events_, {}, &Event::time);
	return TimelineWriter(events_).run();
}

}  // namespace verbena::trace
