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

#include "nic/engine/descriptor.h"

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

// The user in a description of a socket, if the socket has the name.
std::optional<uid_t> user_in(nlmsghdr* header, std::string_view name) {
	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(unix_diag_msg))) return std::nullopt;
	auto* attribute =
		reinterpret_cast<rtattr*>(static_cast<char*>(NLMSG_DATA(header)) + NLMSG_ALIGN(sizeof(unix_diag_msg)));
	auto left = static_cast<unsigned>(header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(sizeof(unix_diag_msg))));
	std::optional<uid_t> user;
	bool named = false;
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		const auto* const value = static_cast<const char*>(RTA_DATA(attribute));
		if (attribute->rta_type == UNIX_DIAG_NAME) named = std::string_view(value, RTA_PAYLOAD(attribute)) == name;
		if (attribute->rta_type == user_attribute && RTA_PAYLOAD(attribute) == sizeof(uid_t))
			std::memcpy(&user.emplace(), value, sizeof(uid_t));
	}
	return named ? user : std::nullopt;
}

}  // namespace

std::optional<uid_t> listener_user(const SocketName& name) {
	const Descriptor asking(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
	if (!asking || !ask(asking.get())) return std::nullopt;
	const std::string_view wanted(name.address.sun_path, name.length - offsetof(sockaddr_un, sun_path));
	alignas(nlmsghdr) std::array<char, 32 * 1024> room;
	for (;;) {
		const ssize_t got = recv(asking.get(), room.data(), room.size(), 0);
		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return std::nullopt;
		auto left = static_cast<unsigned>(got);
		for (auto* header = reinterpret_cast<nlmsghdr*>(room.data()); NLMSG_OK(header, left);
			header = NLMSG_NEXT(header, left)) {
			// The end of the list, or an error.
			if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
			if (const auto user = user_in(header, wanted)) return user;
		}
	}
}

}  // namespace verbena::engine
