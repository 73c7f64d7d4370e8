// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/got.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>

namespace verbena::presence {
namespace {

#if defined(__x86_64__)
constexpr bool is_function_slot(unsigned long type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#elif defined(__aarch64__)
constexpr bool is_function_slot(unsigned long type) {
	return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
}
#endif

// The imports of a loaded object, read from its dynamic section.
struct Imports {
	std::span<const ElfW(Rela)> tables[2];
	const ElfW(Sym) * symbols = nullptr;
	const char* strings = nullptr;
	bool read_only = false;  // the loader has made the slots read-only (full RELRO)

	explicit Imports(const link_map& module) {
		const ElfW(Rela) * first[2] = {};
		std::size_t bytes[2] = {};
		for (const ElfW(Dyn)* entry = module.l_ld; entry->d_tag != DT_NULL; ++entry) switch (entry->d_tag) {
				case DT_JMPREL: first[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
				case DT_PLTRELSZ: bytes[0] = entry->d_un.d_val; break;
				case DT_RELA: first[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr); break;
				case DT_RELASZ: bytes[1] = entry->d_un.d_val; break;
				case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr); break;
				case DT_STRTAB: strings = reinterpret_cast<const char*>(entry->d_un.d_ptr); break;
				case DT_FLAGS: read_only |= (entry->d_un.d_val & DF_BIND_NOW) != 0; break;
				case DT_FLAGS_1: read_only |= (entry->d_un.d_val & DF_1_NOW) != 0; break;
				default: break;
			}
		for (int i : {0, 1}) tables[i] = {first[i], first[i] ? bytes[i] / sizeof(ElfW(Rela)) : 0};
	}
};

// With full RELRO or LD_BIND_NOW, the slot's page is read-only, so it is made writable in any case.
// It becomes read-only again only if the object says that it was.
void write_slot(void** slot, void* function, bool read_only) {
	const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
	auto* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page_bytes - 1));
	if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
	*slot = function;
	if (read_only) mprotect(page, page_bytes, PROT_READ);
}

}  // namespace

const link_map* object_of(const void* caller) {
	Dl_info info;
	link_map* object = nullptr;
	return dladdr1(caller, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) ? object : nullptr;
}

void redirect(const link_map& object, std::span<const Redirection> redirections) {
	static std::mutex mutex;
	const std::lock_guard lock(mutex);
	const Imports imports(object);
	if (!imports.symbols || !imports.strings) return;
	for (const auto table : imports.tables)
		for (const ElfW(Rela) & entry : table) {
			if (!is_function_slot(ELF64_R_TYPE(entry.r_info))) continue;
			const std::string_view name = imports.strings + imports.symbols[ELF64_R_SYM(entry.r_info)].st_name;
			for (const Redirection& redirection : redirections)
				if (redirection.name == name)
					write_slot(reinterpret_cast<void**>(object.l_addr + entry.r_offset), redirection.function,
						imports.read_only);
		}
}

}  // namespace verbena::presence
