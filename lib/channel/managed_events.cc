// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/managed_events.h"

#include <fcntl.h>

#include "lib/async/socket.h"

namespace verbena::channel {

std::optional<lib::ConnectionEvent> ManagedId::take() {
	woken_ = false;
	if (events_.empty()) return std::nullopt;
	std::optional<lib::ConnectionEvent> event(std::move(events_.front()));
	events_.pop_front();
	return event;
}

std::expected<std::unique_ptr<ManagedEvents>, std::string> ManagedEvents::open(async::Loop& loop) {
	auto channel = lib::make_event_channel();
	if (!channel) return std::unexpected(channel.error().text);
	return std::unique_ptr<ManagedEvents>(new ManagedEvents(loop, std::move(*channel)));
}

// The loop watches a duplicate of the descriptor, because the event channel closes its own.
ManagedEvents::ManagedEvents(async::Loop& loop, lib::EventChannel channel)
	: loop_(loop),
	  channel_(std::move(channel)),
	  watched_(std::make_unique<async::Descriptor>(loop, fcntl(channel_->fd, F_DUPFD_CLOEXEC, 0))),
	  reader_(loop, read()) {}

std::expected<void, std::string> ManagedEvents::listen(const lib::SocketAddress& where, int backlog, Request request) {
	auto listener = lib::listen(channel_.get(), where, backlog);
	if (!listener) return std::unexpected(listener.error().text);
	listener_ = std::move(*listener);
	request_ = std::move(request);
	return {};
}

async::Task<void> ManagedEvents::read() {
	while (true) {
		watched_->readable = false;
		while (true) {
			auto event = lib::wait_for_event(channel_.get());
			if (!event || !*event) break;  // the channel is empty, or broken
			if ((*event)->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
				request_(lib::ConnectionId((*event)->id), std::move((*event)->private_data));
			} else if (auto* const id = static_cast<ManagedId*>((*event)->context); id != nullptr) {
				id->events_.push_back(std::move(**event));
				loop_.resume_soon(id->waiting_);
			}
		}
		co_await async::Wait(*watched_, async::Wait::For::reading, never);
	}
}

}  // namespace verbena::channel
