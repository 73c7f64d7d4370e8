// SPDX-License-Identifier: Apache-2.0
// The calls of etcd's JSON gateway that membership needs, over libcurl. Each blocks until etcd
// answers, or until stop().
//
// Threads: one thread makes calls; any thread may call stop(), resume() and stopped().
// Owns: its libcurl handles.
// Errors: one sentence; "stopped" after stop(). All calls fail if the machine has no libcurl.
#pragma once

#include <atomic>
#include <condition_variable>
#include <expected>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/discovery/curl_library.h"
#include "lib/discovery/members.h"

namespace verbena::discovery {

class Etcd {
public:
	using Json = nlohmann::json;
	template <class T> using Result = std::expected<T, std::string>;

	// Calls that watch, enter or revoke have other limits than `patience_ms`.
	explicit Etcd(EtcdPrefix where, long patience_ms = 5000);
	~Etcd();
	Etcd(const Etcd&) = delete;
	Etcd& operator=(const Etcd&) = delete;

	struct Listed {
		std::vector<std::string> names;  // sorted
		std::int64_t revision = 0;
	};
	// The names below the prefix, and the revision of etcd's store that they are of.
	Result<Listed> list();
	// Blocks until a key below the prefix changes in a later revision than this.
	Result<void> wait_for_change(std::int64_t revision);

	struct Entry {
		std::string name;
		std::string lease;  // the number of its lease, in decimal; "0": it has none
		std::uint32_t lease_s = 0;  // the duration that its writer has stated; 0: none
	};
	// The keys below the prefix, as etcd has them at an instant during the call (linearizable).
	Result<std::vector<Entry>> entries();

	// Returns the lease's number in decimal, as etcd writes it.
	Result<std::string> grant(std::uint32_t seconds);
	// Writes a key below the prefix that etcd deletes when the lease ends. Its value states the
	// duration of the lease.
	Result<void> put(const std::string& name, const std::string& lease, std::uint32_t lease_s);
	// Returns false if the lease has expired.
	Result<bool> renew(const std::string& lease);
	// Ends the lease and deletes its keys. Gives up soon if etcd does not answer; the lease then
	// expires.
	void revoke(const std::string& lease);

	// Ends the call that is running, and makes later ones fail, until resume().
	void stop();
	void resume() { stopped_ = false; }
	bool stopped() const { return stopped_; }
	// Sleeps; returns false if stop() ended it.
	bool sleep(std::uint32_t milliseconds);

private:
	// Passes the name of each key below the prefix, and its entry in the answer to a range request.
	void for_each_entry(const Json& answer, const std::function<void(std::string name, const Json& entry)>& take) const;
	Result<Json> call(const std::string& path, const Json& body) { return call(path, body, patience_ms_); }
	Result<Json> call(const std::string& path, const Json& body, long patience_ms);
	// Sends a request and passes the answer to `take` in pieces; `take` returns false when it needs
	// no more. `patience_ms` limits the whole call; 0: no limit.
	Result<void> post(const std::string& path, const std::string& body,
		const std::function<bool(std::string_view)>& take, long patience_ms = 0);

	EtcdPrefix where_;
	long patience_ms_;
	const std::expected<CurlLibrary, std::string>& curl_;
	CURLM* multi_ = nullptr;
	CURL* easy_ = nullptr;
	std::atomic<bool> stopped_{false};
	std::mutex lock_;  // held while stopped_ changes and a sleeper looks at it
	std::condition_variable stops_;
};

}  // namespace verbena::discovery
