// Who may send how much: the arithmetic of credits, without I/O.
//
// A credit is one receive buffer (a unit) at the peer; each frame takes one. Limits are cumulative counts of frames, as
// 32 bits that wrap, so repeating one or losing an older one changes nothing. Apart from data frames, each side may
// have one frame of each control kind under way that the peer has not seen: `credit` gives limits, `want` asks for
// them. The peer's frames say how many of each it has seen. So neither side can keep the other from asking or
// answering, however many buffers a slow program holds.
//
// At the receiver: units are posted to a shared receive queue. Always
//
//     posted = free in the bank + promised as credits + promised to control frames
//
// and never is more promised than posted, so a sender that keeps to its limit finds a buffer: no RNR. Each connection
// is sure of one unit: it has a credit, or the program holds a message of it. What more it may have is lent while the
// bank has some, up to a window that doubles when the sender says that it waits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::channel {

enum class Control : std::uint8_t { credit = 0, want = 1 };
inline constexpr std::uint32_t control_kinds = 2;

// Units that are posted and promised to nobody. One for each shared receive queue.
class CreditBank {
public:
	void posted(std::uint32_t units) { free_ += units; }
	bool take(std::uint32_t units) {
		if (free_ < units) return false;
		free_ -= units;
		return true;
	}
	std::uint32_t free() const { return free_; }

private:
	std::uint32_t free_ = 0;
};

// The sending half of one end.
class SendCredits {
public:
	// `ahead_max`: the most that the peer may lend at once.
	SendCredits(std::uint32_t first_limit, std::uint32_t ahead_max) : limit_(first_limit), ahead_max_(ahead_max) {}

	std::uint32_t available() const { return limit_ - sent_; }
	void data_sent() { ++sent_; }

	bool may_send(Control kind) const { return sent_of_[index(kind)] == seen_of_[index(kind)]; }
	void control_sent(Control kind) { ++sent_of_[index(kind)]; }

	// From a frame of the peer. False: no honest peer says this.
	bool learn(std::uint32_t limit, std::uint8_t credits_seen, std::uint8_t wants_seen) {
		if (static_cast<std::int32_t>(limit - limit_) > 0) {
			if (limit - sent_ > ahead_max_) return false;
			limit_ = limit;
		}
		return learn(Control::credit, credits_seen) && learn(Control::want, wants_seen);
	}

private:
	static std::size_t index(Control kind) { return static_cast<std::size_t>(kind); }
	bool learn(Control kind, std::uint8_t seen) {
		const std::uint8_t sent = sent_of_[index(kind)];
		if (seen != sent && seen != static_cast<std::uint8_t>(sent - 1)) return false;
		// RC keeps the order, so what was seen stays seen.
		if (seen == sent) seen_of_[index(kind)] = sent;
		return true;
	}

	std::uint32_t limit_, ahead_max_;
	std::uint32_t sent_ = 0;
	std::uint8_t sent_of_[control_kinds] = {};
	std::uint8_t seen_of_[control_kinds] = {};
};

struct Window {
	std::uint32_t first = 1;  // credits at the start; each is backed by a posted unit
	std::uint32_t max = 64;  // of one connection, when its sender is in want of more
};

// The receiving half of one end.
class ReceiveCredits {
public:
	// What the bank must have for a new connection.
	static std::uint32_t needed(const Window& window) { return window.first + control_kinds; }

	// The bank has given `needed` already.
	explicit ReceiveCredits(const Window& window)
		: max_(window.max), target_(window.first), limit_(window.first), told_(window.first) {}

	// A data frame arrived, whose unit is held now. False: the sender had no credit.
	bool data_arrived(CreditBank& bank) {
		if (remaining() == 0) return false;
		++received_;
		++held_;
		lend(bank);
		return true;
	}
	// A control frame is read, and its unit posted again before anything in it is acted upon: whatever it makes us send
	// says that it was seen, and its sender is never left waiting for that. False: the sender has not been told of its
	// last one of that kind, so it had no buffer for this one.
	bool control_reposted(Control kind) {
		const auto which = static_cast<std::size_t>(kind);
		return seen_[which]++ == told_seen_[which];
	}
	// The sender waits for credits.
	void wanted(CreditBank& bank) {
		wanted_ = true;
		target_ = std::min(max_, std::max(2 * target_, std::uint32_t{2}));
		lend(bank);
	}

	// A unit of this connection was posted again.
	void data_released(CreditBank& bank) {
		--held_;
		if (remaining() == 0 && held_ == 0) {
			++limit_;  // the one that this connection is sure of
			return;
		}
		bank.posted(1);
		lend(bank);
	}
	std::uint32_t remaining() const { return limit_ - received_; }

	// The limit, to be told by the frame that is about to leave; so is what was seen().
	std::uint32_t tell() {
		told_ = limit_;
		std::ranges::copy(seen_, told_seen_);
		wanted_ = wanted_ && remaining() == 0;
		return limit_;
	}
	std::uint8_t seen(Control kind) const { return seen_[static_cast<std::size_t>(kind)]; }

	// A credit frame is due when no other frame tells: the sender waits and has something to learn, or half of its
	// window is news.
	bool due() const {
		const std::uint32_t news = limit_ - told_;
		return news > 0 && (wanted_ || (target_ >= 4 && news >= target_ / 2));
	}

	// What goes back to the bank when the connection ends; units that are still held follow one by one.
	std::uint32_t promised() const { return remaining() + control_kinds; }

private:
	void lend(CreditBank& bank) {
		const std::uint32_t cap = std::max(target_, std::uint32_t{2});
		while (remaining() < target_ && held_ + remaining() < cap && bank.take(1)) ++limit_;
	}

	std::uint32_t max_;
	std::uint32_t target_;  // as many credits as the sender shall have
	std::uint32_t limit_;
	std::uint32_t told_;
	std::uint32_t received_ = 0;
	std::uint32_t held_ = 0;
	std::uint8_t seen_[control_kinds] = {}, told_seen_[control_kinds] = {};
	bool wanted_ = false;
};

}  // namespace verbena::channel
