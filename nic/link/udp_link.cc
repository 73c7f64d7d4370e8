// SPDX-License-Identifier: Apache-2.0
#include "nic/link/udp_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "nic/link/udp_envelope.h"
#include "nic/wire/bth.h"
#include "nic/wire/deth.h"
#include "nic/wire/mad.h"

namespace verbena::link {
namespace {

constexpr std::size_t datagrams_per_call = 8;
constexpr std::size_t datagram_bytes = 64 * 1024;  // UDP_GRO merges up to this size

// The transaction ID of the management datagram whose beginning an ICMP message quotes: BTH, DETH,
// then the MAD header. Nothing if the quotation is too short or is no CM message.
std::optional<std::uint64_t> transaction_of_quoted(std::span<const std::byte> datagram) {
	constexpr std::size_t mad_at = wire::Bth::size + wire::deth_size;
	if (datagram.size() < mad_at + wire::mad_header_size) return std::nullopt;
	const auto header = wire::read_mad_header(datagram.subspan<mad_at, wire::mad_header_size>());
	if (header.management_class != wire::mad::class_communication_management) return std::nullopt;
	return header.transaction_id;
}

}  // namespace

struct UdpLink::ReceiveBuffers {
	struct Datagram {
		alignas(64) std::byte bytes[datagram_bytes];
		alignas(cmsghdr) std::byte control[control_bytes];
		SocketAddress sender;
		iovec piece;
	};
	Datagram datagrams[datagrams_per_call];
	mmsghdr messages[datagrams_per_call];
};

// `new` leaves the receive buffers uninitialized, so that they take memory only once datagrams
// arrive.
UdpLink::UdpLink(const UdpOptions& options)
	: options_(options), buffers_(new ReceiveBuffers), senders_(new Sender[senders_remembered]) {
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

SendOutcome UdpLink::send(const UdpBatch& batch) {
	check(batch.packets != 0 && batch.packets <= UdpBatch::packets_max && batch.bytes <= UdpBatch::bytes_max,
		"a batch is within the limits of the kernel");
	const wire::Flow& flow = batch.flow;
	const Family family = flow.is_ipv4() ? Family::ipv4 : Family::ipv6;
	if (!sends(family)) {
		counters_.unreachable += batch.packets;
		return SendOutcome::refused;
	}
	SocketAddress to{};
	alignas(cmsghdr) std::byte control[control_bytes] = {};
	msghdr message{
		.msg_name = &to, .msg_iov = batch.pieces.data(), .msg_iovlen = batch.pieces.size(), .msg_control = control};
	address_message(message, to, family, flow, batch.interface_index, batch.packets > 1 ? batch.segment_bytes : 0);

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
		} catch (const std::bad_alloc&) {
			continue;  // the request is repeated, and refused again
		}
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
	const bool after_overflow = envelope.overflowed != 0 && envelope.overflowed != s.overflowed;
	if (after_overflow) [[unlikely]]
		counters_.overflowed += envelope.overflowed - std::exchange(s.overflowed, envelope.overflowed);
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
	wire::IcrcPrefix prefix(envelope.flow, segment);
	for (std::size_t offset = 0; offset < bytes.size(); offset += segment, ++position) {
		const auto packet = bytes.subspan(offset, std::min(segment, bytes.size() - offset));
		++counters_.packets_received;
		counters_.multicast_packets_received += multicast;
		if (packet.size() != segment) [[unlikely]]
			prefix = wire::IcrcPrefix(envelope.flow, packet.size());
		auto parsed = wire::parse(prefix, packet, habit.guess(position));
		if (parsed && !habit.accept(parsed->ip)) parsed = std::unexpected(wire::DropReason::wrong_icrc);
		if (parsed)
			sink.deliver(sink.context,
				{.slot = parsed->slot,
					.payload = parsed->payload,
					.addresses = addresses,
					.source_port = envelope.flow.source_port,
					.ip = parsed->ip,
					.datagram = packet,
					.steered = s.peer_port != 0,
					.after_overflow = after_overflow});
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

}  // namespace verbena::link
