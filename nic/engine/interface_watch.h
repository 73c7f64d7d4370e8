// SPDX-License-Identifier: Apache-2.0
// Reports the changes of this host's interfaces and their addresses, by a netlink socket.
//
// Threads: one at a time.
// Owns: the socket, which is readable while there are changes to take. It belongs to the network
//   namespace of the thread that opened it.
// Errors: open() returns an errno value where the kernel refuses the subscription.
#pragma once

#include <expected>
#include <vector>

#include "base/descriptor.h"
#include "nic/engine/interfaces.h"

namespace verbena::engine {

class InterfaceWatch {
public:
	static std::expected<InterfaceWatch, int> open();

	int fd() const { return socket_.get(); }
	// Takes what is there and does not block. Appends the changes of links to `links`, in their
	// order. Addresses have changed too if it returns true: then list_interfaces() has the news.
	// True also if the kernel dropped messages that did not fit the socket.
	bool take(std::vector<LinkChange>& links);

private:
	explicit InterfaceWatch(Descriptor socket);

	Descriptor socket_;
	std::uint64_t namespace_cookie_;
};

}  // namespace verbena::engine
