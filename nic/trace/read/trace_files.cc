// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/trace_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>

#include "nic/trace/read/mapped_file.h"

namespace verbena::trace {
namespace {

// The text up to the first NUL, with characters that a terminal would obey replaced.
std::string clean(std::string_view text) {
	std::string out(text.substr(0, text.find('\0')));
	for (char& c : out)
		if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
	return out;
}

bool carries_text(Kind kind) { return kind == Kind::verb || kind == Kind::refusal || kind == Kind::why; }

// Copies the bytes that follow the record at `position`; the ring may end between them.
std::string bytes_after(const MappedFile& file, std::uint64_t position, std::uint32_t records, std::uint64_t capacity) {
	std::string out;
	for (std::uint32_t i = 1; i <= records; ++i) {
		const auto* const at = file.bytes().data() + FileHead::bytes + (position + i) % capacity * sizeof(Record);
		out.append(reinterpret_cast<const char*>(at), sizeof(Record));
	}
	return out;
}

std::optional<Process> read_head(const MappedFile& file, std::uint64_t& capacity, std::uint64_t& records) {
	if (file.bytes().size() < FileHead::bytes) return std::nullopt;
	const auto& head = *reinterpret_cast<const FileHead*>(file.bytes().data());
	capacity = head.capacity;
	if (head.magic != FileHead::magic_value || capacity == 0) return std::nullopt;
	if (capacity > (file.bytes().size() - FileHead::bytes) / sizeof(Record)) return std::nullopt;
	records = head.records.load(std::memory_order_acquire);
	return Process{.pid = head.pid,
		.program = clean({head.program, sizeof head.program}),
		.began = head.began,
		.epoch = head.epoch,
		.written = head.events.load(std::memory_order_relaxed)};
}

void read_file(const MappedFile& file, Trace& trace) {
	std::uint64_t capacity = 0, end = 0;
	auto process = read_head(file, capacity, end);
	if (!process) return;
	const std::size_t index = trace.processes.size();
	const std::size_t before = trace.events.size();
	for (std::uint64_t at = end > capacity ? end - capacity : 0; at < end;) {
		Record record;
		std::memcpy(&record, file.bytes().data() + FileHead::bytes + at % capacity * sizeof record, sizeof record);
		const bool whole = record.sequence == static_cast<std::uint32_t>(at) + 1 && record.kind != Kind::none &&
			record.kind < Kind::count && at + record.more < end;
		if (!whole) {  // bytes of an event that is gone, or an event that was never finished
			++at;
			continue;
		}
		Event event{.record = record, .process = index, .bytes = bytes_after(file, at, record.more, capacity)};
		if (carries_text(record.kind) && record.kind != Kind::verb) event.bytes = clean(event.bytes);
		trace.events.push_back(std::move(event));
		at += 1 + std::uint64_t{record.more};
	}
	process->dropped = process->written - std::min(process->written, trace.events.size() - before);
	trace.processes.push_back(std::move(*process));
}

// Gives each refused call its reason: the refusal that the same thread wrote last, during the call.
void join_reasons(Trace& trace) {
	std::map<std::pair<std::size_t, std::uint32_t>, Event*> calls;
	for (Event& event : trace.events) {
		const std::pair thread(event.process, event.record.thread);
		const Kind kind = event.record.kind;
		if (kind == Kind::refusal) {
			const auto call = calls.find(thread);
			if (call == calls.end()) continue;
			const Record& r = call->second->record;
			if (r.kind == Kind::verb && event.record.time > r.time + r.address) continue;
			call->second->reason = event.bytes;
			event.record.kind = Kind::none;
		} else if (event.failed() &&
			(kind == Kind::verb || kind == Kind::posted_send || kind == Kind::posted_receive)) {
			calls[thread] = &event;
		}
	}
	std::erase_if(trace.events, [](const Event& event) { return event.record.kind == Kind::none; });
}

// Finds for each request that finished or was polled the time at which it was posted. The requests
// of a queue pair finish in the order in which they were posted.
class Lives {
public:
	void take(Event& event) {
		const Record& r = event.record;
		const std::pair queue(event.process, r.qpn);
		if (r.kind == Kind::posted_send && r.status == 0) posted_[queue].push_back({r.id, r.time, 0});
		if (r.kind == Kind::finished) finish(queue, event);
		if (r.kind == Kind::received) completed_receives_[queue].push_back({r.id, 0, r.time});
		if (r.kind == Kind::polled) poll(queue, event);
	}

private:
	struct Life {
		std::uint64_t id, posted, completed;
	};
	using Queue = std::pair<std::size_t, std::uint32_t>;
	using Lists = std::map<Queue, std::deque<Life>>;

