#include "lib/kv/session.h"

#include <optional>

namespace verbena::kv {

using Opened = std::expected<std::unique_ptr<Client>, std::string>;

std::expected<std::unique_ptr<Session>, std::string> Session::open(SessionOptions options) {
	const auto named = async::split_host(options.host, options.port);
	if (!named) return std::unexpected(named.error());
	const auto address = async::resolve(named->host, named->port);
	if (!address) return std::unexpected(address.error());
	const lib::Wish wish{.device = options.device, .both_ends_on_this_host = async::is_loopback(*address)};
	std::unique_ptr<Session> session(new Session(std::move(options)));
	if (session->options_.tcp) return session;
	auto transport = channel::RcTransport::open(session->loop_, wish, rc_options(session->options_.settings));
	if (!transport) return std::unexpected(transport.error());
	session->transport_ = std::move(*transport);
	return session;
}

async::Task<Opened> Session::connect(ClientOptions options) {
	channel::ConnectOptions to{
		.protection = options_.protection, .host = options_.host, .port = options_.port, .patience = options_.patience};
	options.message_max = records_max(options_.settings.eager_max);
	std::unique_ptr<channel::Channel> channel;
	if (transport_) {
		auto connected = co_await channel::connect(*transport_, std::move(to));
		if (!connected) co_return std::unexpected(connected.error());
		channel = std::move(*connected);
	} else {
		channel::TcpOptions tcp = tcp_options();
		auto connected = co_await channel::connect_tcp(loop_, std::move(to), std::move(tcp));
		if (!connected) co_return std::unexpected(connected.error());
		channel = std::move(*connected);
	}
	auto opened = co_await Client::open(std::move(channel), options);
	if (!opened) co_return std::unexpected(options_.host + ": " + opened.error());
	co_return std::move(*opened);
}

Opened Session::connect_now(const ClientOptions& options) {
	Opened result;
	loop_.complete([](Session& session, ClientOptions options, Opened& result) -> async::Task<void> {
		result = co_await session.connect(options);
	}(*this, options, result));
	return result;
}

}  // namespace verbena::kv
