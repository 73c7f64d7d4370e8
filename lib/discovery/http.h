// SPDX-License-Identifier: Apache-2.0
// Http: POST requests by libcurl, over TLS where the URL says so. Each blocks until the answer is
// complete, its receiver needs no more, its time is over, or stop().
//
// Threads: one thread makes requests; any thread may call stop(), resume() and stopped().
// Owns: its libcurl handles, with the connections, which are used again.
// Errors: one sentence that says what to do; "stopped" after stop(). All requests fail if the
//   machine has no libcurl.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include "lib/discovery/curl_library.h"
#include "lib/discovery/etcd_prefix.h"

namespace verbena::discovery {

class Http {
public:
	struct Request {
		std::string url, body;
		std::string authorization;  // the value of this header; empty: none
		long patience_ms = 0;  // the limit of the whole request; 0: none
	};
	struct Failure {
		std::string sentence;
		bool late = false;  // the time was over
	};
	// Gets the answer in pieces; returns false when it needs no more.
	using Take = std::function<bool(std::string_view)>;

	explicit Http(EtcdAccess access);
	~Http();
	Http(const Http&) = delete;
	Http& operator=(const Http&) = delete;

	// Returns the status of the answer, such as 200.
	std::expected<long, Failure> post(const Request& request, const Take& take);

	// Ends the request that is running, and makes later ones fail, until resume().
	void stop();
	void resume() { stopped_ = false; }
	bool stopped() const { return stopped_; }

private:
	void set_options(const Request& request);
	std::string reason(const Request& request, CURLcode result, const char* detail) const;

	const EtcdAccess access_;
	const std::expected<CurlLibrary, std::string>& curl_;
	CURLM* multi_ = nullptr;
	CURL* easy_ = nullptr;
	bool answered_ = false;  // there has been an answer
	std::atomic<bool> stopped_{false};
};

}  // namespace verbena::discovery