	static std::optional<Life> take_out(Lists& lists, const Queue& queue, std::uint64_t id) {
		std::deque<Life>& list = lists[queue];
		const auto at = std::ranges::find(list, id, &Life::id);
		if (at == list.end()) return std::nullopt;
		const Life found = *at;
		list.erase(list.begin(), at + 1);
		return found;
	}
	void finish(const Queue& queue, Event& event) {
		auto life = take_out(posted_, queue, event.record.id);
		if (life && event.record.time >= life->posted) event.since_post = event.record.time - life->posted;
		if (event.record.flags & flag_signaled)
			completed_sends_[queue].push_back({event.record.id, life ? life->posted : 0, event.record.time});
	}
	void poll(const Queue& queue, Event& event) {
		const bool receive = event.record.code >= 128;
		const auto life = take_out(receive ? completed_receives_ : completed_sends_, queue, event.record.id);
		if (!life || event.record.time < life->completed) return;
		event.since_completion = event.record.time - life->completed;
		if (life->posted) event.since_post = event.record.time - life->posted;
	}

	Lists posted_, completed_sends_, completed_receives_;
};

}  // namespace

std::string_view Event::part(std::size_t index) const {
	std::string_view rest = bytes;
	for (; index != 0; --index) {
		const std::size_t end = rest.find('\0');
		if (end == std::string_view::npos) return {};
		rest.remove_prefix(end + 1);
	}
	return rest.substr(0, rest.find('\0'));
}

bool Event::failed() const {
	switch (record.kind) {
		case Kind::verb: return record.number != 0;
		case Kind::refusal:
		case Kind::why:
		case Kind::fault: return true;
		case Kind::posted_send:
		case Kind::posted_receive:
		case Kind::finished:
		case Kind::received:
		case Kind::polled: return record.status != 0;
		case Kind::sent:
		case Kind::arrived:
		case Kind::acknowledged:
		case Kind::acknowledgement: return (record.status & 0x60) != 0;  // an RNR NAK or a NAK
		case Kind::waits: return record.code != static_cast<std::uint8_t>(Wait::room);
		default: return false;
	}
}

const Process* Trace::owner_of(std::uint32_t qpn) const {
	for (const Event& event : events) {
		const Kind kind = event.record.kind;
		const bool owns = kind == Kind::posted_send || kind == Kind::posted_receive || kind == Kind::sent ||
			kind == Kind::finished || kind == Kind::received || kind == Kind::acknowledged;
		if (owns && event.record.qpn == qpn) return &processes[event.process];
	}
	return nullptr;
}

std::uint64_t Trace::written() const {
	std::uint64_t sum = 0;
	for (const Process& process : processes) sum += process.written;
	return sum;
}

std::uint64_t Trace::dropped() const {
	std::uint64_t sum = 0;
	for (const Process& process : processes) sum += process.dropped;
	return sum;
}

std::expected<Trace, std::string> read_trace(const std::string& path) {
	std::vector<std::string> names;
	std::error_code error;
	if (std::filesystem::is_directory(path, error)) {
		for (const auto& entry : std::filesystem::directory_iterator(path, error))
			if (entry.path().extension() == ".trace") names.push_back(entry.path());
	} else {
		names.push_back(path);
	}
	Trace trace;
	for (const std::string& name : names) {
		const MappedFile file(name);
		if (file.error()) return std::unexpected(name + ": " + std::strerror(file.error()));
		read_file(file, trace);
	}
	std::ranges::stable_sort(trace.events, {}, [](const Event& event) { return event.record.time; });
	join_reasons(trace);
	Lives lives;
	for (Event& event : trace.events) lives.take(event);
	return trace;
}

bool Filter::shows(const Event& event) const {
	if (errors && !event.failed()) return false;
	const bool is_verb = event.record.kind == Kind::verb;
	if (!verbs.empty() && (!is_verb || std::ranges::find(verbs, event.part(0)) == verbs.end())) return false;
	if (queue_pairs.empty()) return true;
	for (const std::uint32_t qpn : queue_pairs) {
		if (!is_verb && (event.record.qpn == qpn || event.record.peer == qpn)) return true;
		char name[24];
		std::snprintf(name, sizeof name, "qp 0x%x", qpn);
		if (is_verb && (event.part(1).find(name) != std::string_view::npos || event.part(2) == name)) return true;
	}
	return false;
}

std::expected<Filter, std::string> parse_filter(std::string_view text) {
	Filter filter;
	while (!text.empty()) {
		const std::string_view word = text.substr(0, text.find(','));
		text.remove_prefix(std::min(word.size() + 1, text.size()));
		if (word == "errors") {
			filter.errors = true;
		} else if (word.starts_with("verb=") && word.size() > 5) {
			const std::string name(word.substr(5));
			filter.verbs.push_back(name.starts_with("ibv_") ? name : "ibv_" + name);
		} else if (word.starts_with("qp=")) {
			std::string_view number = word.substr(3);
			const bool hexadecimal = number.starts_with("0x");
			if (hexadecimal) number.remove_prefix(2);
			std::uint32_t qpn = 0;
			const auto read = std::from_chars(number.begin(), number.end(), qpn, hexadecimal ? 16 : 10);
			if (read.ec != std::errc{} || read.ptr != number.end())
				return std::unexpected("'" + std::string(word) + "' has no number of a queue pair");
			filter.queue_pairs.push_back(qpn);
		} else {
			return std::unexpected("'" + std::string(word) + "' is none of qp=NUMBER, verb=NAME and errors");
		}
	}
	return filter;
}

}  // namespace verbena::trace
