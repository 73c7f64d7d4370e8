// SPDX-License-Identifier: Apache-2.0
// Session: the event loop and the RDMA transport that the clients of one thread share.
//
// Threads: one: the thread that uses the clients runs the loop.
// Owns: the loop, the transport, and the watch of an etcd prefix (with a thread of its own).
// Lifetime: clients, their values and their buffers die before the session.
// Errors: open() and connect() return one sentence.
#pragma once

#include <memory>
#include <string>

#include "lib/channel/connect.h"
#include "lib/discovery/members.h"
#include "lib/kv/client.h"
#include "lib/kv/settings.h"

namespace verbena::kv {

struct SessionOptions {
	// The user's words: HOST[:PORT], several of these with commas, or etcd://HOST:PORT/PREFIX.
	std::string host;
	discovery::EtcdAccess etcd;  // the user's words about etcd; the environment has others
	std::uint16_t port = 0;  // for servers that are named without one
	channel::Protection protection;
	std::string device;  // name of the RDMA device; empty: the best one
	bool tcp = false;    // TCP instead of RDMA
	Settings settings;
	Nanoseconds spin = 50'000;  // time that the loop polls before it sleeps
	Nanoseconds patience = 10'000'000'000;  // time that a first connection may take
};

class Session {
public:
	static std::expected<std::unique_ptr<Session>, std::string> open(SessionOptions options);

	// Connects to the server "host:port"; fails after `patience` at the latest. Runs on the loop.
	async::Task<std::expected<std::unique_ptr<Client>, std::string>> connect(
		ClientOptions options, std::string name, Nanoseconds patience);
	async::Loop& loop() { return loop_; }
	channel::RcTransport* transport() const { return transport_.get(); }  // null over TCP
	const SessionOptions& options() const { return options_; }
	const std::vector<std::string>& servers() const { return servers_; }  // "host:port"
	// Null without etcd: then servers() is the fixed list of servers.
	discovery::Members* members() const { return members_.get(); }
	// Coroutines that the loop resumes when the members have changed.
	async::List<async::Waiter>& member_changes() { return member_changes_; }

private:
	explicit Session(SessionOptions options) : options_(std::move(options)), loop_({.spin = options_.spin}) {}

	SessionOptions options_;
	std::vector<std::string> servers_;
	async::Loop loop_;
	async::List<async::Waiter> member_changes_;
	std::unique_ptr<discovery::Members> members_;  // its thread posts to loop_
	std::unique_ptr<channel::RcTransport> transport_;
};

}  // namespace verbena::kv
