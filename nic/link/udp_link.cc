#include "nic/link/udp_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <new>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "base/cancellation.h"
#include "base/check.h"
#include "nic/wire/bth.h"
#include "nic/wire/deth.h"
#include "nic/wire/mad.h"

namespace verbena::link {
namespace {

constexpr std::size_t datagrams_per_call = 8;
constexpr std::size_t datagram_bytes = 64 * 1024;  // UDP_GRO merges up to this size
constexpr std::size_t control_bytes = 256;
constexpr int error_queue_bytes = 32 * 1024;  // room for some ICMP messages about sent datagrams

int native(Family family) { return family == Family::ipv4 ? AF_INET : AF_INET6; }

// Appends a control message. The caller has provided control_bytes bytes, aligned for cmsghdr.
template <class Value> void append(msghdr& message, int level, int type, const Value& value) {
	auto* header = reinterpret_cast<cmsghdr*>(static_cast<std::byte*>(message.msg_control) + message.msg_controllen);
	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(sizeof value);
	std::memcpy(CMSG_DATA(header), &value, sizeof value);
	message.msg_controllen += CMSG_SPACE(sizeof value);
}

union Address {
	sockaddr any;
	sockaddr_in ipv4;
	sockaddr_in6 ipv6;
};

int set(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value); }

socklen_t to_address(Address& address, Family family, const wire::Gid& gid, std::uint16_t port) {
	address.any.sa_family = static_cast<sa_family_t>(native(family));
	if (family == Family::ipv4) {
		address.ipv4.sin_port = htons(port);
		std::memcpy(&address.ipv4.sin_addr, &gid[12], 4);
		return sizeof address.ipv4;
	}
	address.ipv6.sin6_port = htons(port);
	std::memcpy(&address.ipv6.sin6_addr, gid.data(), 16);
	return sizeof address.ipv6;
}

// Binds and reads the port back. The zero address means any address, port 0 any free port.
int bind_to(int fd, Family family, const wire::Gid& own, std::uint16_t port, std::uint16_t& bound) {
	Address address{};
	socklen_t size = to_address(address, family, own, port);
	if (bind(fd, &address.any, size) != 0 || getsockname(fd, &address.any, &size) != 0) return -1;
	bound = ntohs(family == Family::ipv4 ? address.ipv4.sin_port : address.ipv6.sin6_port);
	return 0;
}

// epoll reports errors even if `events` is 0, as for the management socket.
int watch(int epoll, int fd, void* owner, std::uint32_t events = EPOLLIN) {
	epoll_event event{.events = events, .data = {.ptr = owner}};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// The information that the kernel gives about a datagram besides its bytes.
struct Envelope {
	wire::Flow flow;
	bool addressed = false;  // the destination address is known
	std::size_t segment_bytes = 0;  // 0: a single packet
	std::uint32_t overflowed = 0;
};

// The kernel sends the type of service as one byte, other values as an int.
int to_int(const cmsghdr* header) {
	if (header->cmsg_len < CMSG_LEN(sizeof(int)))
		return std::to_integer<int>(*reinterpret_cast<const std::byte*>(CMSG_DATA(header)));
	int value;
	std::memcpy(&value, CMSG_DATA(header), sizeof value);
	return value;
}

void set_ipv4(wire::Gid& gid, const in_addr& address) {
	gid = {};
	gid[10] = gid[11] = 0xff;
	std::memcpy(&gid[12], &address, 4);
}

// The transaction ID of the management datagram whose beginning an ICMP message quotes: BTH, DETH,
// then the MAD header. Nothing if the quotation is too short or is no CM message.
std::optional<std::uint64_t> transaction_of_quoted(std::span<const std::byte> datagram) {
	constexpr std::size_t mad_at = wire::Bth::size + wire::deth_size;
	if (datagram.size() < mad_at + wire::mad_header_size) return std::nullopt;
	const auto header = wire::read_mad_header(datagram.subspan<mad_at, wire::mad_header_size>());
	if (header.management_class != wire::mad::class_communication_management) return std::nullopt;
	return header.transaction_id;
}

Envelope open_envelope(msghdr& message, const Address& sender) {
	Envelope result;
	if (sender.any.sa_family == AF_INET) {
		set_ipv4(result.flow.source, sender.ipv4.sin_addr);
		result.flow.source_port = ntohs(sender.ipv4.sin_port);
	} else {
		std::memcpy(result.flow.source.data(), &sender.ipv6.sin6_addr, 16);
		result.flow.source_port = ntohs(sender.ipv6.sin6_port);
	}
	for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			in_pktinfo info;
			std::memcpy(&info, CMSG_DATA(c), sizeof info);
			set_ipv4(result.flow.destination, info.ipi_addr);
			result.addressed = true;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			in6_pktinfo info;
			std::memcpy(&info, CMSG_DATA(c), sizeof info);
			std::memcpy(result.flow.destination.data(), &info.ipi6_addr, 16);
			result.addressed = true;
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
			(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
			result.flow.traffic_class = static_cast<std::uint8_t>(to_int(c));
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
			(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
			result.flow.hop_limit = static_cast<std::uint8_t>(to_int(c));
		} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			result.segment_bytes = static_cast<std::size_t>(to_int(c));
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			std::memcpy(&result.overflowed, CMSG_DATA(c), sizeof result.overflowed);
		}
	}
	return result;
}

wire::AddressPair address_pair(const wire::Flow& flow) {
	wire::AddressPair pair{.traffic_class = flow.traffic_class, .hop_limit = flow.hop_limit};
	std::ranges::copy(flow.source, pair.source);
	std::ranges::copy(flow.destination, pair.destination);
	return pair;
}

// Fills in a batch's destination, and as control messages its source address, traffic class, hop
// limit and segment size.
void address_message(msghdr& message, Address& to, Family family, const UdpBatch& batch) {
	const wire::Flow& flow = batch.flow;
	message.msg_namelen = to_address(to, family, flow.destination, flow.destination_port);
	if (family == Family::ipv4) {
		in_pktinfo info{};
		std::memcpy(&info.ipi_spec_dst, &flow.source[12], 4);
		append(message, IPPROTO_IP, IP_PKTINFO, info);
		append(message, IPPROTO_IP, IP_TOS, int{flow.traffic_class});
		append(message, IPPROTO_IP, IP_TTL, std::max(int{flow.hop_limit}, 1));
	} else {
		to.ipv6.sin6_scope_id = batch.interface_index;
		in6_pktinfo info{};
		std::memcpy(&info.ipi6_addr, flow.source.data(), 16);
		info.ipi6_ifindex = batch.interface_index;
		append(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
		append(message, IPPROTO_IPV6, IPV6_TCLASS, int{flow.traffic_class});
		append(message, IPPROTO_IPV6, IPV6_HOPLIMIT, std::max(int{flow.hop_limit}, 1));
	}
	if (batch.packets > 1) append(message, SOL_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(batch.segment_bytes));
}

}  // namespace

struct UdpLink::ReceiveBuffers {
	struct Datagram {
		alignas(64) std::byte bytes[datagram_bytes];
		alignas(cmsghdr) std::byte control[control_bytes];
		Address sender;
		iovec piece;
	};
	Datagram datagrams[datagrams_per_call];
	mmsghdr messages[datagrams_per_call];
};

// `new` leaves the receive buffers uninitialized, so that they take memory only once datagrams
// arrive.
UdpLink::UdpLink(const UdpOptions& options)
	: options_(options), buffers_(new ReceiveBuffers), senders_(new Sender[senders_remembered]) {
	epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
	open(Family::ipv4);
	open(Family::ipv6);
}

UdpLink::~UdpLink() {
	for (const Sockets& s : sockets_)
		for (const int fd : {s.receiver.fd, s.send_fd, s.management.fd})
			if (fd >= 0) close(fd);
	for (const auto& receiver : steered_) close(receiver->fd);
	if (epoll_fd_ >= 0) close(epoll_fd_);
}

// Sets the options of a receiving socket. Returns 0, or -1 with errno.
int UdpLink::prepare_receiver(Family family, int fd) {
	if (set(fd, SOL_SOCKET, SO_REUSEPORT, 1) < 0) return -1;
	if (family == Family::ipv4) {
		if (set(fd, IPPROTO_IP, IP_PKTINFO, 1) < 0) return -1;
		if (set(fd, IPPROTO_IP, IP_RECVTOS, 1) < 0) return -1;
		if (set(fd, IPPROTO_IP, IP_RECVTTL, 1) < 0) return -1;
	} else {
		if (set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) < 0) return -1;
		if (set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) < 0) return -1;
		if (set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) < 0) return -1;
		if (set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) < 0) return -1;
		// Soft-RoCE sends IPv6 without a UDP checksum; the ICRC protects the packet anyway.
		if (set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1) < 0) return -1;
	}
	if (set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1) < 0) return -1;
	set(fd, SOL_UDP, UDP_GRO, 1);  // may fail before Linux 5.0: datagrams then arrive one by one
	set(fd, SOL_SOCKET, SO_RCVBUF, options_.buffer_bytes);
	return 0;
}

