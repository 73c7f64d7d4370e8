#include "nic/verbs/real_library.h"

#include <cerrno>
#include <dlfcn.h>
#include <type_traits>

namespace verbena::verbs {
namespace {

// Replaces a function that the real library does not have.
template <auto failure, typename Result, typename... Parameters> Result absent(Parameters...) {
	errno = EOPNOTSUPP;
	if constexpr (!std::is_void_v<Result>) return static_cast<Result>(failure);
}

// An address in our own library, to distinguish our definitions from the real library's.
const char own_address = 0;

class Finder {
public:
	Finder() {
		Dl_info info;
		own_base_ = dladdr(&own_address, &info) ? info.dli_fbase : nullptr;
	}

	void* find(const char* name) {
		if (void* next = dlsym(RTLD_NEXT, name); next && !is_own(next)) return next;
		// RTLD_NEXT does not see a libibverbs that was loaded with RTLD_LOCAL (by a Python
		// extension or a plug-in), and the process may not have loaded one yet.
		if (!opened_) {
			library_ = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
			opened_ = true;
		}
		void* found = library_ ? dlsym(library_, name) : nullptr;
		return found && !is_own(found) ? found : nullptr;
	}

private:
	// Our own library may be installed as libibverbs.so.1; a call of our own export would recurse
	// forever.
	bool is_own(void* address) const {
		Dl_info info;
		return dladdr(address, &info) && info.dli_fbase == own_base_;
	}

	void* own_base_;
	void* library_ = nullptr;
	bool opened_ = false;
};

RealLibrary load() {
	const int saved_errno = errno;
	Finder finder;
	RealLibrary library;
#define VERBENA_LOAD(function, failure)                                                 \
	library.function = reinterpret_cast<decltype(&::function)>(finder.find(#function)); \
	if (!library.function) library.function = &absent<failure>;
	VERBENA_REAL_FUNCTIONS(VERBENA_LOAD)
#undef VERBENA_LOAD
	errno = saved_errno;
	return library;
}

}  // namespace

const RealLibrary& real() {
	static const RealLibrary library = load();
	return library;
}

}  // namespace verbena::verbs
