// SPDX-License-Identifier: Apache-2.0
// The agreement of two processes about how much may be in flight on a UDP path, so that the
// receiver's socket never overflows (docs/decisions/0057). Each end that sends requests asks, and
// each end answers for its socket. After an overflow an end repeats its answer with less room.
//
// Threads: under the engine's lock.
// Invariants: an answer counts only if it repeats the nonce of the question, which strangers that
//   do not see the path's packets cannot guess.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "nic/wire/room.h"

namespace verbena::engine {

// The bytes of payload for which a socket's receive buffer has room. The kernel counts more for a
// datagram than its bytes: a twentieth more for batches on veth and lo; where the driver of a NIC
// gives each packet a page of its own, several times as much, and the room is cut after the first
// overflow.
constexpr std::uint32_t room_of_buffer(std::uint32_t buffer_bytes) { return buffer_bytes / 8 * 5; }
// The same for READ responses, beside which fewer acknowledgements lie in the buffer.
constexpr std::uint32_t own_room_of_buffer(std::uint32_t buffer_bytes) { return buffer_bytes / 4 * 3; }
inline constexpr std::uint32_t room_bytes_min = 8 << 10;

// The end that sends.
class RoomAsker {
public:
	static constexpr Nanoseconds first_wait = 20'000'000;  // for an answer; each wait doubles
	static constexpr unsigned questions_max = 6;
	// A new queue pair asks anew after this time, because it may have another process as its peer.
	static constexpr Nanoseconds ask_again_after = 1'000'000'000;
	static constexpr Nanoseconds renew_after = 30'000'000'000;

	// The question to send for a new queue pair. Nullopt: one has been sent lately.
	template <class Random>
	std::optional<wire::RoomMessage> begin(Nanoseconds now, wire::Qpn own, wire::Qpn peer, Random&& random) {
		if (question_.nonce != 0 && now - begun_at_ < ask_again_after) return std::nullopt;
		while (question_.nonce == 0) question_.nonce = random();
		question_.asker = own, question_.asked = peer;
		return begin(now);
	}
	// The question once more, because the room may have changed. `published`: the number of slots
	// written to the path so far. Nullopt: the peer has not answered, or was asked lately, or
	// nothing was sent since.
	std::optional<wire::RoomMessage> renew(Nanoseconds now, std::uint64_t published) {
		if (!answered_ || now - begun_at_ < renew_after || published == published_) return std::nullopt;
		published_ = published;
		return begin(now);
	}
	// The question to send again if its answer is due.
	std::optional<wire::RoomMessage> repeat(Nanoseconds now) {
		if (now < due_) return std::nullopt;
		due_ = ++sent_ == questions_max ? never : now + (first_wait << (sent_ - 1));
		return question_;
	}
	Nanoseconds due() const { return due_; }

	bool has_asked(const wire::RoomMessage& answer) const {
		return question_.nonce != 0 && answer.nonce == question_.nonce;
	}
	// The room that the message gives. It may repeat an earlier answer, with less room. Nullopt: it
	// answers no question of this end, or the peer does not know the question.
	std::optional<std::uint32_t> take(const wire::RoomMessage& answer) {
		if (!has_asked(answer)) return std::nullopt;
		due_ = never;
		answered_ = answer.status == 0;
		if (!answered_ || answer.room == 0) return std::nullopt;
		return std::max(answer.room, room_bytes_min);
	}

private:
	wire::RoomMessage begin(Nanoseconds now) {
		begun_at_ = now;
		due_ = now + first_wait;
		sent_ = 1;
		return question_;
	}

	wire::RoomMessage question_;
	Nanoseconds begun_at_ = 0, due_ = never;
	std::uint64_t published_ = 0;  // at the last renew()
	unsigned sent_ = 0;
	bool answered_ = false;
};

// The end that receives. Several processes of the peer's host, and paths that differ in their
// traffic class, ask it separately.
class RoomGiver {
public:
	static constexpr std::size_t askers_max = 32;  // the one that asked first is forgotten
	// After a cut its effect must show before the next one.
	static constexpr Nanoseconds between_cuts = 2'000'000;
	// An answer this long after the last overflow gives twice as much as before.
	static constexpr Nanoseconds calm_after = 10'000'000'000;

	// The answer to a question. `whole`: the room if the socket never overflows; 0: unknown.
	wire::RoomMessage answer(const wire::RoomMessage& question, std::uint32_t whole, Nanoseconds now) {
		if (room_ == 0 || room_ > whole) room_ = whole;
		else if (now - cut_at_ >= calm_after) room_ = std::min(2 * room_, whole);
		wire::RoomMessage answer = question;
		answer.is_answer = true;
		answer.status = 0;
		answer.room = room_;
		std::erase_if(answers_, [&](const wire::RoomMessage& known) { return known.nonce == question.nonce; });
		if (answers_.size() == askers_max) answers_.erase(answers_.begin());
		answers_.push_back(answer);
		return answer;
	}
	// The socket has lost a datagram: the answers to repeat. None: the peer has never asked, or the
	// room was cut just now.
	std::span<const wire::RoomMessage> cut(Nanoseconds now) {
		if (room_ == 0 || (cut_at_ != 0 && now - cut_at_ < between_cuts)) return {};
		cut_at_ = now;
		room_ = std::max(room_ / 2, room_bytes_min);
		for (wire::RoomMessage& answer : answers_) answer.room = room_;
		return answers_;
	}

private:
	std::vector<wire::RoomMessage> answers_;  // one for each asker
	std::uint32_t room_ = 0;
	Nanoseconds cut_at_ = 0;
};

}  // namespace verbena::engine
