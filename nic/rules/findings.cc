// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/findings.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/descriptor.h"
#include "base/kept_errno.h"
#include "nic/rules/text.h"

namespace verbena::rules {
namespace {

std::string quoted(std::string_view plain) {
	std::string out = "\"";
	for (const char c : plain) {
		if (c == '"' || c == '\\') out += '\\';
		if (static_cast<unsigned char>(c) < 0x20) out += text("\\u%04x", static_cast<unsigned>(c));
		else out += c;
	}
	return out + '"';
}

// A frame as the file that contains the code, and the offset in it: addresses differ from run to
// run. The offset is that of the call, which ends before the return address.
struct Frame {
	std::string module;
	std::uintptr_t offset = 0;
	std::string function;  // if it is exported
};

Frame frame_of(std::uintptr_t address) {
	Dl_info info{};
	if (!dladdr(reinterpret_cast<const void*>(address - 1), &info) || !info.dli_fname) return {"", address, ""};
	Frame frame{info.dli_fname, address - 1 - reinterpret_cast<std::uintptr_t>(info.dli_fbase),
		info.dli_sname ? info.dli_sname : ""};
	char path[4096];
	// The program's own name is the word by which it was called.
	if (const ssize_t size =
			frame.module.contains('/') && frame.module[0] == '/' ? 0 : readlink("/proc/self/exe", path, sizeof path);
		size > 0)
		frame.module.assign(path, static_cast<std::size_t>(size));
	return frame;
}

std::string stack_json(const Stack& stack) {
	std::string out = "[";
	for (const std::uintptr_t address : stack.all()) {
		const Frame frame = frame_of(address);
		if (out.size() > 1) out += ',';
		out += "{\"module\":" + quoted(frame.module) + ",\"offset\":" + std::to_string(frame.offset) +
			",\"function\":" + quoted(frame.function) + '}';
	}
	return out + ']';
}

std::string stack_text(const Stack& stack) {
	std::string out;
	int number = 0;
	for (const std::uintptr_t address : stack.all()) {
		const Frame frame = frame_of(address);
		out += text("    #%d %s (%s+0x%zx)\n", number++, frame.function.empty() ? "?" : frame.function.c_str(),
			frame.module.c_str(), frame.offset);
	}
	return out;
}

}  // namespace

std::string Findings::line_of(
	std::uint32_t number, Rule rule, Site at, const std::string& what, const std::vector<Note>& notes) const {
	const RuleFacts& facts = facts_of(rule);
	std::string out = text("{\"finding\":%u,\"pid\":%d,\"program\":", number, getpid());
	out += quoted(program_invocation_short_name);
	out += ",\"rule\":" + quoted(facts.id) + ",\"severity\":" + quoted(name_of(facts.severity)) +
		",\"what\":" + quoted(what) + ",\"why\":" + quoted(facts.why) +
		",\"stack\":" + stack_json(sites_.stack_of(at)) + ",\"notes\":[";
	for (const Note& note : notes) {
		if (&note != notes.data()) out += ',';
		out += "{\"text\":" + quoted(note.text) + ",\"stack\":" + stack_json(sites_.stack_of(note.site)) + '}';
	}
	return out + "]}\n";
}

std::string Findings::text_of(Rule rule, Site at, const std::string& what, const std::vector<Note>& notes) const {
	const RuleFacts& facts = facts_of(rule);
	std::string out = "verbena: check: ";
	out.append(facts.id).append(" (").append(name_of(facts.severity)).append("): ").append(what);
	out.append("\n  ").append(facts.why).append("\n").append(stack_text(sites_.stack_of(at)));
	for (const Note& note : notes) out.append("  " + note.text + '\n').append(stack_text(sites_.stack_of(note.site)));
	return out;
}

// The file is opened for each line, so that a program may close all of its descriptors, and several
// processes may write.
void Findings::write_line(const std::string& line) {
	const KeptErrno kept;
	if (path_.empty()) {
		[[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
		return;
	}
	const Descriptor file(open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
	if (!file) return;
	[[maybe_unused]] const ssize_t written = write(file.get(), line.data(), line.size());
}

void Findings::report(Rule rule, Site at, const std::string& what, const std::vector<Note>& notes) {
	if (!wants(rule)) return;
	const std::lock_guard lock(mutex_);
	const auto [known, fresh] =
		known_.try_emplace({rule, at}, Known{.number = static_cast<std::uint32_t>(known_.size()) + 1});
	if (!fresh) {
		++known->second.count;
		return;
	}
	write_line(path_.empty() ? text_of(rule, at, what, notes) : line_of(known->second.number, rule, at, what, notes));
}

void Findings::finish() {
	const std::lock_guard lock(mutex_);
	for (const auto& [key, known] : known_) {
		if (known.count == 1) continue;
		if (path_.empty())
			write_line(text("verbena: check: %.*s: %llu times at the same place\n",
				static_cast<int>(facts_of(key.first).id.size()), facts_of(key.first).id.data(),
				static_cast<unsigned long long>(known.count)));
		else
			write_line(text("{\"finding\":%u,\"pid\":%d,\"count\":%llu}\n", known.number, getpid(),
				static_cast<unsigned long long>(known.count)));
	}
}

}  // namespace verbena::rules
