// SPDX-License-Identifier: Apache-2.0
// libcurl, loaded when the first list of servers is asked for. Only programs that use etcd need it,
// so our libraries and programs are not linked to it and to the 27 libraries below it.
//
// Threads: any.
// Lifetime: loaded once, for the rest of the process.
#pragma once

#include <curl/curl.h>

#include <expected>
#include <string>

namespace verbena::discovery {

// The functions that we call, under their names without "curl_".
struct CurlLibrary {
	decltype(&::curl_easy_init) easy_init;
	decltype(&::curl_easy_cleanup) easy_cleanup;
	decltype(&::curl_easy_reset) easy_reset;
	decltype(&::curl_easy_setopt) easy_setopt;
	decltype(&::curl_easy_getinfo) easy_getinfo;
	decltype(&::curl_easy_strerror) easy_strerror;
	decltype(&::curl_slist_append) slist_append;
	decltype(&::curl_slist_free_all) slist_free_all;
	decltype(&::curl_multi_init) multi_init;
	decltype(&::curl_multi_cleanup) multi_cleanup;
	decltype(&::curl_multi_add_handle) multi_add_handle;
	decltype(&::curl_multi_remove_handle) multi_remove_handle;
	decltype(&::curl_multi_perform) multi_perform;
	decltype(&::curl_multi_poll) multi_poll;
	decltype(&::curl_multi_wakeup) multi_wakeup;
	decltype(&::curl_multi_info_read) multi_info_read;

	// Returns the library, or one sentence that says why it cannot be used.
	static const std::expected<CurlLibrary, std::string>& load();
};

// The same from a library of another name, for tests.
std::expected<CurlLibrary, std::string> load_curl(const char* name);

}  // namespace verbena::discovery
