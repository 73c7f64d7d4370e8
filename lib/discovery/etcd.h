// SPDX-License-Identifier: Apache-2.0
// The calls of etcd's JSON gateway that membership needs. Each blocks until etcd answers, or until
// stop().
//
// A call that one member of the etcd cluster does not answer in time, or not with a result, goes to
// the next one, with which later calls begin. With a user, the calls have a token of etcd, and
// fetch a new one when etcd does not accept it any more.
//
// Threads: one thread makes calls; any thread may call stop(), resume() and stopped().
// Errors: one sentence for each member that was asked; "stopped" after stop().
#pragma once

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "lib/discovery/http.h"

namespace verbena::discovery {

class Etcd {
public:
	using Json = nlohmann::json;
	template <class T> using Result = std::expected<T, std::string>;
	// Gets a sentence when the next member takes over.
	using Notice = std::function<void(const std::string&)>;

	// `patience_ms` is the time that one member has for an answer; 0: the usual one. Calls that
	// watch, enter or revoke have other limits.
	explicit Etcd(EtcdPrefix where, long patience_ms = 0, Notice notice = {});

	struct Listed {
		std::vector<std::string> names;  // sorted
		std::int64_t revision = 0;
	};
	// The names below the prefix, and the revision of etcd's store that they are of.
	Result<Listed> list();
	// Blocks until a key below the prefix changes in a later revision than this. If there are
	// several members, it also returns after 4 s: only a question shows that a member hangs.
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
	void resume() { http_.resume(); }
	bool stopped() const { return http_.stopped(); }
	// Sleeps; returns false if stop() ended it.
	bool sleep(std::uint32_t milliseconds);

private:
	struct Failure {
		std::string sentence;
		bool elsewhere = false;  // another member may answer
		bool token = false;  // a new token may help
		bool late = false;  // the time was over
	};
	template <class T> using Tried = std::expected<T, Failure>;

	// Passes the name of each key below the prefix, and its entry in the answer to a range request.
	void for_each_entry(const Json& answer, const std::function<void(std::string name, const Json& entry)>& take) const;
	Result<Json> call(const std::string& path, const Json& body) { return call(path, body, patience_ms_); }
	// Asks one member after the other, `members_max` at most.
	Result<Json> call(const std::string& path, const Json& body, long patience_ms, std::size_t members_max = SIZE_MAX);
	// Asks the present member, with a token if that is needed.
	Tried<Json> ask(const std::string& path, const std::string& body, long patience_ms);
	Tried<Json> exchange(const std::string& path, const std::string& body, long patience_ms);
	// Sends a request to the present member.
	Tried<long> post(const std::string& path, const std::string& body, const Http::Take& take, long patience_ms);
	Tried<void> authenticate(long patience_ms);
	// The meaning of an error that the present member has sent.
	Failure refusal(long status, const std::string& message) const;
	const std::string& url() const { return where_.urls[member_]; }
	void turn_to_next() { member_ = (member_ + 1) % where_.urls.size(); }

	const EtcdPrefix where_;
	const long usual_patience_ms_, patience_ms_;
	const Notice notice_;
	Http http_;
	std::size_t member_ = 0;  // an index of where_.urls: the one that has answered last
	std::string token_;  // empty: there is none yet
	bool without_tokens_ = false;  // etcd has said that it has no users
	// A password that was refused is not tried again before this time: etcd takes a tenth of a
	// second of a core for each attempt.
	Nanoseconds next_attempt_ = 0;
	std::string refused_;
	std::mutex lock_;  // held while stopped() changes and a sleeper looks at it
	std::condition_variable stops_;
};

}  // namespace verbena::discovery
