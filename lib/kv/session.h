// Session: what clients of the store need in one thread: a loop, and the RDMA transport that their connections share.
//
// Whoever has clients of it runs its loop; clients, their values and their buffers die before it.
#pragma once

#include <memory>
#include <string>

#include "lib/channel/connect.h"
#include "lib/discovery/members.h"
#include "lib/kv/client.h"
#include "lib/kv/settings.h"

namespace verbena::kv {

struct SessionOptions {
	std::string
		host;  // as the user asked for it: a server with or without a port, several with commas, or an etcd prefix
	std::uint16_t port = 0;  // of those that have none
	channel::Protection protection;
	std::string device;  // empty: the best one
	bool tcp = false;  // instead of RDMA
	Settings settings;
	Nanoseconds spin = 50'000;
	Nanoseconds patience = 10'000'000'000;
};

class Session {
public:
	static std::expected<std::unique_ptr<Session>, std::string> open(SessionOptions options);

	// On its loop; to a server by its name. An error after `patience` at the latest.
	async::Task<std::expected<std::unique_ptr<Client>, std::string>> connect(
		ClientOptions options, std::string name, Nanoseconds patience);
	// From outside of it, to the first server: runs it until that is done.
	std::expected<std::unique_ptr<Client>, std::string> connect_now(const ClientOptions& options);

	async::Loop& loop() { return loop_; }
	channel::RcTransport* transport() const { return transport_.get(); }  // null over TCP
	const SessionOptions& options() const { return options_; }
	const std::vector<std::string>& servers() const { return servers_; }  // "host:port"
	discovery::Members* members() const {
		return members_.get();
	}  // null without etcd: the servers are a list that stays

private:
	explicit Session(SessionOptions options) : options_(std::move(options)), loop_({.spin = options_.spin}) {}

	SessionOptions options_;
	std::vector<std::string> servers_;
	std::unique_ptr<discovery::Members> members_;
	async::Loop loop_;
	std::unique_ptr<channel::RcTransport> transport_;
};

}  // namespace verbena::kv
