// SPDX-License-Identifier: Apache-2.0
// Flow control of an RC channel: the arithmetic of credits, without I/O.
//
// A credit is one receive buffer (a unit) that the peer has posted; each data frame uses up one,
// and so does the close frame, which counts as a data frame here. Credits travel as a limit: the
// number of data frames that the peer may have sent in all, as 32 bits that wrap. So repeating a
// limit, or losing an older one, changes nothing.
//
// Control frames need no credit. Each end may have one control frame of each kind in flight that
// the peer has not seen: `credit` carries a limit, `want` asks for a higher one. Every frame
// carries the numbers of control frames, by kind, that its sender has seen. So an end can always
// ask and always answer, however many buffers a slow program holds. `taken` frames need no credit
// either: offers.h reserves a buffer for each.
//
// At the receiver, units are posted to a receive queue that many connections may share. Each
// connection is sure of one unit: its sender has a credit, or the program holds a message that
// arrived on it. Further credits are granted while the bank has free units, up to a window that
// doubles when the sender reports that it waits.
//
// Threads: the loop's thread.
// Invariants: units posted = free in the bank + granted as credits + reserved for control frames
//   and for `taken` frames. No more is granted than is posted, so a sender that keeps to its limit
//   finds a buffer (no RNR NAK).
// Errors: an impossible value from a peer makes a method return false; the channel then ends.
#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::channel {

// The two kinds of control frame, for each of which a receive buffer is reserved at the peer.
enum class Control : std::uint8_t { credit = 0, want = 1 };
inline constexpr std::uint32_t control_kinds = 2;

// Counts the units of one receive queue that are posted, and neither granted to a connection nor
// reserved.
class CreditBank {
public:
	// Adds units that were posted, or that are posted and no longer granted or reserved.
	void posted(std::uint32_t units) { free_ += units; }
	// Removes units, to grant or to reserve them. False: there are fewer, and none was removed.
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
	// `first_limit`: the credits at the start. `ahead_max`: the most unused credits that a correct
	// peer ever grants.
	SendCredits(std::uint32_t first_limit, std::uint32_t ahead_max) : limit_(first_limit), ahead_max_(ahead_max) {}

	// Data frames that may be sent now.
	std::uint32_t available() const { return limit_ - sent_; }
	void data_sent() { ++sent_; }

	// Whether the peer has seen the last control frame of this kind, and so has posted a buffer for
	// another one.
	bool may_send(Control kind) const { return sent_of_[index(kind)] == seen_of_[index(kind)]; }
	void control_sent(Control kind) { ++sent_of_[index(kind)]; }

	// Takes the numbers in the header of a frame from the peer: its limit, and how many `credit`
	// and `want` frames of this end it has seen. False: no correct peer sends these numbers.
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
		// Frames arrive in order over RC, so a frame that was seen once is never unseen again.
		if (seen == sent) seen_of_[index(kind)] = sent;
		return true;
	}

	std::uint32_t limit_, ahead_max_;
	std::uint32_t sent_ = 0;
	std::uint8_t sent_of_[control_kinds] = {};  // control frames sent, by kind, modulo 256
	std::uint8_t seen_of_[control_kinds] = {};  // those that the peer has seen, likewise
};

// The credits that one connection may get from this end.
struct Window {
	std::uint32_t first = 1;  // credits at the start; each is backed by a posted unit
	std::uint32_t max = 64;  // the most unused credits, granted when the sender asks
};

// The receiving half of one connection: what this end has granted to its peer.
class ReceiveCredits {
public:
	// The units that a new connection takes from the bank: for its first credits and for its
	// control frames.
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
	// A control frame has arrived, and its unit is posted again. The caller posts it before it acts
	// on the frame: from now on its own frames report this control frame as seen, by seen(), and
	// the sender may then use that unit for the next one. False: no frame has reported the previous
	// control frame of this kind as seen, so the sender had no buffer for this one.
	bool control_reposted(Control kind) {
		const auto which = static_cast<std::size_t>(kind);
		return seen_[which]++ == announced_seen_[which];
	}
	// The sender has reported that it waits for credits: doubles its window, up to the maximum, and
	// grants more.
	void wanted(CreditBank& bank) {
		wanted_ = true;
		target_ = std::min(max_, std::max(2 * target_, std::uint32_t{2}));
		grant(bank);
	}

	// A unit that held data of this connection is posted again, or another unit in its place.
	void data_released(CreditBank& bank) {
		--held_;
		if (remaining() == 0 && held_ == 0) {
			++limit_;  // the one that this connection is sure of
			return;
		}
		bank.posted(1);
		grant(bank);
	}
	// Units with data of this connection that are not posted again yet.
	std::uint32_t held() const { return held_; }
	// Credits that the sender has not used.
	std::uint32_t remaining() const { return limit_ - received_; }

	// Returns the limit for the header of a frame that is sent now, and notes that this frame
	// reports the limit and both seen() to the peer.
	std::uint32_t tell() {
		announced_ = limit_;
		std::ranges::copy(seen_, announced_seen_);
		wanted_ = wanted_ && remaining() == 0;
		return limit_;
	}
	// Control frames of this kind that have arrived, modulo 256.
	std::uint8_t seen(Control kind) const { return seen_[static_cast<std::size_t>(kind)]; }

	// Whether a `credit` frame is to be sent: the limit has grown since a frame last carried it,
	// and the sender waits, or the growth is half of a window of at least 4.
	bool due() const {
		const std::uint32_t news = limit_ - announced_;
		return news > 0 && (wanted_ || (target_ >= 4 && news >= target_ / 2));
	}

	// The units that go back to the bank when the connection ends. Units that are still held follow
	// one by one, as they are posted.
	std::uint32_t granted_total() const { return remaining() + control_kinds; }

private:
	// Grants free units of the bank, up to the window. Units that the program holds count too, so a
	// slow program gets no further ones. For them a window of 1 counts as 2, so that one frame can
	// arrive while the program holds another.
	void grant(CreditBank& bank) {
		const std::uint32_t cap = std::max(target_, std::uint32_t{2});
		while (remaining() < target_ && held_ + remaining() < cap && bank.take(1)) ++limit_;
	}

	std::uint32_t max_;
	// The window now, at most max_: the unused credits that the sender shall have.
	std::uint32_t target_;
	std::uint32_t limit_;  // data frames that the sender may have sent in all
	std::uint32_t announced_;  // the newest limit that a frame has carried
	std::uint32_t received_ = 0;  // data frames in all
	std::uint32_t held_ = 0;  // units with data that are not posted again yet
	// Control frames that have arrived, by kind, modulo 256; and the counts in the newest frame
	// sent.
	std::uint8_t seen_[control_kinds] = {}, announced_seen_[control_kinds] = {};
	bool wanted_ = false;  // the sender waits, and no frame has carried a credit to it since
};

}  // namespace verbena::channel
