// SPDX-License-Identifier: Apache-2.0
#include "tools/symbols.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include <cstdlib>

namespace verbena::tools {
namespace {

std::string readable(const char* symbol) {
	int status = 0;
	const std::unique_ptr<char, decltype(&std::free)> name(
		abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
	return status == 0 ? name.get() : symbol;
}

}  // namespace

void Symbols::End::operator()(Dwfl* session) const { dwfl_end(session); }

Symbols::Symbols() {
	static const Dwfl_Callbacks callbacks{
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
		.debuginfo_path = nullptr,
	};
	// Nothing is to be fetched from the network.
	unsetenv("DEBUGINFOD_URLS");
	session_.reset(dwfl_begin(&callbacks));
}

Symbols::~Symbols() = default;

Dwfl_Module* Symbols::open(const std::string& module) {
	const auto [found, fresh] = modules_.try_emplace(module, nullptr);
	if (fresh && session_) {
		dwfl_report_begin_add(session_.get());
		found->second = dwfl_report_offline(session_.get(), module.c_str(), module.c_str(), -1);
		dwfl_report_end(session_.get(), nullptr, nullptr);
	}
	return found->second;
}

namespace {

std::optional<Dwarf_Word> number_of(Dwarf_Die& die, unsigned attribute) {
	Dwarf_Attribute found;
	Dwarf_Word value = 0;
	if (!dwarf_attr_integrate(&die, attribute, &found) || dwarf_formudata(&found, &value) != 0) return std::nullopt;
	return value;
}

std::string file_of(Dwarf_Die& unit, Dwarf_Word index) {
	Dwarf_Files* files = nullptr;
	std::size_t count = 0;
	if (dwarf_getsrcfiles(&unit, &files, &count) != 0 || index >= count) return {};
	const char* const name = dwarf_filesrc(files, index, nullptr, nullptr);
	return name ? name : "";
}

// The functions whose code was inlined at the address, with the place of each call. `innermost` is
// the place of the address itself.
std::vector<Place> inlined(Dwfl_Module* module, Dwarf_Addr address, const Place& innermost) {
	std::vector<Place> places;
	Dwarf_Addr bias = 0;
	Dwarf_Die* const unit = dwfl_module_addrdie(module, address, &bias);
	Dwarf_Die *innermost_scope = nullptr, *scopes = nullptr;
	const int found = unit ? dwarf_getscopes(unit, address - bias, &innermost_scope) : 0;
	const std::unique_ptr<Dwarf_Die, decltype(&std::free)> owned_scope(innermost_scope, std::free);
	// Those of dwarf_getscopes() leave the inlined function for the scopes of its definition.
	const int count = found > 0 ? dwarf_getscopes_die(innermost_scope, &scopes) : 0;
	const std::unique_ptr<Dwarf_Die, decltype(&std::free)> owned(scopes, std::free);
	Place next = innermost;
	for (int i = 0; i < count; ++i) {
		const int tag = dwarf_tag(&scopes[i]);
		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
		if (const char* const name = dwarf_diename(&scopes[i])) next.function = name;
		if (tag == DW_TAG_subprogram) break;
		places.push_back(next);
		next = {.function = innermost.function,
			.file = file_of(*unit, number_of(scopes[i], DW_AT_call_file).value_or(0)),
			.line = static_cast<int>(number_of(scopes[i], DW_AT_call_line).value_or(0))};
	}
	places.push_back(next);
	return places;
}

}  // namespace

std::vector<Place> Symbols::find(const std::string& module, std::uint64_t offset) {
	Dwfl_Module* const opened = open(module);
	if (!opened) return {Place{}};
	Dwarf_Addr begin = 0;
	dwfl_module_info(opened, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
	const Dwarf_Addr address = begin + offset;
	Place place;
	if (const char* const symbol = dwfl_module_addrname(opened, address)) place.function = readable(symbol);
	if (Dwfl_Line* const line = dwfl_module_getsrc(opened, address))
		if (const char* const file = dwfl_lineinfo(line, nullptr, &place.line, nullptr, nullptr, nullptr))
			place.file = file;
	return inlined(opened, address, place);
}

}  // namespace verbena::tools