void UdpLink::open(Family family) {
	Sockets& s = at(family);
	const bool ipv4 = family == Family::ipv4;
	s.error = 0;
	const auto step = [&s](int result) {
		if (result >= 0) return true;
		s.error = errno;
		return false;
	};
	// Binding comes last, because a bound socket already receives.
	const auto attempt = [&] {
		if (!step(epoll_fd_)) return false;
		const int in = s.receiver.fd = socket(native(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (!step(in)) return false;
		const int out = s.send_fd = socket(native(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (!step(out)) return false;
		const int management = s.management.fd = socket(native(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (!step(management)) return false;
		if (!step(prepare_receiver(family, in))) return false;
		for (const int sender : {out, management}) {
			if (ipv4) {
				if (!step(set(sender, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO))) return false;
			} else if (!step(set(sender, IPPROTO_IPV6, IPV6_V6ONLY, 1)) ||
				!step(set(sender, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO)) ||
				!step(set(sender, IPPROTO_IPV6, IPV6_DONTFRAG, 1))) {
				return false;
			}
		}
		if (!step(ask_for_icmp(management, ipv4))) return false;
		ask_for_icmp(out, ipv4);  // may fail in a sandbox: then the log has fewer reasons
		// Before Linux 4.18 the kernel ignores a request to segment, and would send one huge
		// datagram.
		int segment = 0;
		socklen_t size = sizeof segment;
		if (getsockopt(out, SOL_UDP, UDP_SEGMENT, &segment, &size) != 0) options_.segmentation = false;
		set(out, SOL_SOCKET, SO_SNDBUF, options_.buffer_bytes);
		set(out, SOL_SOCKET, SO_RCVBUF, error_queue_bytes);  // no process sends to this port
		if (!step(bind_to(in, family, {}, options_.port, s.receiver.port)) ||
			!step(bind_to(out, family, {}, 0, s.source_port)) ||
			!step(bind_to(management, family, {}, 0, s.management.port)))
			return false;
		return step(watch(epoll_fd_, in, &s.receiver)) && step(watch(epoll_fd_, management, &s.management, 0));
	};
	if (attempt()) return;
	for (int* fd : {&s.receiver.fd, &s.send_fd, &s.management.fd})
		if (*fd >= 0) close(std::exchange(*fd, -1));
}

bool UdpLink::reopen(Family family) {
	if (!up(family)) open(family);
	return up(family);
}

void UdpLink::steer(const wire::Gid& own, const wire::Gid& peer, std::uint16_t port) {
	const Family family = wire::is_ipv4_mapped(peer) ? Family::ipv4 : Family::ipv6;
	// A link-local address alone does not identify the interface.
	if (!up(family) || (peer[0] == 0xfe && peer[1] == 0x80)) return;
	for (const auto& receiver : steered_)
		if (receiver->peer == peer && receiver->peer_port == port) return;
	rlimit files{};
	getrlimit(RLIMIT_NOFILE, &files);
	// Leave most descriptors to the program.
	if (steered_.size() >= std::min<std::size_t>(steered_max, files.rlim_cur / 8) && !evict()) return;

	const NotCancellable whole;
	steered_.reserve(steered_.size() + 1);
	auto receiver = std::make_unique<Receiver>(Receiver{.last_used = receives_, .peer = peer, .peer_port = port});
	const int fd = receiver->fd = socket(native(family), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) return;
	Address to{};
	const socklen_t size = to_address(to, family, peer, port);
	if (prepare_receiver(family, fd) != 0 || bind_to(fd, family, own, at(family).receiver.port, receiver->port) != 0 ||
		connect(fd, &to.any, size) != 0 || watch(epoll_fd_, fd, receiver.get()) != 0) {
		close(fd);
		return;
	}
	++counters_.steered;
	steered_.push_back(std::move(receiver));
}

// Closes the steered socket that was silent longest, if that is long enough. Returns whether it
// did.
bool UdpLink::evict() {
	constexpr std::uint64_t receives_silent = 10'000;
	const auto oldest =
		std::ranges::min_element(steered_, {}, [](const auto& receiver) { return receiver->last_used; });
	if (oldest == steered_.end() || (*oldest)->last_used + receives_silent > receives_) return false;
	if (last_active_ == oldest->get()) last_active_ = nullptr;  // it would dangle
	close((*oldest)->fd);
	steered_.erase(oldest);
	return true;
}

SendOutcome UdpLink::send(const UdpBatch& batch) {
	check(batch.packets != 0 && batch.packets <= UdpBatch::packets_max && batch.bytes <= UdpBatch::bytes_max,
		"a batch is within the limits of the kernel");
	const wire::Flow& flow = batch.flow;
	const Family family = flow.is_ipv4() ? Family::ipv4 : Family::ipv6;
	if (!up(family)) {
		counters_.unreachable += batch.packets;
		return SendOutcome::refused;
	}
	Address to{};
	alignas(cmsghdr) std::byte control[control_bytes] = {};
	msghdr message{
		.msg_name = &to, .msg_iov = batch.pieces.data(), .msg_iovlen = batch.pieces.size(), .msg_control = control};
	address_message(message, to, family, batch);

	const Sockets& s = at(family);
	const bool management = flow.source_port == s.management.port;
	const int fd = management ? s.management.fd : s.send_fd;
	const auto attempt = [&] {
		long sent;
		do sent = syscall(SYS_sendmsg, fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		while (sent < 0 && errno == EINTR);
		return sent;
	};
	// An ICMP message about an earlier datagram, maybe to another host, makes one call fail. This
	// datagram is still to be sent, so try again. If messages keep coming, try in a later pass: no
	// number of them, forged or not, loses a datagram.
	constexpr int attempts_max = 8;
	long sent = attempt();
	for (int attempts = 1; sent < 0 && may_be_icmp(errno); ++attempts) [[unlikely]] {
		const std::size_t messages = read_icmp(fd, management);
		if (attempts > 1 && messages == 0) break;  // the second errno is the call's own
		if (attempts == attempts_max) {
			++counters_.send_blocked;
			return SendOutcome::blocked;
		}
		sent = attempt();
	}
	++counters_.send_calls;
	if (sent >= 0) {
		counters_.packets_sent += batch.packets;
		counters_.bytes_sent += batch.bytes;
		if (wire::is_multicast(flow.destination)) counters_.multicast_packets_sent += batch.packets;
		return SendOutcome::sent;
	}
	switch (errno) {
		case EAGAIN:
		case ENOBUFS:
		case ENOMEM: ++counters_.send_blocked; return SendOutcome::blocked;
		case EMSGSIZE:
		case EINVAL:
		case EIO:
		case EOPNOTSUPP:
			// The segments may be too long for the route, or the route cannot segment (no checksum
			// offload, IPsec).
			if (batch.packets > 1) return SendOutcome::unsegmentable;
			++(errno == EMSGSIZE ? counters_.too_big : counters_.unreachable);
			return SendOutcome::refused;
		default:
			counters_.unreachable += batch.packets;
			unreachable_.note(flow.destination, errno, monotonic_now());
			return SendOutcome::refused;
	}
}

std::size_t UdpLink::receive(std::size_t datagrams_max, PacketSink sink) {
	constexpr std::uint64_t receives_between_looks = 8;
	++receives_;
	std::size_t total = 0;
	dry_ = false;
	if (last_active_) {
		total = receive(*last_active_, datagrams_max, sink);
		if (total == 0) last_active_ = nullptr;
		else if (receives_ % receives_between_looks != 0) return total;
	}
	std::array<epoll_event, 16> ready;
	const auto n = static_cast<int>(
		syscall(SYS_epoll_pwait, epoll_fd_, ready.data(), static_cast<int>(ready.size()), 0, nullptr, 0));
	// Sockets beyond the array, or with more than datagrams_max datagrams, wait for the next call.
	dry_ = n < static_cast<int>(ready.size());
	for (int i = 0; i < n; ++i) {
		auto& receiver = *static_cast<Receiver*>(ready[i].data.ptr);
		if (receiver.only_refusals) [[unlikely]] {
			read_icmp(receiver.fd, true);
			continue;
		}
		const std::size_t got = receive(receiver, datagrams_max, sink);
		if (got != 0) last_active_ = &receiver;
		dry_ &= got < datagrams_max;
		total += got;
	}
	return total;
}

// Empties the error queue, because epoll reports the management socket as long as it holds
// messages. A port-unreachable message about a management datagram is a refusal if it quotes enough
// to identify the datagram. Returns the number of ICMP messages; keeps errno.
std::size_t UdpLink::read_icmp(int fd, bool management) {
	constexpr int messages_max = 64;
	const int kept = errno;
	std::size_t messages = 0;
	alignas(8) std::array<std::byte, 512> room;
	for (int i = 0; i < messages_max; ++i) {
		const auto read = next_icmp(fd, room);
		if (!read) {
			// SO_ERROR clears an error for which the full queue had no room.
			int error = 0;
			socklen_t size = sizeof error;
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
			break;
		}
		if (read->error == 0) continue;
		++messages;
		if (read->error == EMSGSIZE) continue;  // the kernel lowers the MTU of the route by itself
		unreachable_.note(read->destination, read->error, monotonic_now());
		const auto transaction =
			management && read->error == ECONNREFUSED ? transaction_of_quoted(read->quoted) : std::nullopt;
		if (!transaction) continue;
		++counters_.refusals;
		try {
			refusals_.push_back({.by = read->destination, .transaction_id = *transaction});
		} catch (const std::bad_alloc&) {}  // the request is repeated, and refused again
	}
	errno = kept;
	return messages;
}

std::optional<UnreachableHosts::Report> UdpLink::unreachable(const wire::Gid& host) {
	const Sockets& s = at(wire::is_ipv4_mapped(host) ? Family::ipv4 : Family::ipv6);
	if (s.send_fd >= 0) read_icmp(s.send_fd, false);
	return unreachable_.find(host);
}

std::size_t UdpLink::receive(Receiver& s, std::size_t datagrams_max, PacketSink sink) {
	std::size_t total = 0;
	while (total < datagrams_max) {
		const std::size_t wanted = std::min(datagrams_max - total, datagrams_per_call);
		for (std::size_t i = 0; i < wanted; ++i) {
			auto& d = buffers_->datagrams[i];
			d.piece = {.iov_base = d.bytes, .iov_len = datagram_bytes};
			buffers_->messages[i].msg_hdr = {.msg_name = &d.sender,
				.msg_namelen = sizeof d.sender,
				.msg_iov = &d.piece,
				.msg_iovlen = 1,
				.msg_control = d.control,
				.msg_controllen = control_bytes};
		}
		long got;
		do got = syscall(SYS_recvmmsg, s.fd, buffers_->messages, wanted, MSG_DONTWAIT, nullptr);
		while (got < 0 && errno == EINTR);
		++counters_.receive_calls;
		// Also ends here if ICMP reports that a steered flow's other end is unreachable; the
		// transport's timeouts handle that.
		if (got <= 0) return total;
		s.last_used = receives_;
		for (long i = 0; i < got; ++i) deliver(s, static_cast<std::size_t>(i), sink);
		total += static_cast<std::size_t>(got);
		if (static_cast<std::size_t>(got) < wanted) return total;
	}
	return total;
}

// Parses the datagram in buffer `index`, which may hold several packets, and gives the valid ones
// to the sink.
void UdpLink::deliver(Receiver& s, std::size_t index, PacketSink sink) {
	mmsghdr& message = buffers_->messages[index];
	const auto& d = buffers_->datagrams[index];
	Envelope envelope = open_envelope(message.msg_hdr, d.sender);
	counters_.overflowed += envelope.overflowed != 0 ? envelope.overflowed - s.overflowed : 0;
	if (envelope.overflowed != 0) s.overflowed = envelope.overflowed;
	if (!envelope.addressed || (message.msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
		++counters_.malformed;
		return;
	}
	envelope.flow.destination_port = s.port;
	const wire::AddressPair addresses = address_pair(envelope.flow);
	const std::span<const std::byte> bytes(d.bytes, message.msg_len);
	counters_.bytes_received += bytes.size();
	// UDP_GRO merged packets of `segment` bytes each. A sender of ours numbers them from 0,
	// so the position is the first guess for the IPv4 identification.
	const std::size_t segment = envelope.segment_bytes != 0 ? envelope.segment_bytes : bytes.size();
	const bool multicast = wire::is_multicast(envelope.flow.destination);
	wire::IpHabit& habit = habit_of(envelope.flow);
	std::uint16_t position = 0;
	for (std::size_t offset = 0; offset < bytes.size(); offset += segment, ++position) {
		const auto packet = bytes.subspan(offset, std::min(segment, bytes.size() - offset));
		++counters_.packets_received;
		counters_.multicast_packets_received += multicast;
		auto parsed = wire::parse(envelope.flow, packet, habit.guess(position));
		if (parsed && !habit.accept(parsed->ip)) parsed = std::unexpected(wire::DropReason::wrong_icrc);
		if (parsed)
			sink.deliver(sink.context,
				{.slot = parsed->slot,
					.payload = parsed->payload,
					.addresses = addresses,
					.source_port = envelope.flow.source_port,
					.ip = parsed->ip,
					.datagram = packet,
					.steered = s.peer_port != 0});
		else ++counters_.drops[static_cast<std::size_t>(parsed.error())];
	}
}

wire::IpHabit& UdpLink::habit_of(const wire::Flow& flow) {
	std::uint32_t mixed = flow.source_port;
	for (std::size_t i = 0; i < flow.source.size(); i += 4) {
		std::uint32_t word;
		std::memcpy(&word, &flow.source[i], sizeof word);
		mixed = (mixed ^ word) * 0x9e3779b1u;  // Knuth's multiplicative hash
	}
	Sender& sender = senders_[mixed >> 22];
	static_assert(senders_remembered == 1u << (32 - 22));
	if (sender.port != flow.source_port || sender.address != flow.source)
		sender = {.address = flow.source, .port = flow.source_port, .habit = {}};
	return sender.habit;
}

int UdpLink::join(const wire::Gid& group, std::uint32_t interface_index) {
	return change_membership(group, interface_index, true);
}
int UdpLink::leave(const wire::Gid& group, std::uint32_t interface_index) {
	return change_membership(group, interface_index, false);
}

int UdpLink::change_membership(const wire::Gid& group, std::uint32_t interface_index, bool member) {
	const bool ipv4 = wire::is_ipv4_mapped(group);
	const int fd = at(ipv4 ? Family::ipv4 : Family::ipv6).receiver.fd;
	if (fd < 0) return at(ipv4 ? Family::ipv4 : Family::ipv6).error;
	int result;
	if (ipv4) {
		ip_mreqn request{};
		std::memcpy(&request.imr_multiaddr, group.data() + 12, 4);
		request.imr_ifindex = static_cast<int>(interface_index);
		result = setsockopt(fd, IPPROTO_IP, member ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof request);
	} else {
		ipv6_mreq request{};
		std::memcpy(&request.ipv6mr_multiaddr, group.data(), 16);
		request.ipv6mr_interface = interface_index;
		result = setsockopt(fd, IPPROTO_IPV6, member ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request, sizeof request);
	}
	// EADDRINUSE: this socket is a member already.
	return result == 0 || (member && errno == EADDRINUSE) ? 0 : errno;
}

}  // namespace verbena::link
