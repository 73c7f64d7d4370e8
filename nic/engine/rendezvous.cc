// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "base/random.h"
#include "nic/engine/silent_process.h"
#include "nic/engine/unreachable.h"

namespace verbena::engine {

namespace {

using Clock = std::chrono::steady_clock;
using greeting::Kind;
using greeting::Message;

// The rings' pages are populated before the first message, the arena's only when they are used.
constexpr std::size_t direction_prefault = offsetof(wire::Direction, arena);

// The descriptors of a message, in this order.
enum { direction_fd, doorbell_fd, progress_fd, rights_fd, fd_count };
// Between strangers there are only these.
enum { stranger_progress_fd = 1, stranger_fd_count };
// There is room for more descriptors than are valid, so that a message with too many is recognised.
// The kernel closes those that do not fit.
constexpr std::size_t fds_accepted = 8;

Descriptor watch_death(int socket, pid_t pid) {
	// SO_PEERPIDFD, since Linux 6.5 and newer than the C library's headers. A pidfd opened by
	// number might already refer to another process.
	constexpr int so_peerpidfd = 77;
	int fd = -1;
	socklen_t length = sizeof fd;
	if (getsockopt(socket, SOL_SOCKET, so_peerpidfd, &fd, &length) == 0) return Descriptor(fd);
	return Descriptor(pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1);
}

int send_message(int socket, const Message& message, std::span<const int> fds) {
	iovec bytes{const_cast<Message*>(&message), sizeof message};
	alignas(cmsghdr) char control[CMSG_SPACE(fd_count * sizeof(int))] = {};
	msghdr header{};
	header.msg_iov = &bytes;
	header.msg_iovlen = 1;
	if (!fds.empty()) {
		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(fds.size_bytes());
		cmsghdr* rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fds.size_bytes());
		std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
	}
	ssize_t sent;
	do sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? errno : 0;
}

struct Received {
	Message message;
	std::array<Descriptor, fd_count> fds;
	std::size_t fd_total = 0;
};

// Receives one message. Every descriptor that arrived is owned here and so closed, also when the
// message is refused. Errors: EAGAIN, ECONNRESET at the end of the stream, EMFILE when this process
// had no room for the descriptors, EPROTO, EPROTONOSUPPORT.
std::expected<Received, int> receive_message(int socket, Kind kind) {
	Received in;
	iovec bytes{&in.message, sizeof in.message};
	alignas(cmsghdr) char control[CMSG_SPACE(fds_accepted * sizeof(int))];
	msghdr header{};
	header.msg_iov = &bytes;
	header.msg_iovlen = 1;
	header.msg_control = control;
	header.msg_controllen = sizeof control;
	ssize_t length;
	do length = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (length < 0 && errno == EINTR);
	if (length < 0) return std::unexpected(errno);

	for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
		const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (std::size_t i = 0; i < count; ++i) {
			int fd;
			std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
			Descriptor owned(fd);
			if (in.fd_total < fd_count) in.fds[in.fd_total] = std::move(owned);
			++in.fd_total;
		}
	}
	if (length == 0 && in.fd_total == 0) return std::unexpected(ECONNRESET);
	if (header.msg_flags & MSG_CTRUNC) return std::unexpected(in.fd_total < fd_count ? EMFILE : EPROTO);
	if (length != sizeof in.message || header.msg_flags & MSG_TRUNC) return std::unexpected(EPROTO);
	if (in.message.magic != greeting::magic || in.message.kind != kind) return std::unexpected(EPROTO);
	if (in.message.version != greeting::version || in.message.direction_bytes != sizeof(wire::Direction) ||
		in.message.progress_bytes != sizeof(ProgressPage))
		return std::unexpected(EPROTONOSUPPORT);
	return in;
}

// The engine writes to a peer's doorbell under its lock, so the descriptor must be one that cannot
// block: an eventfd (an anonymous inode: no file, pipe or socket) in non-blocking mode.
bool is_doorbell(int fd) {
	struct stat facts;
	const int flags = fcntl(fd, F_GETFL);
	return fstat(fd, &facts) == 0 && (facts.st_mode & S_IFMT) == 0 && flags >= 0 && (flags & O_NONBLOCK) &&
		(flags & O_ACCMODE) == O_RDWR;
}

// EPROTO: `fd` is no table of rights, or one of another version.
std::expected<Mapped<const memory::RightsTable>, int> map_rights_table(int fd) {
	using memory::RightsTable;
	auto table = map_sealed<const RightsTable>(fd);
	if (table && ((*table)->magic != RightsTable::magic_value || (*table)->version != RightsTable::version_value))
		return std::unexpected(EPROTO);
	return table;
}

