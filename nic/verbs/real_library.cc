// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/real_library.h"

#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

#include "nic/verbs/library_folders.h"

namespace verbena::verbs {
namespace {

constexpr const char* library_name = "libibverbs.so.1";

// Replaces a function that the real library does not have.
template <auto failure, typename Result, typename... Parameters> Result absent(Parameters...) {
	errno = EOPNOTSUPP;
	if constexpr (!std::is_void_v<Result>) return static_cast<Result>(failure);
}

// The loaded object that contains `address`, or null.
link_map* object_of(const void* address) {
	Dl_info info;
	link_map* object = nullptr;
	return dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) ? object : nullptr;
}

// An address in our own library, to distinguish it from the real one.
const char own_address = 0;

std::string_view soname(const link_map& object) {
	const char* strings = nullptr;
	std::size_t offset = 0;
	for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
		if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
		if (entry->d_tag == DT_SONAME) offset = entry->d_un.d_val;
	}
	return strings && offset ? strings + offset : "";
}

// True for our own library, and for another copy of it: two NICs that take each other for the real
// library would call each other for ever.
bool is_nic(const link_map& object) {
	const link_map* const own = object_of(&own_address);
	return own && (&object == own || (!soname(*own).empty() && soname(object) == soname(*own)));
}

// Opens a library; null if there is none, or if it is our own.
void* open_real(const char* path) {
	void* const handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	link_map* object = nullptr;
	if (!handle) return nullptr;
	if (dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&object)) == 0 && !is_nic(*object)) return handle;
	dlclose(handle);
	return nullptr;
}

// A handle of the real library, or null. It stays open.
void* open_library() {
	// The library that the program is linked with, behind our preloaded one.
	if (void* const next = dlsym(RTLD_NEXT, "ibv_get_device_list"))
		if (const link_map* const object = object_of(next); object && *object->l_name && !is_nic(*object))
			if (void* const handle = open_real(object->l_name)) return handle;

	// RTLD_NEXT does not see a libibverbs that was loaded with RTLD_LOCAL (by a Python extension or
	// a plug-in), and the process may not have loaded one yet. This name may also be our own, and
	// if it is not yet, this call makes it so: from now on the loader gives our library to a caller
	// that asks for the name, and not the one that is opened below.
	if (void* const handle = open_real(library_name)) return handle;

	// By an absolute path, which the loader does not take for a library with another path.
	if (link_map* const own = object_of(&own_address))
		for (const std::string& folder : library_folders(*own))
			if (void* const handle = open_real((folder + '/' + library_name).c_str())) return handle;
	return nullptr;
}

// Two threads may compute a value at once, and the first result stays. No thread waits: one that
// loads a library holds the loader's lock when the library's constructors call us, and here another
// thread may need that lock.
void* library() {
	static std::atomic<void*> opened = nullptr;
	static std::atomic<bool> done = false;
	if (!done.load(std::memory_order_acquire)) {
		void* none = nullptr;
		void* handle = nullptr;
		try {
			handle = open_library();
		} catch (const std::bad_alloc&) {
			return nullptr;
		}
		if (handle && !opened.compare_exchange_strong(none, handle, std::memory_order_acq_rel)) dlclose(handle);
		done.store(true, std::memory_order_release);
	}
	return opened.load(std::memory_order_acquire);
}

constexpr RealLibrary no_library = {
#define VERBENA_ABSENT(function, failure) .function = &absent<failure>,
	VERBENA_REAL_FUNCTIONS(VERBENA_ABSENT)
#undef VERBENA_ABSENT
};

void load(RealLibrary& table) {
	const int saved_errno = errno;
#define VERBENA_LOAD(name, failure) \
	if (void* const found = find_in_real_library(#name)) table.name = reinterpret_cast<decltype(&::name)>(found);
	VERBENA_REAL_FUNCTIONS(VERBENA_LOAD)
#undef VERBENA_LOAD
	errno = saved_errno;
}

}  // namespace

void* find_in_real_library(const char* name) {
	void* found = dlsym(RTLD_NEXT, name);
	if (const link_map* const object = found ? object_of(found) : nullptr; !object || is_nic(*object)) {
		void* const handle = library();
		found = handle ? dlsym(handle, name) : nullptr;
	}
	dlerror();  // the program must not see the message of a name that was not found
	return found;
}

const RealLibrary& real() {
	static constinit std::atomic<const RealLibrary*> loaded = nullptr;
	if (const RealLibrary* const table = loaded.load(std::memory_order_acquire)) return *table;
	std::unique_ptr<RealLibrary> table(new (std::nothrow) RealLibrary(no_library));
	if (!table) return no_library;
	load(*table);
	const RealLibrary* first = nullptr;
	if (!loaded.compare_exchange_strong(first, table.get(), std::memory_order_acq_rel)) return *first;
	return *table.release();
}

}  // namespace verbena::verbs
