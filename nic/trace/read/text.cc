// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/text.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "nic/trace/read/json_members.h"
#include "nic/trace/read/names.h"

namespace verbena::trace {
namespace {

constexpr std::string_view why_mark = " why: ";
constexpr std::string_view head_mark = "# trace of ";

// "1.5 us", with a unit that suits.
std::string duration(std::uint64_t ns) {
	if (ns < 1000) return fmt::format("{} ns", ns);
	const double us = static_cast<double>(ns) / 1e3;
	if (us < 1e3) return fmt::format("{:.1f} us", us);
	return us < 1e6 ? fmt::format("{:.1f} ms", us / 1e3) : fmt::format("{:.2f} s", us / 1e6);
}

std::string verb_text(const Event& event) {
	std::string text = fmt::format("{}({})", event.part(0), event.part(1));
	if (!event.part(2).empty()) text += fmt::format(" = {}", event.part(2));
	if (event.record.number != 0) text += fmt::format(" {}", errno_name(event.record.number));
	constexpr std::uint64_t worth_a_word = 100'000;
	if (event.record.address > worth_a_word) text += fmt::format(" after {}", duration(event.record.address));
	if (!event.reason.empty()) text += fmt::format(": {}", event.reason);
	return text;
}

std::string remote(const Record& r) {
	return r.key || r.address ? fmt::format(", address 0x{:x} rkey 0x{:x}", r.address, r.key) : std::string();
}

std::string packet_text(const Record& r, const char* arrow) {
	const bool answers = (r.code & 0x1f) >= 0x0d && (r.code & 0x1f) <= 0x12 && r.code < 0x20;
	std::string text =
		fmt::format("qp 0x{:x} {} 0x{:x}: {} psn 0x{:06x}", r.qpn, arrow, r.peer, packet_name(r.code, r.count), r.psn);
	if (r.count > 1) text += fmt::format(" and the {} that follow", r.count - 1);
	if (r.length) text += fmt::format(", {} bytes", r.length);
	if (answers && r.code != 0x0e) text += fmt::format(", {}", syndrome_name(r.status));
	return text + remote(r) + (r.flags & flag_local ? "" : ", UDP");
}

std::string post_text(const Event& event) {
	const Record& r = event.record;
	std::string text = r.kind == Kind::posted_send
		? fmt::format("qp 0x{:x} posts {} wr_id {}, {} bytes", r.qpn, work_request_name(r.code), r.id, r.length)
		: fmt::format("{} posts RECV wr_id {}, {} bytes",
			  r.qpn ? fmt::format("qp 0x{:x}", r.qpn) : fmt::format("srq 0x{:x}", r.address), r.id, r.length);
	if (r.kind == Kind::posted_send) {
		text += remote(r);
		text += r.flags & 2 ? ", signaled" : "";
	}
	if (r.status) text += fmt::format(" = {}", errno_name(r.status));
	return event.reason.empty() ? text : text + ": " + event.reason;
}

std::string finish_text(const Event& event) {
	const Record& r = event.record;
	std::string text = fmt::format("qp 0x{:x} finishes {} wr_id {}", r.qpn, work_request_name(r.code), r.id);
	if (r.flags & flag_direct) text += " in the peer's memory";
	else if (r.count) text += fmt::format(", psn 0x{:06x}, {} packets", r.psn, r.count);
	if (event.since_post) text += fmt::format(", {} after its post", duration(*event.since_post));
	return fmt::format("{}: {}{}", text, status_name(r.status), r.flags & flag_unasked ? ", no completion" : "");
}

std::string poll_text(const Event& event) {
	const Record& r = event.record;
	std::string text =
		fmt::format("qp 0x{:x} polled {} wr_id {}: {}", r.qpn, completion_name(r.code), r.id, status_name(r.status));
	if (event.since_completion) text += fmt::format(", {} after its completion", duration(*event.since_completion));
	return text;
}

std::string wait_text(const Record& r) {
	static constexpr const char* whys[] = {"waits for room on the link", "waits: the peer has no receive posted",
		"waits: no queue pair of the peer can receive", "sends again"};
	std::string text = fmt::format("qp 0x{:x} {}", r.qpn, r.code < std::size(whys) ? whys[r.code] : "waits");
	if (r.code != 0) text += fmt::format(", from psn 0x{:06x}", r.psn);
	if (r.address) text += fmt::format(", for {}", duration(r.address));
	return text;
}

constexpr std::string_view fault_names[] = {
	"lost", "partition", "duplicated", "reordered", "corrupted", "line_full", "rnr", "qp_error"};
static_assert(std::size(fault_names) == static_cast<std::size_t>(Fault::count));

std::string_view fault_name(std::uint8_t code) { return code < std::size(fault_names) ? fault_names[code] : "?"; }

std::string fault_text(const Record& r) {
	std::string text = fmt::format("qp 0x{:x} {} 0x{:x}: fault {}: {} psn 0x{:06x}", r.qpn,
		r.code == static_cast<std::uint8_t>(Fault::not_ready) ? "<-" : "->", r.peer, fault_name(r.code),
		packet_name(r.status), r.psn);
	if (r.key) text += fmt::format(" (packet {} of queue pair {})", r.number, r.key);
	if (r.id) text += fmt::format(", sent {} time{} before", r.id, r.id == 1 ? "" : "s");
	return text;
}

constexpr std::string_view unkind_names[] = {
	"placement", "gather", "reads", "atomics", "completions", "events", "datagrams", "connections", "receives"};
static_assert(std::size(unkind_names) == static_cast<std::size_t>(Unkindness::count));

std::string_view unkind_name(std::uint8_t code) { return code < std::size(unkind_names) ? unkind_names[code] : "?"; }

std::string unkind_text(const Record& r) {
	std::string text = r.qpn ? fmt::format("qp 0x{:x} ", r.qpn) : std::string();
	text += fmt::format("adversary {}: ", unkind_name(r.code));
	const bool event = r.code == static_cast<std::uint8_t>(Unkindness::events);
	if (r.code == static_cast<std::uint8_t>(Unkindness::receives)) return text + "a later receive goes first";
	if (r.address == 0 && r.number == 0) return text + (event ? "an event for nothing" : "lost");
	text += "holds back";
	if (r.length) text += fmt::format(" {} bytes", r.length);
	if (r.number) text += fmt::format(" for {} observations", r.number);
	if (r.address) text += fmt::format("{} {}", r.number ? " or" : " for", duration(r.address));
	return text;
}

std::string describe(const Event& event) {
	const Record& r = event.record;
	switch (r.kind) {
		case Kind::verb: return verb_text(event);
		case Kind::refusal: return fmt::format("refused, {}: {}", errno_name(r.number), event.bytes);
		case Kind::posted_send:
		case Kind::posted_receive: return post_text(event);
		case Kind::sent: return packet_text(r, "->");
		case Kind::arrived: return packet_text(r, "<-");
		case Kind::acknowledged:
			return fmt::format("qp 0x{:x} -> 0x{:x}: {} psn 0x{:06x}", r.qpn, r.peer, syndrome_name(r.status), r.psn);
		case Kind::acknowledgement:
			return fmt::format("qp 0x{:x} <- 0x{:x}: {} psn 0x{:06x}", r.qpn, r.peer, syndrome_name(r.status), r.psn);
		case Kind::finished: return finish_text(event);
		case Kind::received:
			return fmt::format(
				"qp 0x{:x} receives wr_id {}, {} bytes: {}", r.qpn, r.id, r.length, status_name(r.status));
		case Kind::polled: return poll_text(event);
		case Kind::waits: return wait_text(r);
		case Kind::why: return fmt::format("why: {}", event.bytes);
		case Kind::fault: return fault_text(r);
		case Kind::unkind: return unkind_text(r);
		default: return {};
	}
}

constexpr std::string_view kind_names[] = {"", "verb", "refusal", "post_send", "post_recv", "sent", "arrived",
	"acknowledged", "acknowledgement", "finished", "received", "polled", "waits", "why", "asynchronous", "fault",
	"unkind"};
static_assert(std::size(kind_names) == static_cast<std::size_t>(Kind::count));

void add_message(nlohmann::ordered_json& json, const Event& event) {
	const Record& r = event.record;
	json["wr_id"] = r.id;
	json["bytes"] = r.length;
	if (r.kind == Kind::posted_send || r.kind == Kind::posted_receive) {
		if (r.status) json["errno"] = errno_name(r.status);
	} else {
		json["status"] = status_name(r.status);
	}
	if (event.since_post) json["ns_since_post"] = *event.since_post;
	if (event.since_completion) json["ns_since_completion"] = *event.since_completion;
}

void add_fields(nlohmann::ordered_json& json, const Event& event) {
	const Record& r = event.record;
	if (r.qpn) json["qp"] = r.qpn;
	if (r.peer) json["peer_qp"] = r.peer;
	switch (r.kind) {
		case Kind::verb:
			json["verb"] = event.part(0);
			json["arguments"] = event.part(1);
			json["result"] = event.part(2);
			json["ns"] = r.address;
			if (r.number) json["errno"] = errno_name(r.number);
			break;
		case Kind::refusal: json["errno"] = errno_name(r.number); [[fallthrough]];
		case Kind::why: json["text"] = event.bytes; break;
		case Kind::posted_send:
		case Kind::finished: json["opcode"] = work_request_name(r.code); [[fallthrough]];
		case Kind::posted_receive:
		case Kind::received: add_message(json, event); break;
		case Kind::polled:
			json["opcode"] = completion_name(r.code);
			add_message(json, event);
			break;
		case Kind::sent:
		case Kind::arrived:
			json["opcode"] = packet_name(r.code, r.count);
			json["packets"] = r.count;
			json["bytes"] = r.length;
			json["link"] = r.flags & flag_local ? "memory" : "udp";
			[[fallthrough]];
		case Kind::acknowledged:
		case Kind::acknowledgement:
			json["psn"] = r.psn;
			json["syndrome"] = r.status;
			break;
		case Kind::waits: json["ns"] = r.address; break;
		case Kind::fault:
			json["fault"] = fault_name(r.code);
			json["opcode"] = packet_name(r.status);
			json["psn"] = r.psn;
			json["queue_pair"] = r.key;
			json["packet"] = r.number;
			json["times_before"] = r.id;
			break;
		case Kind::unkind:
			json["unkindness"] = unkind_name(r.code);
			json["bytes"] = r.length;
			json["observations"] = r.number;
			json["ns"] = r.address;
			break;
		default: break;
	}
	if (r.kind == Kind::finished) {
		json["psn"] = r.psn;
		json["packets"] = r.count;
		json["direct"] = (r.flags & flag_direct) != 0;
	}
	if (r.key && r.kind != Kind::fault) json["remote_address"] = r.address, json["rkey"] = r.key;
	if (!event.reason.empty()) json["reason"] = event.reason;
}

std::string json_line(const Trace& trace, const Event& event) {
	const Process& process = trace.processes[event.process];
	nlohmann::ordered_json json{{"time_ns", event.record.time + process.epoch}, {"pid", process.pid},
		{"program", process.program}, {"thread", event.record.thread},
		{"event", kind_names[static_cast<std::size_t>(event.record.kind)]}};
	add_fields(json, event);
	json["failed"] = event.failed();
	json["line"] = describe(event);
	// A program's name may be no UTF-8.
	return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string head_line(const Trace& trace) {
	std::string text = fmt::format("{}{} process{}, {} events", head_mark, trace.processes.size(),
		trace.processes.size() == 1 ? "" : "es", trace.written());
	if (trace.dropped()) text += fmt::format("; the oldest {} were dropped", trace.dropped());
	return text;
}

// The number of receives from `first` on that were posted one after the other and look the same.
std::size_t equal_receives(const std::vector<Event>& events, std::size_t first) {
	const auto same = [&](const Event& other) {
		const Record &a = events[first].record, &b = other.record;
		return b.kind == Kind::posted_receive && other.process == events[first].process && b.qpn == a.qpn &&
			b.id == a.id && b.length == a.length && b.address == a.address && b.status == 0;
	};
	std::size_t end = first;
	while (end < events.size() && same(events[end])) ++end;
	return end - first;
}

void append_once(std::vector<std::string>& list, std::string text) {
	if (std::ranges::find(list, text) == list.end()) list.push_back(std::move(text));
}

}  // namespace

std::string render(const Trace& trace, Format format, const Filter& filter) {
	std::string out;
	std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
	std::size_t width = 0;
	for (const Process& process : trace.processes) {
		begin = std::min(begin, process.began);
		width = std::max(width, process.program.size());
	}
	if (format == Format::text) out += head_line(trace) + '\n';
	for (std::size_t i = 0; i < trace.events.size(); ++i) {
		const Event& event = trace.events[i];
		if (!filter.shows(event)) continue;
		if (format == Format::json) {
			out += json_line(trace, event) + '\n';
			continue;
		}
		const std::size_t times = equal_receives(trace.events, i);
		if (times > 1) i += times - 1;
		const Process& process = trace.processes[event.process];
		const std::uint64_t time = event.record.time - std::min(begin, event.record.time);
		fmt::format_to(std::back_inserter(out), "{:5}.{:09} {:7} {:{}}  {}{}\n", time / 1'000'000'000,
			time % 1'000'000'000, process.pid, process.program, width, describe(event),
			times > 1 ? fmt::format(", {} times", times) : "");
	}
	return out;
}

std::vector<std::string> explanations(const Trace& trace) {
	std::vector<std::string> all;
	for (const Event& event : trace.events)
		if (event.record.kind == Kind::why) append_once(all, event.bytes);
	return all;
}

std::optional<std::vector<std::string>> explanations_in(std::string_view rendered) {
	std::vector<std::string> all;
	bool is_trace = rendered.empty();
	while (!rendered.empty()) {
		const std::string_view line = rendered.substr(0, rendered.find('\n'));
		rendered.remove_prefix(std::min(line.size() + 1, rendered.size()));
		if (line.starts_with('{')) {
			const auto json = nlohmann::json::parse(line, nullptr, false);
			const std::string event = text_in(json, "event");
			is_trace |= !event.empty();
			if (event == "why") append_once(all, text_in(json, "text"));
		} else if (line.starts_with(head_mark)) {
			is_trace = true;
		} else if (const std::size_t at = line.find(why_mark); at != std::string_view::npos) {
			append_once(all, std::string(line.substr(at + why_mark.size())));
		}
	}
	if (!is_trace) return std::nullopt;
	return all;
}

}  // namespace verbena::trace
