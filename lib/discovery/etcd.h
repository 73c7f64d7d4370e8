// The few calls of etcd's JSON gateway that membership needs, over libcurl: each blocks until it is answered, or stop()
// is called from another thread. One thread makes calls.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <expected>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/discovery/members.h"

namespace verbena::discovery {

class Etcd {
public:
	using Json = nlohmann::json;
	template <class T> using Result = std::expected<T, std::string>;

	explicit Etcd(EtcdPrefix where);
	~Etcd();
	Etcd(const Etcd&) = delete;
	Etcd& operator=(const Etcd&) = delete;

	struct Listed {
		std::vector<std::string> names;  // sorted
		std::int64_t revision = 0;
	};
	Result<Listed> list();
	// Until something below the prefix changes that is newer than this revision.
	Result<void> wait_for_change(std::int64_t revision);

	Result<std::string> grant(std::uint32_t seconds);  // the lease's number, as etcd writes it
	Result<void> put(const std::string& name, const std::string& lease);
	// Whether there is such a name.
	Result<bool> has(const std::string& name);
	// False: there is no such lease any more.
	Result<bool> renew(const std::string& lease);
	void revoke(const std::string& lease);

	// From any thread. Calls under way end, and so do later ones, until resume().
	void stop();
	void resume() { stopped_ = false; }
	bool stopped() const { return stopped_; }
	// False: stopped before that.
	bool sleep(std::uint32_t milliseconds);

private:
	static constexpr long call_patience_ms = 5000;
	Result<Json> call(const std::string& path, const Json& body, long patience_ms = call_patience_ms);
	// `take` is given what comes, and says whether more is wanted.
	// `patience_ms`: for all of the answer; 0: no limit.
	Result<void> post(const std::string& path, const std::string& body,
		const std::function<bool(std::string_view)>& take, long patience_ms = 0);

	EtcdPrefix where_;
	CURLM* multi_;
	CURL* easy_;
	std::atomic<bool> stopped_{false};
};

}  // namespace verbena::discovery
