// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/tcp_watch.h"

#include <utility>

namespace verbena::channel {
namespace {

constexpr Nanoseconds interval = 1'000'000'000;
// After a longer pause this process was stopped itself, and measures nothing for the time before.
constexpr Nanoseconds interval_max = 3 * interval;

}  // namespace

TcpWatch::TcpWatch(Owner& owner, const async::Descriptor& socket, Nanoseconds dead_after, Nanoseconds stall_after)
	: owner_(owner), socket_(socket), dead_after_(dead_after), stall_after_(stall_after) {
	if (dead_after_ > 0) async::keep_alive(socket, dead_after_);
}

void TcpWatch::start() {
	watching_ = true;
	awaited_since_ = 0;
	looked_at_ = monotonic_now();
	socket_.loop().schedule(*this, looked_at_ + interval);
}

void TcpWatch::expire() {
	const Nanoseconds now = monotonic_now();
	if (std::string why = trouble(now); !why.empty()) return owner_.peer_failed(std::move(why));
	looked_at_ = now;
	watching_ = awaited_since_ != 0 || owner_.received_in_part() != 0 || owner_.has_unsent();
	if (watching_) socket_.loop().schedule(*this, now + interval);
}

std::string TcpWatch::trouble(Nanoseconds now) {
	const async::Answers peer = async::answers_of(socket_);
	if (!peer.awaited) awaited_since_ = 0;
	else if (awaited_since_ == 0) awaited_since_ = looked_at_;
	// Both times: before these bytes were sent the connection may have been idle for hours.
	if (dead_after_ > 0 && awaited_since_ != 0 && now - awaited_since_ >= dead_after_ &&
		peer.silent_for >= dead_after_ - interval)
		return "its host has not answered for " + std::to_string(dead_after_ / 1'000'000'000) + " s";
	if (now - looked_at_ > interval_max) stall_ = {};
	const Nanoseconds stalled = stall_.look(owner_.received_in_part(), now);
	if (stall_after_ > 0 && stalled >= stall_after_)
		return "it has sent nothing for " + std::to_string(stall_after_ / 1'000'000'000) +
			" s in the middle of a message";
	return {};
}

}  // namespace verbena::channel
