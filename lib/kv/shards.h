// Shards: one client for each of several servers, each of which has its share of the keys
// (placement.h). A single server is the simple case.
//
// The servers are a fixed list, or the members of an etcd prefix (lib/discovery/members.h). With a
// prefix, settle() connects to new members and retries those that could not be reached. A client
// whose server has left stays until its operations are done.
//
// Threads: one, that of the session's loop.
// Lifetime: dies before the session.
// Errors: an unreachable server keeps its share of the keys while it is in the list: operations on
//   these keys fail, those on other keys do not. A lost connection to a server of a fixed list is
//   not made again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/kv/session.h"

namespace verbena::kv {

class Shards {
public:
	// Connects. With a list, all servers must be reachable; with a prefix, at least one. The error
	// is one sentence.
	static async::Task<std::expected<std::unique_ptr<Shards>, std::string>> open(
		Session& session, ClientOptions options);

	// Returns the client of the key's server. Null if there is no server, or that one could not be
	// reached; unreachable_reason() says why. Valid until the next settle().
	Client* at(std::string_view key);
	const std::string& unreachable_reason() const { return unreachable_reason_; }

	// True if settle() has something to do: the members changed, a client is to be destroyed, or an
	// unreachable member is due for a retry.
	bool changed() const;
	// Adapts the clients to the current members. An unreachable member delays it by one second.
	async::Task<void> settle();

	// Closes all clients; until_closed() waits until their channels have closed.
	void close();
	async::Task<void> until_closed();
	// The sum over all clients, with those that have left.
	ClientCounters counters() const;
	std::size_t size() const { return names_.size(); }  // servers
	// Returns a client whose server is reached, or null.
	Client* any() const {
		for (const auto& client : clients_)
			if (client && !client->lost()) return client.get();
		return nullptr;
	}

private:
	friend class Running;
	Shards(Session& session, const ClientOptions& options) : session_(session), options_(options) {}
	async::Task<std::expected<void, std::string>> take(std::vector<std::string> names, Nanoseconds patience);
	Running connect(std::size_t index, std::string name, Nanoseconds patience);
	Client* client_of(std::string_view name) const;
	bool behind() const;
	async::Task<void> settle(Nanoseconds patience);
	async::Task<void> retire_departed();

	Session& session_;
	ClientOptions options_;
	std::vector<std::string> names_;                // sorted
	std::vector<std::unique_ptr<Client>> clients_;  // one for each name; null if it is not reached
	// Clients whose servers are no members any more.
	std::vector<std::unique_ptr<Client>> departed_;
	ClientCounters retired_counters_;  // the counters of destroyed clients
	std::string unreachable_reason_;
	bool settling_ = false;
	Nanoseconds retry_ = 0;  // when unreachable members are tried again
	// While take() runs: the new clients, by their index in the next list of names.
	std::vector<std::unique_ptr<Client>> fresh_;
	std::string connect_error_;  // why one of them could not connect
	std::size_t connecting_ = 0;  // connects under way
	async::List<async::Waiter> waiting_;  // take(), until these are done
	Coroutines coroutines_;
};

}  // namespace verbena::kv
