// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/kernel_nldev.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace verbena::presence {
namespace {

// Calls `visit` with the header of each message of a datagram and the offset of the message.
void for_each_message(const Datagram& datagram, const std::function<void(const nlmsghdr&, std::size_t)>& visit) {
	nlmsghdr header;
	for (std::size_t at = 0; at + sizeof header <= datagram.size(); at += NLMSG_ALIGN(header.nlmsg_len)) {
		std::memcpy(&header, datagram.data() + at, sizeof header);
		if (header.nlmsg_len < sizeof header) return;
		visit(header, at);
	}
}

// True if a message of this type is among them.
bool has(const std::vector<Datagram>& datagrams, std::uint16_t type) {
	bool found = false;
	for (const Datagram& datagram : datagrams)
		for_each_message(datagram, [&](const nlmsghdr& header, std::size_t) { found |= header.nlmsg_type == type; });
	return found;
}

// The first message with a negative errno value, which is not an acknowledgement.
bool failed(const std::vector<Datagram>& datagrams) {
	bool found = false;
	for (const Datagram& datagram : datagrams)
		for_each_message(datagram, [&](const nlmsghdr& header, std::size_t at) {
			std::int32_t error = 0;
			if (header.nlmsg_type != NLMSG_ERROR || at + sizeof header + sizeof error > datagram.size()) return;
			std::memcpy(&error, datagram.data() + at + sizeof header, sizeof error);
			found |= error != 0;
		});
	return found;
}

void remove_end(std::vector<Datagram>& datagrams) {
	for (Datagram& datagram : datagrams) {
		std::size_t end = datagram.size();
		for_each_message(datagram, [&](const nlmsghdr& header, std::size_t at) {
			if (header.nlmsg_type == NLMSG_DONE) end = std::min(end, at);
		});
		datagram.resize(end);
	}
	std::erase_if(datagrams, [](const Datagram& datagram) { return datagram.empty(); });
}

// True if the answer is not complete before one more datagram has come.
bool goes_on(const Datagram& datagram) {
	bool multi = false, end = false;
	for_each_message(datagram, [&](const nlmsghdr& header, std::size_t) {
		multi |= (header.nlmsg_flags & NLM_F_MULTI) != 0;
		end |= header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
	});
	return multi && !end;
}

// Receives the kernel's answers to one request; nothing if it does not answer.
std::vector<Datagram> receive(int fd, std::uint32_t port) {
	std::vector<Datagram> datagrams;
	do {
		Datagram datagram(std::size_t{1} << 16);
		const ssize_t got = recv(fd, datagram.data(), datagram.size(), 0);
		if (got <= 0) return {};
		datagram.resize(static_cast<std::size_t>(got));
		std::vector<std::size_t> places;
		for_each_message(datagram, [&](const nlmsghdr&, std::size_t at) { places.push_back(at); });
		for (const std::size_t at : places)
			std::memcpy(datagram.data() + at + offsetof(nlmsghdr, nlmsg_pid), &port, sizeof port);
		datagrams.push_back(std::move(datagram));
	} while (goes_on(datagrams.back()));
	return datagrams;
}

}  // namespace

std::vector<Datagram> merge(std::vector<Datagram> ours, std::vector<Datagram> kernels) {
	if (kernels.empty()) return ours;
	const bool our_list = has(ours, NLMSG_DONE), their_list = has(kernels, NLMSG_DONE);
	if (our_list && their_list) {
		remove_end(kernels);
		std::ranges::move(ours, std::back_inserter(kernels));
		return kernels;
	}
	return failed(ours) && !our_list ? kernels : ours;
}

std::vector<Datagram> merge_with_kernel(
	std::span<const std::byte> requests, std::vector<Datagram> ours, std::uint32_t port) {
	const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0) return ours;
	const timeval patience{.tv_sec = 2, .tv_usec = 0};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (send(fd, requests.data(), requests.size(), 0) == static_cast<ssize_t>(requests.size()))
		ours = merge(std::move(ours), receive(fd, port));
	close(fd);
	return ours;
}

}  // namespace verbena::presence
