// SPDX-License-Identifier: Apache-2.0
#include "base/door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <span>

#include "base/line_words.h"
#include "base/random.h"

namespace verbena::door {
namespace {

constexpr int backlog = 64;
constexpr off_t bytes_max = 64 << 20;
constexpr std::size_t doors_at_once = 256;
constexpr std::string_view kinds[] = {"status", "channels"};

struct Address {
	sockaddr_un name{};
	socklen_t length = 0;
	explicit Address(std::string_view text) {
		name.sun_family = AF_UNIX;
		const std::size_t size = std::min(text.size(), sizeof name.sun_path - 1);
		std::memcpy(name.sun_path + 1, text.data(), size);
		length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
	}
	const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

std::expected<ucred, int> peer_of(int socket) {
	ucred peer{};
	socklen_t length = sizeof peer;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::unexpected(errno);
	return peer;
}

// The parts of a name: "verbena/<user>/<kind>/...". The kind is empty if it is no such name.
struct Parts {
	uid_t user = 0;
	std::string_view kind;
};

Parts parts_of(std::string_view name) {
	constexpr std::string_view before = "verbena/";
	if (!name.starts_with(before)) return {};
	name.remove_prefix(before.size());
	Parts parts;
	const auto read = std::from_chars(name.data(), name.data() + name.size(), parts.user);
	name.remove_prefix(static_cast<std::size_t>(read.ptr - name.data()));
	if (read.ec != std::errc{} || !name.starts_with('/')) return {};
	name.remove_prefix(1);
	for (const std::string_view kind : kinds)
		if (name.starts_with(kind) && name.substr(kind.size()).starts_with('/')) parts.kind = kind;
	return parts;
}

// The answer's bytes: of a sealed file, so that they cannot change or vanish under the reader.
std::expected<std::string, int> read_answer(int fd) {
	struct stat facts{};
	constexpr int seals = F_SEAL_SHRINK | F_SEAL_WRITE;
	if (fstat(fd, &facts) != 0) return std::unexpected(errno);
	// Only a file in memory has seals; reading another one may never end.
	const int sealed = fcntl(fd, F_GET_SEALS);
	if (sealed < 0 || (sealed & seals) != seals || facts.st_size > bytes_max) return std::unexpected(EPROTO);
	std::string text(static_cast<std::size_t>(facts.st_size), '\0');
	const ssize_t got = pread(fd, text.data(), text.size(), 0);
	if (got < 0) return std::unexpected(errno);
	text.resize(static_cast<std::size_t>(got));
	return text;
}

std::expected<Descriptor, int> receive_descriptor(int socket) {
	char byte;
	iovec bytes{&byte, 1};
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	msghdr header{};
	header.msg_iov = &bytes;
	header.msg_iovlen = 1;
	header.msg_control = control;
	header.msg_controllen = sizeof control;
	const ssize_t length = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length < 0) return std::unexpected(errno);
	const cmsghdr* const part = CMSG_FIRSTHDR(&header);
	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
		return std::unexpected(length == 0 ? ECONNRESET : EPROTO);
	int fd = -1;
	std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
	return Descriptor(fd);
}

// Connects to a door whose process is of the right user. Notes the process in `answer`.
std::expected<Descriptor, int> visit(const Found& door, uid_t user, Answer& answer) {
	Descriptor to(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (!to) return std::unexpected(errno);
	const Address address(door.name);
	if (connect(to.get(), address.get(), address.length) != 0)
		return std::unexpected(errno == EAGAIN ? ETIMEDOUT : errno);
	const auto owner = peer_of(to.get());
	if (!owner) return std::unexpected(owner.error());
	if (owner->uid != door.user() || (owner->uid != user && user != 0)) return std::unexpected(EPERM);
	answer.pid = owner->pid;
	return to;
}

std::expected<std::string, int> take_answer(const Descriptor& from) {
	const auto file = receive_descriptor(from.get());
	if (!file) return std::unexpected(file.error());
	return read_answer(file->get());
}

void ask_some(std::span<const Found> doors, std::span<Answer> answers, uid_t user, std::chrono::milliseconds timeout) {
	std::vector<Descriptor> visits(doors.size());
	std::vector<pollfd> waiting(doors.size(), {-1, POLLIN, 0});
	for (std::size_t i = 0; i < doors.size(); ++i) {
		auto visited = visit(doors[i], user, answers[i]);
		if (visited) visits[i] = std::move(*visited);
		else answers[i].text = std::unexpected(visited.error());
		waiting[i].fd = visits[i].get();
	}
	const auto deadline = std::chrono::steady_clock::now() + timeout;
	const auto waits = [](const pollfd& each) { return each.fd >= 0; };
	while (std::ranges::any_of(waiting, waits)) {
		const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
		const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(std::max<long>(left.count(), 0)));
		if (ready == 0 || (ready < 0 && errno != EINTR)) return;
		for (std::size_t i = 0; ready > 0 && i < doors.size(); ++i) {
			if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
			answers[i].text = take_answer(visits[i]);
			waiting[i].fd = -1;
		}
	}
}

}  // namespace

std::expected<Descriptor, int> open(std::string_view kind, uid_t user) {
	Descriptor door(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (!door) return std::unexpected(errno);
	char name[64];
	std::snprintf(name, sizeof name, "verbena/%u/%.*s/%016llx", static_cast<unsigned>(user),
		static_cast<int>(kind.size()), kind.data(), static_cast<unsigned long long>(secure_random<std::uint64_t>()));
	const Address address(name);
	if (bind(door.get(), address.get(), address.length) != 0 || listen(door.get(), backlog) != 0)
		return std::unexpected(errno);
	return door;
}

std::expected<Descriptor, int> next_visitor(int door) {
	Descriptor visitor(accept4(door, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
	if (!visitor) return std::unexpected(errno);
	const auto peer = peer_of(visitor.get());
	if (!peer) return std::unexpected(peer.error());
	if (peer->uid != geteuid() && peer->uid != 0) return std::unexpected(EPERM);
	return visitor;
}

std::expected<void, int> answer(const Descriptor& visitor, std::string_view text) {
	const Descriptor file(memfd_create("verbena-door", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (!file) return std::unexpected(errno);
	const ssize_t written = write(file.get(), text.data(), text.size());
	if (written < 0) return std::unexpected(errno);
	if (static_cast<std::size_t>(written) != text.size()) return std::unexpected(ENOSPC);
	if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
		return std::unexpected(errno);
	return pass(visitor, file);
}

std::expected<void, int> pass(const Descriptor& visitor, const Descriptor& file) {
	char byte = 's';
	iovec bytes{&byte, 1};
	alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
	msghdr header{};
	header.msg_iov = &bytes;
	header.msg_iovlen = 1;
	header.msg_control = control;
	header.msg_controllen = sizeof control;
	cmsghdr* const rights = CMSG_FIRSTHDR(&header);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	const int fd = file.get();
	std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
	if (sendmsg(visitor.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) return std::unexpected(errno);
	return {};
}

std::string_view Found::kind() const { return parts_of(name).kind; }

std::optional<uid_t> Found::user() const {
	const Parts parts = parts_of(name);
	return parts.kind.empty() ? std::nullopt : std::optional(parts.user);
}

std::vector<Found> found_in(std::string_view proc_net_unix, uid_t user) {
	std::vector<Found> doors;
	while (!proc_net_unix.empty()) {
		const std::string_view line = take_line(proc_net_unix);
		const std::size_t at = line.find(" @verbena/");
		if (at == std::string_view::npos) continue;
		Found door{std::string(line.substr(at + 2))};
		const auto owner = door.user();
		if (owner && (*owner == user || user == 0)) doors.push_back(std::move(door));
	}
	// A name has a line for each connection, too.
	std::ranges::sort(doors, {}, &Found::name);
	const auto twice = std::ranges::unique(doors);
	doors.erase(twice.begin(), twice.end());
	return doors;
}

std::vector<Found> find_all() {
	std::string names;
	const Descriptor file(::open("/proc/net/unix", O_RDONLY | O_CLOEXEC));
	char bytes[16384];
	for (ssize_t got = 0; (got = read(file.get(), bytes, sizeof bytes)) > 0;)
		names.append(bytes, static_cast<std::size_t>(got));
	return found_in(names, geteuid());
}

std::vector<Answer> ask(const std::vector<Found>& doors, uid_t user, std::chrono::milliseconds timeout) {
	std::vector<Answer> answers(doors.size(), {.text = std::unexpected(ETIMEDOUT)});
	// A user can open any number of doors and answer at none, so they do not wait in turn.
	for (std::size_t first = 0; first < doors.size(); first += doors_at_once) {
		const std::size_t count = std::min(doors_at_once, doors.size() - first);
		ask_some(std::span(doors).subspan(first, count), std::span(answers).subspan(first, count), user, timeout);
	}
	return answers;
}

}  // namespace verbena::door
