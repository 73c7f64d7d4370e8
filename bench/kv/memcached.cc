#include "bench/kv/memcached.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/sizes.h"
#include "base/time.h"

namespace verbena::kvbench {
namespace {

class Connection {
public:
	explicit Connection(int fd) : fd_(fd) {}
	~Connection() {
		if (fd_ >= 0) ::close(fd_);
	}
	Connection(const Connection&) = delete;
	Connection& operator=(const Connection&) = delete;
	bool open() const { return fd_ >= 0; }

	bool write_all(std::string_view bytes) const {
		while (!bytes.empty()) {
			const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
			if (sent < 0 && errno == EINTR) continue;
			if (sent <= 0) return false;
			bytes.remove_prefix(static_cast<std::size_t>(sent));
		}
		return true;
	}
	// Receives these bytes this many times. Returns false if anything else arrives.
	bool expect(std::string_view wanted, std::uint64_t times) {
		for (std::uint64_t left = times * wanted.size(), at = 0; left > 0;) {
			const ssize_t got = ::recv(fd_, buffer_.data(), std::min<std::uint64_t>(buffer_.size(), left), 0);
			if (got < 0 && errno == EINTR) continue;
			if (got <= 0) return false;
			for (std::string_view part(buffer_.data(), static_cast<std::size_t>(got)); !part.empty();) {
				const std::size_t length = std::min<std::size_t>(part.size(), wanted.size() - at);
				if (part.substr(0, length) != wanted.substr(at, length)) return false;
				part.remove_prefix(length);
				at = (at + length) % wanted.size();
			}
			left -= static_cast<std::uint64_t>(got);
		}
		return true;
	}

private:
	int fd_;
	std::vector<char> buffer_ = std::vector<char>(256 << 10);
};

// Sends a window of requests, waits for all answers, and repeats that.
std::expected<double, std::string> measure(const Neighbour& server, Neighbour::At at, const Load& load) {
	Connection connection(server.connect(at));
	if (!connection.open()) return std::unexpected("memcached does not answer");
	const std::string key = "0000:000", value(load.size, 'v');
	const std::string request = load.op == Op::set ? fmt::format("set {} 0 0 {}\r\n{}\r\n", key, load.size, value)
												   : fmt::format("get {}\r\n", key);
	const std::string answer = load.op == Op::set
		? std::string("STORED\r\n")
		: fmt::format("VALUE {} 0 {}\r\n{}\r\nEND\r\n", key, load.size, value);
	std::string together;
	for (std::uint64_t i = 0; i < load.window; ++i) together += request;
	const Nanoseconds begun = monotonic_now();
	std::uint64_t done = 0;
	for (; done < load.requests; done += load.window)
		if (!connection.write_all(together) || !connection.expect(answer, load.window))
			return std::unexpected(
				fmt::format("memcached did not answer a {} of {} B as it should", name_of(load.op), load.size));
	return static_cast<double>(done) * 1e9 / static_cast<double>(monotonic_now() - begun);
}

}  // namespace

std::expected<void, std::string> find_memcached() {
	const char* const path = std::getenv("PATH");
	for (const std::string_view folder : split(path != nullptr ? path : "", ':'))
		if (access(fmt::format("{}/memcached", folder).c_str(), X_OK) == 0) return {};
	return std::unexpected(
		"install Debian's package memcached (and stop the service that it starts), or leave out --with-memcached");
}

std::expected<void, std::string> add_memcached(std::vector<Json>& rows, const Effort& effort) {
	// memcached listens at a Unix socket or at a port, not at both, so there are two servers.
	Neighbour by_name("memcached"), by_port("memcached");
	const passwd* const user = getpwuid(geteuid());
	const std::vector<std::string> command{
		"memcached", "-u", user == nullptr ? "root" : user->pw_name, "-m", "1024", "-I", "128m", "-t", "1", "-U", "0"};
	const auto with = [&](std::vector<std::string> more) {
		more.insert(more.begin(), command.begin(), command.end());
		return more;
	};
	if (!by_name.start(with({"-s", by_name.socket()}), Neighbour::At::socket) ||
		!by_port.start(with({"-l", "127.0.0.1", "-p", std::to_string(by_port.port())}), Neighbour::At::port))
		return std::unexpected("memcached did not start");
	return add_rates(rows, "memcached", effort, [&](Neighbour::At at, const Load& load) {
		return measure(at == Neighbour::At::socket ? by_name : by_port, at, load);
	});
}

}  // namespace verbena::kvbench
