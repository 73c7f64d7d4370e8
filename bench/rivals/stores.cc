// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/stores.h"

#include <pwd.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

StartedRival start(std::unique_ptr<RivalServer> server, std::vector<std::string> command, RivalServer::At at) {
	if (auto started = server->start(std::move(command), at); !started) return std::unexpected(started.error());
	return server;
}

}  // namespace

std::expected<void, std::string> find_redis() {
	if (is_on_path("redis-server")) return {};
	return std::unexpected(
		"cannot find redis-server on the PATH: install Debian's package redis-server (and stop the service that it "
		"starts), or leave out --with-redis");
}

std::expected<void, std::string> find_memcached() {
	if (is_on_path("memcached")) return {};
	return std::unexpected(
		"cannot find memcached on the PATH: install Debian's package memcached (and stop the service that it starts), "
		"or leave out --with-memcached");
}

StartedRival start_redis() {
	auto server = std::make_unique<RivalServer>("redis");
	std::vector<std::string> command{"redis-server", "--bind", "127.0.0.1", "--port", std::to_string(server->port()),
		"--unixsocket", server->socket(), "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir",
		server->folder()};
	return start(std::move(server), std::move(command), RivalServer::At::unix_socket);
}

StartedRival start_memcached(RivalServer::At at) {
	auto server = std::make_unique<RivalServer>("memcached");
	const passwd* const user = getpwuid(geteuid());
	std::vector<std::string> command{
		"memcached", "-u", user == nullptr ? "root" : user->pw_name, "-m", "1024", "-I", "128m", "-t", "1", "-U", "0"};
	if (at == RivalServer::At::unix_socket) command.insert(command.end(), {"-s", server->socket()});
	else command.insert(command.end(), {"-l", "127.0.0.1", "-p", std::to_string(server->port())});
	return start(std::move(server), std::move(command), at);
}

}  // namespace verbena::bench
