// SPDX-License-Identifier: Apache-2.0
// The part of Client that asks for events.
#include "lib/kv/client.h"

namespace verbena::kv {

void Client::watch(std::uint32_t number, std::string_view text, Scope scope, EventSink& sink) {
	if (lost_) return;
	if ((server_.features & feature_watch) == 0) return sink.refuse(Error::old_server);
	watches_.emplace(number, &sink);
	const WatchRequest request{.scope = scope};
	const RequestHeader header{.operation = Operation::watch,
		.key_length = static_cast<std::uint16_t>(text.size()),
		.number = number,
		.value_length = sizeof request};
	std::byte* const at = put_header(header, text.size() + sizeof request);
	if (!text.empty()) std::memcpy(at, text.data(), text.size());
	std::memcpy(at + text.size(), &request, sizeof request);
}

void Client::unwatch(std::uint32_t number) {
	if (watches_.erase(number) == 0 || lost_) return;
	put_header({.operation = Operation::unwatch, .number = number});
}

// Events of a watch that has ended may still be on their way.
void Client::take_event(const Answer& event) {
	const auto found = watches_.find(event.header.number);
	if (found == watches_.end()) return;
	EventSink& sink = *found->second;
	if (event.header.event == EventKind::refused) {
		watches_.erase(found);
		return sink.refuse(Error::full);
	}
	sink.take_event(event.header.event, text_of(event.value), event.version);
}

}  // namespace verbena::kv
