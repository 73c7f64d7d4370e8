// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/listener_user.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/descriptor.h"

namespace verbena::engine {

namespace {

constexpr std::uint32_t show_user = 0x40;  // UDIAG_SHOW_UID
constexpr unsigned short user_attribute = 7;  // UNIX_DIAG_UID

bool ask(int socket) {
	const struct {
		nlmsghdr header;
		unix_diag_req request;
	} message{
		.header = {.nlmsg_len = sizeof message,
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.request = {.sdiag_family = AF_UNIX,
			.udiag_states = 1u << TCP_LISTEN,
			.udiag_show = UDIAG_SHOW_NAME | show_user},
	};
	return send(socket, &message, sizeof message, MSG_NOSIGNAL) == sizeof message;
}

struct Listener {
	std::string_view name;
	uid_t user;
};

// The socket that a message describes, if it has a name and a user.
std::optional<Listener> listener_in(nlmsghdr* header) {
	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(unix_diag_msg))) return std::nullopt;
	auto* attribute =
		reinterpret_cast<rtattr*>(static_cast<char*>(NLMSG_DATA(header)) + NLMSG_ALIGN(sizeof(unix_diag_msg)));
	auto left = static_cast<unsigned>(header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(sizeof(unix_diag_msg))));
	std::optional<uid_t> user;
	std::string_view name;
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		const auto* const value = static_cast<const char*>(RTA_DATA(attribute));
		if (attribute->rta_type == UNIX_DIAG_NAME) name = {value, RTA_PAYLOAD(attribute)};
		if (attribute->rta_type == user_attribute && RTA_PAYLOAD(attribute) == sizeof(uid_t))
			std::memcpy(&user.emplace(), value, sizeof(uid_t));
	}
	if (!user || name.empty()) return std::nullopt;
	return Listener{name, *user};
}

// Whether `matches` is true for one of the listeners; nothing if the kernel does not list them.
template <class Matches> std::optional<bool> any_listener(Matches&& matches) {
	const Descriptor asking(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
	if (!asking || !ask(asking.get())) return std::nullopt;
	alignas(nlmsghdr) std::array<char, 32 * 1024> room;
	for (;;) {
		const ssize_t got = recv(asking.get(), room.data(), room.size(), 0);
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return std::nullopt;
		auto left = static_cast<unsigned>(got);
		for (auto* header = reinterpret_cast<nlmsghdr*>(room.data()); NLMSG_OK(header, left);
			header = NLMSG_NEXT(header, left)) {
			if (header->nlmsg_type == NLMSG_DONE) return false;
			if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;  // an error
			if (const auto listener = listener_in(header); listener && matches(*listener)) return true;
		}
	}
}

}  // namespace

std::optional<uid_t> listener_user(const SocketName& name) {
	const std::string_view wanted(name.address.sun_path, name.length - offsetof(sockaddr_un, sun_path));
	std::optional<uid_t> user;
	any_listener([&](const Listener& listener) {
		if (listener.name == wanted) user = listener.user;
		return user.has_value();
	});
	return user;
}

std::optional<bool> listens_publicly(uid_t user) {
	bool says_users = false;
	const auto found = any_listener([&](const Listener& listener) {
		says_users = true;
		return listener.user == user && listener.name.substr(1).starts_with(public_prefix);
	});
	// Before Linux 5.3 the list has no users.
	return found && !*found && !says_users ? std::nullopt : found;
}

}  // namespace verbena::engine
