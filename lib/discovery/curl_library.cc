// SPDX-License-Identifier: Apache-2.0
#include "lib/discovery/curl_library.h"

#include <dlfcn.h>

namespace verbena::discovery {

std::expected<CurlLibrary, std::string> load_curl(const char* name) {
	// RTLD_LOCAL, because the program may be linked to another libcurl.
	void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library == nullptr)
		return std::unexpected(
			std::string("etcd is reached by libcurl, which cannot be loaded (Debian package libcurl4): ") + dlerror());
	const char* missing = nullptr;
	const auto find = [&]<class Function>(Function& function, const char* symbol) {
		function = reinterpret_cast<Function>(dlsym(library, symbol));
		if (function == nullptr) missing = symbol;
	};
	CurlLibrary found{};
	find(found.easy_init, "curl_easy_init");
	find(found.easy_cleanup, "curl_easy_cleanup");
	find(found.easy_reset, "curl_easy_reset");
	find(found.easy_setopt, "curl_easy_setopt");
	find(found.easy_getinfo, "curl_easy_getinfo");
	find(found.easy_strerror, "curl_easy_strerror");
	find(found.slist_append, "curl_slist_append");
	find(found.slist_free_all, "curl_slist_free_all");
	find(found.multi_init, "curl_multi_init");
	find(found.multi_cleanup, "curl_multi_cleanup");
	find(found.multi_add_handle, "curl_multi_add_handle");
	find(found.multi_remove_handle, "curl_multi_remove_handle");
	find(found.multi_perform, "curl_multi_perform");
	find(found.multi_poll, "curl_multi_poll");
	find(found.multi_wakeup, "curl_multi_wakeup");
	find(found.multi_info_read, "curl_multi_info_read");
	if (missing != nullptr)
		return std::unexpected(std::string("etcd is reached by libcurl 7.68 or later; ") + name + " has no " + missing);
	return found;
}

const std::expected<CurlLibrary, std::string>& CurlLibrary::load() {
	static const auto library = load_curl("libcurl.so.4");
	return library;
}

}  // namespace verbena::discovery
