// Flow control of an RC channel: the arithmetic of credits, without I/O.
//
// A credit is one receive buffer (a unit) that the peer has posted; each data frame uses up one.
// Limits are cumulative counts of data frames, as 32 bits that wrap, so repeating a limit or losing
// an older one changes nothing.
//
// Apart from data frames, each side may have one frame of each control kind in flight that the peer
// has not seen: `credit` carries limits, `want` asks for them. Every frame says how many of each
// kind its sender has seen. So a side can always ask and always answer, however many buffers a slow
// program holds.
//
// At the receiver, units are posted to a receive queue that many connections may share. Each
// connection is sure of one unit: it has a credit, or the program holds a message of it. Further
// credits are granted while the bank has free units, up to a window that doubles when the sender
// reports that it waits.
//
// Threads: the loop's thread.
// Invariants: posted = free in the bank + granted as credits + reserved for control frames. No more
//   is granted than is posted, so a sender that keeps to its limit finds a buffer (no RNR NAK).
// Errors: an impossible value from a peer makes a method return false; the channel then ends.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::channel {

// The two kinds of control frame, for each of which a receive buffer is reserved at the peer.
enum class Control : std::uint8_t { credit = 0, want = 1 };
inline constexpr std::uint32_t control_kinds = 2;

// Counts the units of one receive queue that are posted and not granted to a connection.
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

// The sending half of one connection: what this end may send.
class SendCredits {
public:
	// `first_limit`: credits at the start. `ahead_max`: the most that the peer may ever grant at
	// once.
	SendCredits(std::uint32_t first_limit, std::uint32_t ahead_max) : limit_(first_limit), ahead_max_(ahead_max) {}

	// Data frames that may be sent now.
	std::uint32_t available() const { return limit_ - sent_; }
	void data_sent() { ++sent_; }

	// Whether the peer has seen the last control frame of this kind, and so has a buffer for
	// another.
	bool may_send(Control kind) const { return sent_of_[index(kind)] == seen_of_[index(kind)]; }
	void control_sent(Control kind) { ++sent_of_[index(kind)]; }

	// Takes the peer's limit and the control frames that it has seen, from a frame of it. False: no
	// correct peer sends these numbers.
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
	std::uint8_t sent_of_[control_kinds] = {};  // control frames sent, by kind, modulo 256
	std::uint8_t seen_of_[control_kinds] = {};  // those of them that the peer has seen
};

struct Window {
	std::uint32_t first = 1;  // credits at the start; each is backed by a posted unit
	std::uint32_t max = 64;  // the most credits of one connection, granted when its sender asks
};

// The receiving half of one connection: what this end has granted to its peer.
class ReceiveCredits {
public:
	// The units that a new connection takes from the bank: its first credits and its control
	// frames'.
	static std::uint32_t needed(const Window& window) { return window.first + control_kinds; }

	// The caller has taken needed() units from the bank.
	explicit ReceiveCredits(const Window& window)
		: max_(window.max), target_(window.first), limit_(window.first), announced_(window.first) {}

	// A data frame has arrived; its unit is held until data_released(). False: the sender had no
	// credit.
	bool data_arrived(CreditBank& bank) {
		if (remaining() == 0) return false;
		++received_;
		++held_;
		grant(bank);
		return true;
	}
	// A control frame has arrived. The caller has posted its unit again before it acts on anything
	// in the frame: whatever frame that makes it send says `seen`, and does so truly. False: no
	// frame has carried `seen` for the last one of that kind, so the sender had no buffer for this
	// one.
	bool control_reposted(Control kind) {
		const auto which = static_cast<std::size_t>(kind);
		return seen_[which]++ == announced_seen_[which];
	}
	// The sender reports that it waits for credits: doubles its window, up to the maximum.
	void wanted(CreditBank& bank) {
		wanted_ = true;
		target_ = std::min(max_, std::max(2 * target_, std::uint32_t{2}));
		grant(bank);
	}

	// A unit of this connection, which it has held, is posted again.
	void data_released(CreditBank& bank) {
		--held_;
		if (remaining() == 0 && held_ == 0) {
			++limit_;  // the one that this connection is sure of
			return;
		}
		bank.posted(1);
		grant(bank);
	}
	// Credits that the sender has not used.
	std::uint32_t remaining() const { return limit_ - received_; }

	// The limit to write into a frame that is sent now, together with both seen(): the peer knows
	// them from then on.
	std::uint32_t tell() {
		announced_ = limit_;
		std::ranges::copy(seen_, announced_seen_);
		wanted_ = wanted_ && remaining() == 0;
		return limit_;
	}
	std::uint8_t seen(Control kind) const { return seen_[static_cast<std::size_t>(kind)]; }

	// Whether to send a credit frame, if no other frame carries the limit: the sender waits and the
	// limit has grown, or it has grown by half of the window.
	bool due() const {
		const std::uint32_t news = limit_ - announced_;
		return news > 0 && (wanted_ || (target_ >= 4 && news >= target_ / 2));
	}

	// The units that go back to the bank when the connection ends. Units that are still held follow
	// one by one, as they are posted.
	std::uint32_t granted_total() const { return remaining() + control_kinds; }

private:
	// Grants free units of the bank, up to the window. Units that the program holds count too, so a
	// slow program gets no further ones; the cap of 2 lets one arrive while one is held.
	void grant(CreditBank& bank) {
		const std::uint32_t cap = std::max(target_, std::uint32_t{2});
		while (remaining() < target_ && held_ + remaining() < cap && bank.take(1)) ++limit_;
	}

	std::uint32_t max_;
	std::uint32_t target_;  // the window now: credits that the sender shall have, at most max_
	std::uint32_t limit_;  // data frames that the sender may have sent in all
	std::uint32_t announced_;  // the newest limit that a frame has carried
	std::uint32_t received_ = 0;  // data frames in all
	std::uint32_t held_ = 0;  // units with data that are not posted again
	// Control frames seen, by kind, modulo 256; and the counts that the newest frame has carried.
	std::uint8_t seen_[control_kinds] = {}, announced_seen_[control_kinds] = {};
	bool wanted_ = false;  // the sender waits, and no frame has carried a new limit since
};

}  // namespace verbena::channel
