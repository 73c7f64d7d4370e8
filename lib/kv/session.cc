// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/session.h"

#include <algorithm>

#include "base/sizes.h"
#include "lib/channel/transports_by_address.h"
#include "lib/kv/placement.h"

namespace verbena::kv {

using OpenedClient = std::expected<std::unique_ptr<Client>, std::string>;

namespace {

// Splits a list with commas into names "host:port", without duplicates.
std::expected<std::vector<std::string>, std::string> read_servers(std::string_view text, std::uint16_t port) {
	std::vector<std::string> servers;
	for (const std::string_view each : split(text)) {
		if (each.empty()) return std::unexpected("empty server name in the list '" + std::string(text) + "'");
		auto name = server_name(std::string(each), port);
		if (!name) return std::unexpected(name.error());
		if (std::ranges::find(servers, *name) == servers.end()) servers.push_back(std::move(*name));
	}
	return servers;
}

}  // namespace

std::expected<std::unique_ptr<Session>, std::string> Session::open(SessionOptions options) {
	std::unique_ptr<Session> session(new Session(std::move(options)));
	const SessionOptions& wanted = session->options_;
	if (discovery::is_etcd(wanted.host)) {
		const auto prefix = discovery::read_etcd(wanted.host, wanted.etcd, discovery::etcd_environment());
		if (!prefix) return std::unexpected(prefix.error());
		auto members = discovery::Members::watch(
			*prefix, [&of = *session] { of.loop_.post([&of] { of.loop_.resume_soon(of.member_changes_); }); });
		if (!members) return std::unexpected(members.error());
		session->members_ = std::move(*members);
		session->servers_ = session->members_->first();
	} else {
		auto servers = read_servers(wanted.host, wanted.port);
		if (!servers) return std::unexpected(servers.error());
		session->servers_ = std::move(*servers);
	}
	if (wanted.tcp) return session;
	bool here = true;
	std::vector<async::Address> addresses;
	for (const std::string& name : session->servers_) {
		// A name that cannot be resolved is reported when a client connects to it, so that it does
		// not prevent connections to the other servers.
		const auto address = async::resolve(name, wanted.port);
		here = here && (!address || async::is_loopback(*address));
		if (address) addresses.push_back(*address);
	}
	lib::DeviceRequest wish{.device = wanted.device, .both_ends_on_this_host = here};
	if (wish.device.empty()) wish.device = channel::device_towards(addresses);
	auto transport = channel::RcTransport::open(session->loop_, wish, client_rc_options(wanted.settings));
	if (!transport) return std::unexpected(transport.error());
	session->transport_ = std::move(*transport);
	return session;
}

async::Task<OpenedClient> Session::connect(ClientOptions options, std::string name, Nanoseconds patience) {
	const Nanoseconds deadline = monotonic_now() + patience;
	channel::ConnectOptions to{
		.protection = options_.protection, .host = name, .port = options_.port, .patience = patience};
	options.message_max = records_max(options_.settings.eager_max);
	std::unique_ptr<channel::Channel> channel;
	if (transport_) {
		auto connected = co_await channel::connect(*transport_, std::move(to));
		if (!connected) co_return std::unexpected(connected.error());
		channel = std::move(*connected);
	} else {
		const channel::TcpOptions tcp = tcp_options();
		auto connected = co_await channel::connect_tcp(loop_, std::move(to), tcp);
		if (!connected) co_return std::unexpected(connected.error());
		channel = std::move(*connected);
	}
	auto opened = co_await Client::open(std::move(channel), options, deadline);
	if (!opened) co_return std::unexpected(name + ": " + opened.error());
	co_return std::move(*opened);
}

}  // namespace verbena::kv
