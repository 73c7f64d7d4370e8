// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/channel.h"

namespace verbena::channel {

std::string_view name_of(Trouble trouble) {
	switch (trouble) {
		case Trouble::closed: return "closed";
		case Trouble::lost: return "lost";
		case Trouble::protocol: return "protocol";
		case Trouble::too_large: return "too_large";
		case Trouble::no_memory: return "no_memory";
		case Trouble::unsupported: return "unsupported";
	}
	return "?";
}

Channel::Sending::Progress Channel::attempt(Sending& sending) {
	const bool closed = closing_ && !(finishes_begun_ && sending.begun);
	if (!ended_ && !closed && sending.size() <= message_max_) return advance(sending);
	sending.trouble = ended_ ? trouble_ : closing_ ? Trouble::closed : Trouble::too_large;
	return Sending::Progress::failed;
}

void Channel::advance_senders() {
	while (!senders_.empty()) {
		auto& sending = static_cast<Sending&>(senders_.front());
		sending.result = attempt(sending);
		if (sending.result == Sending::Progress::waiting) return;
		if (sending.result != Sending::Progress::offered) {
			loop_.resume_soon(sending);
			continue;
		}
		sending.unlink();
		offered_.push_back(sending);
	}
}

void Channel::advance_operations() {
	while (!operations_.empty()) {
		auto& operation = static_cast<Operation&>(operations_.front());
		begin(operation);
		if (operation.result == Operation::Progress::queued) return;
		operation.unlink();
		if (operation.result == Operation::Progress::under_way) under_way_.push_back(operation);
		else loop_.resume_soon(operation);
	}
}

void Channel::end(Trouble trouble, std::string reason) {
	if (ended_) return;
	ended_ = true;
	trouble_ = trouble;
	reason_ = std::move(reason);
	senders_.splice(offered_);
	while (async::Waiter* waiter = senders_.pop_front()) {
		auto& sending = static_cast<Sending&>(*waiter);
		sending.result = Sending::Progress::failed;
		sending.trouble = trouble;
		loop_.resume_soon(sending);
	}
	// Fails the queued ones; operations under way are ended by the implementation.
	advance_operations();
	wake_receiver();
}

}  // namespace verbena::channel
