// Membership of servers in etcd, by its JSON gateway: a server holds a key below the prefix as long as it renews its
// lease; a client sees by a watch who is there. Each has a thread of its own for that, since both wait for HTTP.
//
// "etcd://HOST:PORT/PREFIX": the servers are the last parts of the keys below PREFIX.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::discovery {

struct EtcdPrefix {
	std::string url;     // "http://HOST:PORT"
	std::string prefix;  // ends with "/"
};
// Nothing, if it does not begin with "etcd://". The error is one sentence.
std::expected<EtcdPrefix, std::string> read_etcd(std::string_view text);
inline bool is_etcd(std::string_view text) { return text.starts_with("etcd://"); }

// Whoever is told to look.
class Members {
public:
	// The first list is there when it returns, or one sentence.
	// `notify` is called after each change, on the watching thread.
	static std::expected<std::unique_ptr<Members>, std::string> watch(
		const EtcdPrefix& where, std::function<void()> notify = {});
	~Members();
	Members(const Members&) = delete;
	Members& operator=(const Members&) = delete;

	// What was there at the beginning.
	const std::vector<std::string>& first() const;
	// True, also at the beginning, until list() is asked for.
	bool changed() const;
	// The newest list, sorted; changed() is false from now on.
	std::vector<std::string> list();

private:
	struct State;
	explicit Members(std::unique_ptr<State> state);
	std::unique_ptr<State> state_;
};

// A server's own entry.
class Registration {
public:
	// There when it returns, or one sentence. Renewed until it is destroyed, put there again if somebody took it away,
	// and then withdrawn at once, if etcd answers; after a crash it ends with its lease.
	static std::expected<std::unique_ptr<Registration>, std::string> make(
		const EtcdPrefix& where, const std::string& name, std::uint32_t lease_seconds);
	~Registration();
	Registration(const Registration&) = delete;
	Registration& operator=(const Registration&) = delete;

private:
	struct State;
	explicit Registration(std::unique_ptr<State> state);
	std::unique_ptr<State> state_;
};

}  // namespace verbena::discovery