// Maps and adopts what a peer sent: all of it, or nothing. A stranger sends no doorbell and no
// table of rights.
std::expected<void, int> adopt(Peer& peer, Received& in) {
	if (peer.is_stranger) {
		if (in.fd_total != stranger_fd_count) return std::unexpected(EPROTO);
		in.fds[progress_fd] = std::move(in.fds[stranger_progress_fd]);
	} else if ((in.fd_total != fd_count && in.fd_total != fd_count - 1) || !is_doorbell(in.fds[doorbell_fd].get())) {
		return std::unexpected(EPROTO);
	}
	const Seals seals = peer.is_stranger ? Seals::always : Seals::if_possible;
	auto incoming = map_sealed<wire::Direction>(in.fds[direction_fd].get(), direction_prefault, seals);
	if (!incoming) return std::unexpected(incoming.error());
	auto progress = map_progress_page(in.fds[progress_fd].get(), seals);
	if (!progress) return std::unexpected(progress.error());
	if (!peer.is_stranger && in.fd_total == fd_count) {
		auto rights = map_rights_table(in.fds[rights_fd].get());
		if (!rights) return std::unexpected(rights.error());
		peer.rights = std::move(*rights);
	}
	if (!peer.is_stranger) peer.doorbell = std::move(in.fds[doorbell_fd]);
	peer.incoming = std::move(*incoming);
	peer.progress = std::move(*progress);
	return {};
}

int send_with_memory(const Peer& peer, Kind kind, const Identity& self, const SealedMemory<wire::Direction>& outgoing) {
	const std::array<int, fd_count> all{outgoing.fd.get(), self.doorbell_fd, self.progress_fd, self.rights_fd};
	const std::array<int, stranger_fd_count> without_doorbell{outgoing.fd.get(), self.progress_fd};
	const Message message{.kind = kind, .token = self.token};
	if (peer.is_stranger) {
		// Without this seal (Linux 5.1) the stranger could write the page.
		const int seals = fcntl(self.progress_fd, F_GET_SEALS);
		if (seals < 0 || !(seals & F_SEAL_FUTURE_WRITE)) return ENOTSUP;
		return send_message(peer.socket.get(), message, without_doorbell);
	}
	return send_message(peer.socket.get(), message, std::span(all).first(self.rights_fd < 0 ? fd_count - 1 : fd_count));
}

std::expected<SealedMemory<wire::Direction>, int> create_direction(const Peer& peer) {
	auto made = create_sealed<wire::Direction>("verbena-direction", Writers::everyone, direction_prefault);
	if (made && peer.is_stranger && detail::check_sealed(made->fd.get(), sizeof(wire::Direction), Seals::always) != 0)
		return std::unexpected(ENOTSUP);
	return made;
}

// The acceptor's half of the greeting, after the HELLO has arrived.
std::expected<Peer, int> welcome(Peer peer, const Identity& self, Received& hello, const PendingPeer::Linked& linked) {
	peer.token = hello.message.token;
	peer.is_self = !peer.is_stranger && peer.token == self.token;
	const auto known = linked(peer.user, peer.token);
	if (!known) return std::unexpected(known.error());
	peer.already_linked = !peer.is_self && *known;
	if (peer.is_self || peer.already_linked) {
		const Message message{.kind = Kind::welcome, .no_link = 1, .token = self.token};
		if (const int error = send_message(peer.socket.get(), message, {})) return std::unexpected(error);
		peer.socket = Descriptor();
		return peer;
	}
	if (const auto adopted = adopt(peer, hello); !adopted) return std::unexpected(adopted.error());
	auto outgoing = create_direction(peer);
	if (!outgoing) return std::unexpected(outgoing.error());
	if (const int error = send_with_memory(peer, Kind::welcome, self, *outgoing)) return std::unexpected(error);
	peer.outgoing = std::move(outgoing->object);
	peer.pidfd = watch_death(peer.socket.get(), peer.pid);
	return peer;
}

// The wait of one connect_to() for another user's process, from the first question to the end.
class StrangerWait {
public:
	explicit StrangerWait(StrangerPatience* patience) : patience_(patience) {}
	StrangerWait(const StrangerWait&) = delete;
	StrangerWait& operator=(const StrangerWait&) = delete;
	~StrangerWait() { charge(); }

	// The time that is left for the process of the user; 0: it must not be asked.
	std::chrono::nanoseconds left(uid_t user) {
		charge();
		user_ = user;
		since_ = monotonic_now();
		return std::chrono::nanoseconds(patience_ ? patience_->left(user, since_) : StrangerPatience::full);
	}

private:
	void charge() {
		const Nanoseconds now = monotonic_now();
		if (patience_ && user_) patience_->spend(*user_, now - since_, now);
	}

	StrangerPatience* patience_;
	std::optional<uid_t> user_;
	Nanoseconds since_ = 0;
};

