// SPDX-License-Identifier: Apache-2.0
// Fuzzes the greeting by which two processes of one host set up a link: a message of any bytes and
// length on their socket, with any descriptors.
//
// Both sides are fuzzed: the one that accepts (PendingPeer) and the one that connects (connect_to).
// For all messages: nothing crashes or blocks, a link is made only with memory of the right size
// and seals, and every received descriptor is closed at the end.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <thread>
#include <vector>

#include "base/check.h"
#include "fuzz/input.h"
#include "nic/engine/own_progress.h"
#include "nic/engine/rendezvous.h"

namespace verbena::fuzz {
namespace {

using namespace engine;
using namespace std::chrono_literals;

// The number that the next descriptor gets. It changes if a descriptor was left open, or if one
// that is not ours was closed.
int next_descriptor() { return Descriptor(fcntl(0, F_DUPFD_CLOEXEC, 3)).get(); }

// Descriptors that a hostile peer may send; made once. No access to them blocks.
struct Things {
	static constexpr std::size_t sealed_enough = 4;  // an honest peer sends the first four
	std::vector<Descriptor> list;
	SealedMemory<ProgressPage> own_page = *create_progress_page();
	SealedMemory<memory::RightsTable> own_rights = create_rights_table();
	Descriptor own_doorbell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

	Things() {
		list.push_back(std::move(create_sealed<wire::Direction>("direction", Writers::everyone)->fd));
		list.emplace_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		list.push_back(std::move(create_progress_page()->fd));
		list.push_back(std::move(create_rights_table().fd));
		list.emplace_back(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
		check(ftruncate(list.back().get(), sizeof(wire::Direction)) == 0, "an unsealed file of the right size");
		list.emplace_back(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
		check(fcntl(list.back().get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
			"a sealed file of the wrong size");
		list.push_back(std::move(create_sealed<ProgressPage>("no page", Writers::this_mapping)->fd));
		list.emplace_back(eventfd(0, EFD_CLOEXEC));
		list.emplace_back(open("/dev/zero", O_RDWR | O_CLOEXEC));
		list.emplace_back(open("/", O_RDONLY | O_CLOEXEC));
		list.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	}
	Identity identity() const { return {0xb0b, own_doorbell.get(), own_page.fd.get(), own_rights.fd.get()}; }
};

struct Said {
	std::vector<std::byte> bytes;
	std::vector<int> descriptors;
};

Said take_said(Input& input, const Things& things, greeting::Kind kind) {
	Said said;
	if (input.below(4) != 0) {
		// An honest message in which at most one byte is changed.
		greeting::Message message{.kind = kind, .token = input.take<std::uint16_t>()};
		if (input.flag()) message.token = 0xb0b;
		message.no_link = static_cast<std::uint8_t>(input.below(4) == 0);
		said.bytes.resize(sizeof message);
		std::memcpy(said.bytes.data(), &message, sizeof message);
		if (input.flag()) said.bytes[input.below(sizeof message)] = std::byte{input.byte()};
		if (input.below(8) == 0) said.bytes.resize(input.below(64));
		for (std::size_t i = 0; i < Things::sealed_enough; ++i) said.descriptors.push_back(things.list[i].get());
		if (input.flag())
			said.descriptors[input.below(Things::sealed_enough)] =
				things.list[input.below(static_cast<std::uint32_t>(things.list.size()))].get();
		if (input.below(4) == 0) said.descriptors.resize(input.below(20), things.list[0].get());
	} else {
		for (std::uint32_t i = input.below(20); i; --i)
			said.descriptors.push_back(things.list[input.below(static_cast<std::uint32_t>(things.list.size()))].get());
		const auto rest = input.rest();
		said.bytes.assign(rest.begin(), rest.end());
	}
	return said;
}

void say(int socket, const Said& said) {
	iovec bytes{const_cast<std::byte*>(said.bytes.data()), said.bytes.size()};
	alignas(cmsghdr) char control[CMSG_SPACE(32 * sizeof(int))] = {};
	msghdr header{};
	header.msg_iov = &bytes;
	header.msg_iovlen = 1;
	if (!said.descriptors.empty()) {
		const std::size_t size = said.descriptors.size() * sizeof(int);
		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(size);
		cmsghdr* rights = CMSG_FIRSTHDR(&header);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(size);
		std::memcpy(CMSG_DATA(rights), said.descriptors.data(), size);
	}
	sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void check_link(const Peer& peer) {
	if (peer.is_self || peer.already_linked) {
		check(!peer.socket && !peer.incoming && !peer.outgoing, "without a link no memory is mapped");
		return;
	}
	check(peer.socket && peer.doorbell && peer.incoming && peer.outgoing && peer.progress,
		"a link has a socket, a doorbell, both rings and a progress page");
	// The last byte can be read, so the peer cannot have truncated the memory: the seals hold.
	volatile std::byte last = peer.incoming->arena[wire::Direction::arena_bytes - 1];
	static_cast<void>(last);
	static_cast<void>(peer.progress->armed());
}

Directory plain_names() { return {geteuid(), std::nullopt}; }

std::uint32_t private_block() { return 0x20000 + static_cast<std::uint32_t>(getpid()); }

void accept_from(const Descriptor& listener, const Things& things, Input& input) {
	const Descriptor stranger(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	sockaddr_un name{};
	socklen_t length = sizeof name;
	check(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &length) == 0, "the listener has a name");
	check(connect(stranger.get(), reinterpret_cast<sockaddr*>(&name), length) == 0, "one can connect to it");
	auto pending = PendingPeer::accept(listener.get(), things.identity(), plain_names());
	check(pending.has_value(), "the same user is accepted");
	const bool linked = input.flag();
	for (std::uint32_t messages = 1 + input.below(2); messages; --messages) {
		say(stranger.get(), take_said(input, things, greeting::Kind::hello));
		const auto step = pending->on_readable([&](uid_t, std::uint64_t) { return linked; });
		if (step == PendingPeer::Step::again) continue;
		if (step == PendingPeer::Step::failed) {
			check(pending->error() != 0 && pending->fd() == -1, "a refusal has a reason and closes the connection");
			return;
		}
		check_link(pending->take());
		return;
	}
}

void connect_to(const Descriptor& listener, const Things& things, Input& input) {
	const Said said = take_said(input, things, greeting::Kind::welcome);
	std::thread owner([&] {
		pollfd wanted{listener.get(), POLLIN, 0};
		if (poll(&wanted, 1, 10'000) != 1) return;
		const Descriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
		say(connection.get(), said);
		// Read the HELLO first: a socket that is closed with unread bytes discards what it has
		// sent.
		std::byte hello[64];
		static_cast<void>(recv(connection.get(), hello, sizeof hello, MSG_TRUNC));
	});
	const auto peer = connect_to(things.identity(), plain_names(), Place::block(private_block()), 5s);
	owner.join();
	if (peer) check_link(*peer);
	else check(peer.error() != ETIMEDOUT && peer.error() != 0, "a wrong answer is refused before the timeout");
}

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	using namespace verbena::fuzz;
	static const Things things;
	static const verbena::Descriptor listener = std::move(plain_names().claim(Place::block(private_block()))->front());
	Input input(data, size);
	const int before = next_descriptor();
	if (input.flag()) accept_from(listener, things, input);
	else connect_to(listener, things, input);
	verbena::check(next_descriptor() == before, "every received descriptor is closed");
	return 0;
}
