// Shards: clients of several servers, each with its share of the keys (placement.h). One server is the plain case.
//
// The servers are a list that stays, or the members of an etcd prefix (members.h): then settle() brings the clients up
// to the newest list, and tries again those that were not reached: soon, unless it takes long to find that they are
// not. A client whose server is no longer a member stays until it has nothing under way. A server that cannot be
// reached keeps its share as long as it is in the list: its keys are refused, the others are served.
//
// On the session's loop; dies before the session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/kv/session.h"

namespace verbena::kv {

class Shards {
public:
	// Of a list all must be reached; of a prefix at least one must be a member. The error is one sentence.
	static async::Task<std::expected<std::unique_ptr<Shards>, std::string>> open(
		Session& session, ClientOptions options);

	// Whose key it is. Null: there is no server, or it could not be reached; why_none() says why.
	Client* at(std::string_view key);
	const std::string& why_none() const { return why_none_; }

	// True: settle() has something to do.
	bool changed() const;
	async::Task<void> settle();

	void close();
	async::Task<void> until_closed();
	ClientCounters counters() const;
	std::size_t size() const { return names_.size(); }
	// Of those that are reached, some.
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
	async::Task<void> let_go();

	Session& session_;
	ClientOptions options_;
	std::vector<std::string> names_;                // sorted
	std::vector<std::unique_ptr<Client>> clients_;  // of each; null: not reached
	// Whose servers are no members any more; and the counters of those that are gone.
	std::vector<std::unique_ptr<Client>> left_;
	ClientCounters gone_;
	std::string why_none_;
	bool settling_ = false;
	Nanoseconds retry_ = 0;
	// Those that are being connected, by their places in the next list.
	std::vector<std::unique_ptr<Client>> fresh_;
	std::string why_not_;  // one of them was not reached
	std::size_t connecting_ = 0;
	async::List<async::Waiter> waiting_;
	Coroutines coroutines_;
};

}  // namespace verbena::kv