// Waits until the socket is readable. Errors: ETIMEDOUT if the deadline passed, or `pid` is stopped
// and so gives no answer; ECONNRESET if `pid` has no descriptor left to accept us.
std::expected<void, int> wait_for_answer(int fd, pid_t pid, Clock::time_point deadline) {
	constexpr std::chrono::milliseconds slice{50};
	SilentProcess process(pid);
	for (;;) {
		const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
		if (left.count() <= 0) return std::unexpected(ETIMEDOUT);
		pollfd wanted{fd, POLLIN, 0};
		const int ready = poll(&wanted, 1, static_cast<int>(std::min(left, slice).count()));
		if (ready > 0) return {};
		if (ready < 0 && errno != EINTR) return std::unexpected(errno);
		if (ready < 0) continue;
		const auto reason = process.look();
		if (reason == SilentProcess::Reason::stopped) return std::unexpected(ETIMEDOUT);
		if (reason == SilentProcess::Reason::without_descriptors) return std::unexpected(ECONNRESET);
	}
}

}  // namespace

std::expected<BlockName, int> claim_block(const Directory& directory) {
	const auto random = secure_random<std::uint32_t>();
	constexpr std::uint32_t count = block_last - block_first + 1;
	// An odd stride that shares no factor with the count (4094 = 2 x 23 x 89) visits every block
	// once.
	constexpr std::uint32_t stride = 1597;
	// Strangers may hold all public names: then other users cannot reach the block.
	constexpr std::uint32_t public_attempts = 256;
	for (std::uint32_t attempt = 0; attempt < count; ++attempt) {
		const std::uint32_t block = block_first + (random % count + attempt * stride) % count;
		const auto publicly = attempt < public_attempts ? Directory::Publicly::required : Directory::Publicly::if_free;
		auto listeners = directory.claim(Place::block(block), publicly);
		if (listeners) return BlockName{block, std::move(*listeners)};
		if (listeners.error() != EADDRINUSE) return std::unexpected(listeners.error());
	}
	return std::unexpected(EADDRINUSE);
}

std::expected<Peer, int> connect_to(const Identity& self, const Directory& directory, Place place,
	std::chrono::milliseconds timeout, StrangerPatience* strangers) {
	auto deadline = Clock::now() + timeout;
	StrangerWait wait(strangers);
	// A stranger may keep the queue of its name full, and leave a HELLO unanswered.
	auto owner = directory.connect(place, deadline, [&wait](uid_t user) { return wait.left(user); });
	if (!owner) return std::unexpected(owner.error());
	Peer peer;
	peer.socket = std::move(owner->socket);
	peer.pid = owner->peer.pid;
	peer.user = owner->peer.user;
	peer.is_stranger = peer.user != directory.user();
	if (peer.is_stranger) {
		const auto left = wait.left(peer.user);
		if (left.count() == 0) return std::unexpected(ETIMEDOUT);
		deadline = std::min<Clock::time_point>(deadline, Clock::now() + left);
	}
	const int fd = peer.socket.get();

	auto outgoing = create_direction(peer);
	if (!outgoing) return std::unexpected(outgoing.error());
	if (const int error = send_with_memory(peer, Kind::hello, self, *outgoing))
		return std::unexpected(error == EPIPE ? ECONNRESET : error);
	if (const auto answered = wait_for_answer(fd, peer.pid, deadline); !answered)
		return std::unexpected(answered.error());
	auto welcome = receive_message(fd, Kind::welcome);
	if (!welcome) return std::unexpected(welcome.error());

	peer.token = welcome->message.token;
	peer.is_self = !peer.is_stranger && peer.token == self.token;
	peer.already_linked = !peer.is_self && welcome->message.no_link;
	if (peer.is_self || peer.already_linked) {
		peer.socket = Descriptor();
		return peer;
	}
	if (const auto adopted = adopt(peer, *welcome); !adopted) return std::unexpected(adopted.error());
	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return std::unexpected(errno);
	peer.outgoing = std::move(outgoing->object);
	peer.pidfd = watch_death(fd, peer.pid);
	return peer;
}

std::expected<PendingPeer, int> PendingPeer::accept(int listener, const Identity& self, const Directory& directory) {
	const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) return std::unexpected(errno);
	Peer peer;
	peer.socket = Descriptor(fd);
	const auto other = peer_user(fd);
	if (!other) return std::unexpected(other.error());
	if (!directory.admits(other->user)) return std::unexpected(EPERM);
	peer.pid = other->pid;
	peer.user = other->user;
	peer.is_stranger = other->user != directory.user();
	return PendingPeer(self, std::move(peer));
}

PendingPeer::Step PendingPeer::on_readable(const Linked& linked) {
	auto hello = receive_message(fd(), Kind::hello);
	if (!hello && hello.error() == EAGAIN) return Step::again;
	auto peer = hello ? welcome(std::move(peer_), self_, *hello, linked)
					  : std::expected<Peer, int>(std::unexpected(hello.error()));
	if (!peer) {
		error_ = peer.error();
		explain_no_accept(error_);  // before the other side can end this program by its answer
		peer_ = Peer();  // closes the socket, which the other side sees
		return Step::failed;
	}
	peer_ = std::move(*peer);
	return Step::done;
}

}  // namespace verbena::engine
