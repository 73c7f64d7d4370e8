// SPDX-License-Identifier: Apache-2.0
// Channel (id.h): the pipe behind an event channel and its queue of events.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "nic/engine/eventfd.h"
#include "nic/ucma/id.h"

namespace verbena::ucma {

std::expected<std::shared_ptr<Channel>, int> Channel::open() {
	auto channel = std::make_shared<Channel>();
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(errno);
	channel->reader = Descriptor(ends[0]);
	channel->writer = Descriptor(ends[1]);
	channel->watched = Descriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
	struct stat status;
	if (!channel->watched || fstat(ends[0], &status) != 0) return std::unexpected(errno);
	channel->inode = status.st_ino;
	channel->waiting.emplace(channel->watched.get());
	return channel;
}

// Writes a byte for the first event only, so the pipe never fills up and the write never blocks.
void Channel::push(QueuedEvent event, std::list<QueuedEvent>& spare) {
	std::list<QueuedEvent> node;
	try {
		node.emplace_back();
	} catch (const std::bad_alloc&) {
		if (spare.empty()) throw;
		node.splice(node.end(), spare, spare.begin());
	}
	node.front() = std::move(event);
	push(std::move(node));
}

void Channel::push(std::list<QueuedEvent>&& queued) {
	const bool signalled = !events.empty();
	events.splice(events.end(), queued);
	if (signalled || events.empty()) return;
	const char byte = 0;
	for (int attempt = 0; attempt < engine::attempts_max; ++attempt)
		if (syscall(SYS_write, writer.get(), &byte, 1) == 1) return;
}

QueuedEvent Channel::pop() {
	QueuedEvent event = std::move(events.front());
	events.pop_front();
	if (events.empty()) clear_signal();
	return event;
}

void Channel::clear_signal() {
	char byte;
	engine::read_if_readable(watched.get(), &byte, 1);
}

}  // namespace verbena::ucma
