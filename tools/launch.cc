// SPDX-License-Identifier: Apache-2.0
#include "tools/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "bench/far_end/launch.h"
#include "tools/debian_packages.h"

namespace verbena::tools {
namespace {

constexpr int cannot_execute = 126, no_such_program = 127;

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename(); }

bool is_sanitizer(std::string_view library) {
	if (const auto slash = library.rfind('/'); slash != library.npos) library.remove_prefix(slash + 1);
	// gcc's names, then clang's.
	return library.starts_with("libasan.so") || library.starts_with("libtsan.so") ||
		library.starts_with("libhwasan.so") || library.starts_with("libclang_rt.asan") ||
		library.starts_with("libclang_rt.tsan") || library.starts_with("libclang_rt.hwasan");
}

// The loader of another C library than glibc, by the name of that library; otherwise empty.
std::string_view other_c_library(const std::string& interpreter) {
	const std::string name = file_name(interpreter);
	if (name.starts_with("ld-musl-")) return "musl";
	if (name.starts_with("ld-uClibc") || name.starts_with("ld64-uClibc")) return "uClibc";
	if (name.starts_with("linker")) return "Android";
	return "";
}

// "/usr/bin/busybox", or "/usr/bin/busybox, which runs ./script.sh,".
std::string described(const Program& program) {
	if (program.scripts.empty()) return program.path;
	return fmt::format("{}, which runs {},", program.path, program.scripts.front());
}

Refusal not_found(const Program& program) {
	if (!program.scripts.empty())
		return {fmt::format("cannot run {}: there is no {}, which shall run it", program.scripts.front(), program.name),
			"install that program, or correct the first line of the script", no_such_program};
	const auto package = debian_package_of(file_name(program.name));
	if (program.name.contains('/') || package.empty())
		return {fmt::format("cannot run {}: there is no such program", program.name),
			program.name.contains('/') ? "check the path" : "check the name and PATH", no_such_program};
	return {fmt::format("cannot run {}: there is no such program", program.name),
		fmt::format("it is in the Debian package {0} (apt install {0})", package), no_such_program};
}

}  // namespace

std::optional<Refusal> refusal_of(const Program& program) {
	const auto out_of = [&](std::string reason, std::string advice) {
		return Refusal{
			fmt::format("the NIC cannot be in {} {}", described(program), reason), std::move(advice), cannot_execute};
	};
	switch (program.state) {
		case Program::State::not_found: return not_found(program);
		case Program::State::not_executable:
			return Refusal{fmt::format("cannot run {}: {} {}", program.name, program.path, program.problem),
				"name a program", cannot_execute};
		case Program::State::unreadable: return std::nullopt;  // the kernel can start it
		case Program::State::readable: break;
	}
	const ElfFile& elf = program.elf;
	if (!is_for_this_machine(elf))
		return out_of(fmt::format("because the program is built for {}, and the NIC for x86-64", machine_name(elf)),
			"use a build of the program for x86-64");
	if (const auto library = other_c_library(elf.interpreter); !library.empty())
		return out_of(
			fmt::format("because the program is linked to {} ({}), and the NIC to glibc", library, elf.interpreter),
			"build the program on a system with glibc, such as Debian");
	if (!program.privileges.empty())
		return out_of(
			fmt::format("because the program has {}, and in such programs the loader ignores LD_PRELOAD",
				program.privileges == "file capabilities" ? program.privileges : program.privileges + " permission"),
			program.privileges == "file capabilities" ? "run a copy of the file, which has none, or run it as root"
													  : "run a copy of the file, which has no such permission");
	const bool is_loader = elf.soname.starts_with("ld-linux");
	if (elf.interpreter.empty() && !is_loader)
		return out_of("because the program is statically linked, so no loader adds libraries to it",
			"link the program dynamically (without -static or -static-pie; a Go program: with cgo)");
	if (!elf.interpreter.empty() && access(elf.interpreter.c_str(), F_OK) != 0)
		return Refusal{
			fmt::format("cannot run {}: its loader {} is not on this machine", described(program), elf.interpreter),
			"use a build of the program for this distribution", no_such_program};
	return std::nullopt;
}

