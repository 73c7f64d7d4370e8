// SPDX-License-Identifier: Apache-2.0
// Two network namespaces joined by a veth pair: to the NIC they are two hosts.
//
// Threads: namespaces belong to a thread, so a process makes a WirePair while it has one thread.
// Owns: the two namespaces, which end with the last process in them.
// Errors: one sentence that says which step was refused.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "base/descriptor.h"

namespace verbena::tools {

class WirePair {
public:
	// Needs root or user namespaces. The calling process stays in side 1 (10.77.0.2); the old
	// namespace cannot be entered again without root.
	static std::expected<WirePair, std::string> make();

	// Moves the process to the other side, 0 (10.77.0.1). Processes that it started stay in side 1.
	std::expected<void, std::string> enter_first();

private:
	explicit WirePair(int first) : first_(std::make_unique<Descriptor>(first)) {}
	std::unique_ptr<Descriptor> first_;  // the namespace of side 0
};

}  // namespace verbena::tools
