// SPDX-License-Identifier: Apache-2.0
// This process's own progress page and doorbell: how its peers learn whether they must wake it,
// and how they do. Beside them its table of rights, in which peers find the memory that they may
// use without waking it (docs/decisions/0036).
//
// A process is BUSY while one of its threads drives the engine, and ARMED while none does: then a
// peer that publishes must ring the doorbell (progress_page.h, docs/decisions/0008).
//
// Threads: arm(), disarm() and the page's counters under the engine's lock; ring(), drain() and
//   identity() from any thread.
// Owns: the page, the table and the doorbell, whose descriptors peers receive when they link.
#pragma once

#include <expected>

#include "base/descriptor.h"
#include "nic/engine/progress_page.h"
#include "nic/engine/rendezvous.h"

namespace verbena::engine {

// A peer that has moved the progress thread rings the doorbell by this count.
inline constexpr std::uint64_t ring_after_move = std::uint64_t{1} << 32;

// Creates this process's own table of rights, empty. Nothing where the process may not make one:
// then peers send it every operation.
SealedMemory<memory::RightsTable> create_rights_table();

class OwnProgress {
public:
	// Error: an errno value.
	static std::expected<OwnProgress, int> create();

	ProgressPage& page() const { return *page_.object; }
	int doorbell() const { return doorbell_.get(); }
	bool armed() const { return page_.object->armed(); }
	// The token, and descriptors that stay this object's.
	Identity identity() const { return {token_, doorbell_.get(), page_.fd.get(), rights_.fd.get()}; }
	memory::RightsTable* rights() const { return rights_.object.get(); }  // null: there is none

	// Peers must kick from now on. The caller makes a pass afterwards, because a peer may have
	// published just before it could see ARMED.
	void arm();
	// Peers need not kick any more; the progress thread is woken, because its watchdog must run
	// while they do not.
	void disarm();
	// A peer that publishes a request must kick from now on, once. The caller makes a pass
	// afterwards, as after arm().
	void ask_for_requests();
	void stop_asking();
	// Wakes the thread that sleeps on the doorbell.
	void ring();
	// Reads the doorbell, so that it is silent until the next ring. Notes on the page where a peer
	// has moved the progress thread.
	void drain();

	// In the child of a fork: leaves the parent's page, table and doorbell, and takes a private
	// page. The child publishes no rights.
	void abandon_after_fork();

private:
	OwnProgress(SealedMemory<ProgressPage> page, SealedMemory<memory::RightsTable> rights, Descriptor doorbell,
		Mapped<ProgressPage> spare);

	SealedMemory<ProgressPage> page_;
	SealedMemory<memory::RightsTable> rights_;
	// A private page for abandon_after_fork(), which has no caller that could take an error.
	Mapped<ProgressPage> spare_;
	Descriptor doorbell_;  // eventfd, non-blocking
	std::uint64_t token_;  // random: this process and no other
};

}  // namespace verbena::engine
