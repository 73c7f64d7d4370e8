#include "lib/channel/channel.h"

namespace verbena::channel {

std::string_view name_of(Trouble trouble) {
	switch (trouble) {
		case Trouble::closed: return "closed";
		case Trouble::lost: return "lost";
		case Trouble::protocol: return "protocol";
		case Trouble::too_large: return "too_large";
		case Trouble::no_memory: return "no_memory";
	}
	return "?";
}

void Channel::advance_senders() {
	while (!senders_.empty()) {
		auto& sending = static_cast<Sending&>(senders_.front());
		sending.result = advance(sending);
		if (sending.result == Sending::Progress::waiting) return;
		loop_.resume_soon(sending);
	}
}

void Channel::end(Trouble trouble, std::string reason) {
	if (ended_) return;
	ended_ = true;
	trouble_ = trouble;
	reason_ = std::move(reason);
	while (async::Waiter* waiter = senders_.pop_front()) {
		auto& sending = static_cast<Sending&>(*waiter);
		sending.result = Sending::Progress::failed;
		sending.trouble = trouble;
		loop_.resume_soon(sending);
	}
	wake_receiver();
}

}  // namespace verbena::channel
