// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/inbox.h"

namespace verbena::channel {
namespace {

bool is_possible(std::span<const std::byte> offer, std::size_t message_max) {
	if (offer.size() < Offer::bytes) return false;
	const Offer read = Offer::read(offer);
	return read.length > 0 && read.total <= message_max && offer.size() - Offer::bytes + read.length <= read.total;
}

}  // namespace

bool are_messages(std::span<const std::byte> bytes, std::size_t message_max, bool offers_allowed) {
	if (bytes.empty()) return false;
	while (!bytes.empty()) {
		const auto message = MessageHeader::read(bytes);
		if (!message) return false;
		bytes = bytes.subspan(MessageHeader::bytes);
		const std::size_t here = message->kind == MessageKind::first ? bytes.size() : message->length;
		if (here > bytes.size()) return false;
		if (message->kind == MessageKind::first && (message->length <= here || message->length > message_max))
			return false;
		if (message->kind == MessageKind::offer && !(offers_allowed && is_possible(bytes.first(here), message_max)))
			return false;
		bytes = bytes.subspan(here);
	}
	return true;
}

}  // namespace verbena::channel