std::vector<std::string> sanitizers_of(const Program& program) {
	std::vector<std::string> found;
	std::ranges::copy_if(program.elf.needed, std::back_inserter(found), is_sanitizer);
	return found;
}

std::expected<std::string, std::string> find_nic() {
	const auto folder = std::filesystem::path(bench::own_executable()).parent_path();
	for (const std::filesystem::path place : {".", VERBENA_BIN_TO_LIB}) {
		const auto candidate = (folder / place / "libverbena-nic.so").lexically_normal();
		if (!std::filesystem::exists(candidate)) continue;
		if (candidate.string().find_first_of(" \t:;$") != std::string::npos)
			return std::unexpected(fmt::format(
				"the path {} has a space, a colon or another character that LD_PRELOAD cannot hold: move the folder",
				candidate.string()));
		return candidate.string();
	}
	return std::unexpected("cannot find libverbena-nic.so beside this program or in " VERBENA_BIN_TO_LIB
						   ": build it ('make build') or install it");
}

std::string preload_list(const std::vector<std::string>& sanitizers, const std::string& nic, std::string_view before) {
	std::vector<std::string> given;
	while (!before.empty()) {
		const auto end = std::min(before.find_first_of(": "), before.size());
		if (end != 0) given.emplace_back(before.substr(0, end));
		before.remove_prefix(std::min(end + 1, before.size()));
	}
	std::vector<std::string> list;
	const auto add = [&](const std::string& library) {
		if (std::ranges::find(list, library) == list.end()) list.push_back(library);
	};
	// A sanitizer's runtime that the user preloads is for a program that is not linked to it, for
	// example an interpreter that loads an instrumented module.
	for (const std::string& library : given)
		if (is_sanitizer(library)) add(library);
	for (const std::string& library : sanitizers)
		if (std::ranges::none_of(list, [&](const auto& other) { return file_name(other) == file_name(library); }))
			add(library);
	add(nic);
	for (const std::string& library : given) add(library);
	return fmt::format("{}", fmt::join(list, ":"));
}

std::string library_path(const std::string& folder, std::string_view before) {
	// An empty element would name the current folder.
	if (before.empty()) return folder;
	if (before == folder || before.starts_with(folder + ':')) return std::string(before);
	return fmt::format("{}:{}", folder, before);
}

std::string sanitizer_options(const std::string& file, std::string_view before) {
	if (before.find("suppressions=") != before.npos) return std::string(before);
	return fmt::format("suppressions={}{}{}", file, before.empty() ? "" : ":", before);
}

std::vector<std::pair<std::string, std::string>> environment_for(const Program& program, const std::string& nic) {
	const auto value = [](const char* name) -> std::string_view {
		const char* const text = std::getenv(name);
		return text != nullptr ? text : "";
	};
	std::vector<std::pair<std::string, std::string>> variables;
	variables.emplace_back("LD_PRELOAD", preload_list(sanitizers_of(program), nic, value("LD_PRELOAD")));
	// The folder has a libibverbs.so.1 that is the NIC, for programs that load it by dlopen(3).
	const auto folder = std::filesystem::path(nic).parent_path();
	for (const char* name : {"libibverbs", "verbena"}) {  // in a build folder, and installed
		if (!std::filesystem::exists(folder / name / "libibverbs.so.1")) continue;
		variables.emplace_back("LD_LIBRARY_PATH", library_path((folder / name).string(), value("LD_LIBRARY_PATH")));
		// For all programs, because clang puts the sanitizer into the program, and a script may
		// start one that has it.
		const auto suppressions = folder / name / "thread_sanitizer.suppressions";
		if (std::filesystem::exists(suppressions))
			variables.emplace_back("TSAN_OPTIONS", sanitizer_options(suppressions.string(), value("TSAN_OPTIONS")));
		break;
	}
	return variables;
}

}  // namespace verbena::tools
