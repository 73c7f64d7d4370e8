// SPDX-License-Identifier: Apache-2.0
#include "tools/wire_pair.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace verbena::tools {
namespace {

using Done = std::expected<void, std::string>;

constexpr const char* address_0 = "10.77.0.1";
constexpr const char* address_1 = "10.77.0.2";
constexpr std::uint16_t wire_port = 4791;

std::unexpected<std::string> refused(std::string_view step, int error) {
	return std::unexpected(fmt::format("{}: {}", step, std::strerror(error)));
}

// One request of rtnetlink(7), written from front to back.
class Request {
public:
	Request(std::uint16_t type, std::uint16_t flags) {
		append(
			nlmsghdr{.nlmsg_type = type, .nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags)});
	}
	template <class T> void append(const T& part) {
		const auto bytes = std::as_bytes(std::span(&part, 1));
		bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
		bytes_.resize(NLMSG_ALIGN(bytes_.size()));
	}
	void attribute(std::uint16_t type, std::span<const std::byte> value) {
		const std::size_t at = open(type);
		bytes_.insert(bytes_.end(), value.begin(), value.end());
		close(at);
	}
	template <class T> void attribute(std::uint16_t type, const T& value) {
		attribute(type, std::as_bytes(std::span(&value, 1)));
	}
	void name(std::uint16_t type, const char* text) {
		attribute(type, std::as_bytes(std::span(text, std::strlen(text) + 1)));
	}
	// Attributes between open() and close() are inside of this one.
	std::size_t open(std::uint16_t type) {
		const std::size_t at = bytes_.size();
		append(rtattr{.rta_len = 0, .rta_type = type});
		return at;
	}
	void close(std::size_t at) {
		const auto length = static_cast<unsigned short>(bytes_.size() - at);
		std::memcpy(bytes_.data() + at, &length, sizeof length);
		bytes_.resize(NLMSG_ALIGN(bytes_.size()));
	}

	// Sends the request in the namespace of the thread, and waits for the kernel's answer.
	Done send(std::string_view step) {
		const Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
		const auto length = static_cast<std::uint32_t>(bytes_.size());
		std::memcpy(bytes_.data(), &length, sizeof length);
		struct {
			nlmsghdr header;
			nlmsgerr error;
		} answer{};
		// The answer to a refused request repeats it; the rest is cut off.
		if (!fd || ::send(fd.get(), bytes_.data(), bytes_.size(), 0) < 0 ||
			recv(fd.get(), &answer, sizeof answer, 0) < static_cast<ssize_t>(sizeof answer.header + sizeof(int)))
			return refused(step, errno);
		if (answer.error.error != 0) return refused(step, -answer.error.error);
		return {};
	}

private:
	std::vector<std::byte> bytes_;
};

// A veth pair: wire1 here, and wire0 in the namespace `other`.
Done make_wire(int other) {
	Request request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	request.append(ifinfomsg{});
	request.name(IFLA_IFNAME, "wire1");
	const std::size_t info = request.open(IFLA_LINKINFO);
	request.name(IFLA_INFO_KIND, "veth");
	const std::size_t data = request.open(IFLA_INFO_DATA);
	const std::size_t peer = request.open(VETH_INFO_PEER);
	request.append(ifinfomsg{});
	request.name(IFLA_IFNAME, "wire0");
	request.attribute(IFLA_NET_NS_FD, other);
	request.close(peer);
	request.close(data);
	request.close(info);
	return request.send("veth");
}

Done bring_up(const char* interface) {
	Request request(RTM_NEWLINK, 0);
	request.append(
		ifinfomsg{.ifi_index = static_cast<int>(if_nametoindex(interface)), .ifi_flags = IFF_UP, .ifi_change = IFF_UP});
	return request.send(fmt::format("{} up", interface));
}

Done give_address(const char* interface, const char* text) {
	Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
	request.append(ifaddrmsg{.ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = if_nametoindex(interface)});
	const in_addr address{inet_addr(text)};
	request.attribute(IFA_LOCAL, address);
	request.attribute(IFA_ADDRESS, address);
	return request.send(fmt::format("address of {}", interface));
}

Done set_up(const char* interface, const char* address) {
	if (auto done = bring_up("lo"); !done) return done;
	if (auto done = bring_up(interface); !done) return done;
	return give_address(interface, address);
}

bool write_file(const char* path, const std::string& text) {
	const Descriptor fd(open(path, O_WRONLY | O_CLOEXEC));
	return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// A network namespace of its own; also a user namespace, unless the process may make it without.
Done leave_namespace() {
	if (unshare(CLONE_NEWNET) == 0) return {};
	const uid_t user = geteuid();
	const gid_t group = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return refused("user namespace", errno);
	// The identity stays the same, so that the files of the user stay those of the process.
	if (!write_file("/proc/self/setgroups", "deny") ||
		!write_file("/proc/self/uid_map", fmt::format("{0} {0} 1", user)) ||
		!write_file("/proc/self/gid_map", fmt::format("{0} {0} 1", group)))
		return refused("identity in a user namespace", errno);
	return {};
}

// A UDP socket of this side. It stays in the namespace in which it was made.
std::expected<Descriptor, std::string> socket_at(const char* text) {
	Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (!fd) return refused("UDP socket", errno);
	const sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(wire_port), .sin_addr = {inet_addr(text)}};
	if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
		return refused(fmt::format("UDP port {} of {}", wire_port, text), errno);
	return fd;
}

// Waits until a datagram has crossed the wire. The kernel takes up to a second to bring it up, and
// drops packets until then.
Done await_datagram(int from, int to, const char* text) {
	const sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(wire_port), .sin_addr = {inet_addr(text)}};
	for (int tries = 0; tries < 200; ++tries) {
		sendto(from, "", 0, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address), sizeof address);
		pollfd ready{.fd = to, .events = POLLIN, .revents = 0};
		if (poll(&ready, 1, 20) == 1) return {};
	}
	return std::unexpected("no datagram crosses the veth pair: a filter of packets may forbid it");
}

Done enter(int space) {
	if (setns(space, CLONE_NEWNET) != 0) return refused("setns", errno);
	return {};
}

int own_namespace() { return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC); }

}  // namespace

std::expected<WirePair, std::string> WirePair::make() {
	if (auto done = leave_namespace(); !done) return std::unexpected(done.error());
	WirePair pair(own_namespace());
	if (unshare(CLONE_NEWNET) != 0) return refused("second network namespace", errno);
	const Descriptor second(own_namespace());
	if (!*pair.first_ || !second) return refused("/proc/self/ns/net", errno);
	if (auto done = make_wire(pair.first_->get()); !done) return std::unexpected(done.error());
	if (auto done = set_up("wire1", address_1); !done) return std::unexpected(done.error());
	const auto end_1 = socket_at(address_1);
	if (!end_1) return std::unexpected(end_1.error());
	if (auto done = enter(pair.first_->get()); !done) return std::unexpected(done.error());
	if (auto done = set_up("wire0", address_0); !done) return std::unexpected(done.error());
	const auto end_0 = socket_at(address_0);
	if (!end_0) return std::unexpected(end_0.error());
	if (auto done = enter(second.get()); !done) return std::unexpected(done.error());
	if (auto done = await_datagram(end_0->get(), end_1->get(), address_1); !done) return std::unexpected(done.error());
	if (auto done = await_datagram(end_1->get(), end_0->get(), address_0); !done) return std::unexpected(done.error());
	return pair;
}

Done WirePair::enter_first() { return enter(first_->get()); }

}  // namespace verbena::tools
