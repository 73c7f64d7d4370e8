// Channel (id.h): the pipe behind an event channel and its queue of events.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "nic/ucma/id.h"

namespace verbena::ucma {

std::expected<std::shared_ptr<Channel>, int> Channel::open() {
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(errno);
	auto channel = std::make_shared<Channel>();
	channel->reader = engine::Descriptor(ends[0]);
	channel->writer = engine::Descriptor(ends[1]);
	channel->watched = engine::Descriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
	struct stat status;
	if (!channel->watched || fstat(ends[0], &status) != 0) return std::unexpected(errno);
	channel->inode = status.st_ino;
	return channel;
}

// Writes a byte for the first event only, so the pipe never fills up and the write never blocks.
void Channel::push(QueuedEvent event) {
	events.push_back(std::move(event));
	const char byte = 0;
	if (events.size() == 1 && write(writer.get(), &byte, 1) < 0) return;
}

QueuedEvent Channel::pop() {
	QueuedEvent event = std::move(events.front());
	events.pop_front();
	if (events.empty()) clear_signal();
	return event;
}

void Channel::clear_signal() {
	pollfd readable{watched.get(), POLLIN, 0};
	char byte;
	// NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
	if (::poll(&readable, 1, 0) == 1 && read(watched.get(), &byte, 1) < 0) return;
}

}  // namespace verbena::ucma
