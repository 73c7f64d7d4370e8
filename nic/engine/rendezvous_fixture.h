// SPDX-License-Identifier: Apache-2.0
// The parts of a process that a greeting needs, for tests.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "nic/engine/own_progress.h"
#include "nic/engine/rendezvous.h"

namespace verbena::engine {

inline bool becomes_readable(int fd, int events = POLLIN) {
	pollfd wanted{fd, static_cast<short>(events), 0};
	return poll(&wanted, 1, 10'000) == 1;
}

// A name that no process claims and no other run of these tests uses.
inline std::uint32_t private_block() { return 0x10000 + static_cast<std::uint32_t>(getpid()); }

// Without a secret, so that the tests know the names.
inline const Directory ours{geteuid(), std::nullopt};

inline const auto never_linked = [](uid_t, std::uint64_t) { return false; };

// The parts of a process that a greeting needs: its page, its table, its doorbell, its token.
struct Process {
	explicit Process(std::uint64_t token)
		: doorbell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
		  page(*create_progress_page()),
		  rights(create_rights_table()),
		  token(token) {}
	Identity identity() const { return {token, doorbell.get(), page.fd.get(), rights.fd.get()}; }

	Descriptor doorbell;
	SealedMemory<ProgressPage> page;
	SealedMemory<memory::RightsTable> rights;
	std::uint64_t token;
};

}  // namespace verbena::engine
