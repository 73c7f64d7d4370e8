// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/mux_carrier.h"

namespace verbena::channel {

using async::Task;

namespace {

// Awaits a Sending that is stored elsewhere, not in the awaiting coroutine's frame.
struct Rest {
	Channel::Sending& sending;
	bool await_ready() const { return sending.await_ready(); }
	void await_suspend(std::coroutine_handle<> handle) const { sending.await_suspend(handle); }
	Channel::Sent await_resume() const { return sending.await_resume(); }
};

}  // namespace

MuxCarrier::MuxCarrier(std::unique_ptr<Channel> carrier, Mux::Side side, MuxOptions options, Mux::Deliver deliver)
	: carrier_(std::move(carrier)),
	  mux_(
		  carrier_->loop(), side, carrier_->path(), options, [this] { carrier_->loop().at_turn_end(*this); },
		  std::move(deliver)),
	  reader_(carrier_->loop(), read()),
	  writer_(carrier_->loop(), write()) {
	carrier_->loop().at_turn_end(*this);  // sends the hello
}

// Sends without the writer coroutine while the carrier has room, which is the usual case.
void MuxCarrier::pump() {
	while (!sending_ && !ended_ && mux_.take(batch_)) {
		sending_.emplace(*carrier_, std::span<const std::byte>(), batch_);
		if (!sending_->await_ready()) {
			carrier_->loop().resume_soon(idle_writer_);
			return;
		}
		const bool sent = sending_->await_resume().has_value();
		sending_.reset();
		if (!sent) return;  // read() gets the reason
	}
	if (closing_ && !sending_) carrier_->close();
}

Task<void> MuxCarrier::write() {
	while (true) {
		if (!sending_) co_await async::Park(idle_writer_);
		if (!sending_) continue;
		const Rest rest{*sending_};
		const auto sent = co_await rest;
		sending_.reset();
		if (!sent) co_return;
		pump();
	}
}

Task<void> MuxCarrier::read() {
	while (true) {
		auto batch = co_await carrier_->receive();
		if (!batch) {
			const std::string& why = carrier_->reason();
			end(Trouble::lost, why.empty() ? carrier_->path().peer + ": the carrier of this channel was closed" : why);
			break;
		}
		const auto handled = mux_.handle(batch->bytes());
		if (!handled) {
			end(Trouble::protocol, handled.error());
			break;
		}
	}
	carrier_->close();
}

void MuxCarrier::end(Trouble trouble, std::string reason) {
	if (ended_) return;
	ended_ = true;
	mux_.end(trouble, reason);
	if (trouble == Trouble::protocol || !carrier_->reason().empty()) reason_ = std::move(reason);
	carrier_->loop().resume_soon(enders_);
}

void MuxCarrier::close() {
	closing_ = true;
	carrier_->loop().at_turn_end(*this);
}

Task<void> MuxCarrier::until_ended() {
	while (!ended_) co_await async::Park(enders_);
	co_await carrier_->until_closed();
}

Task<Mux::Opened> MuxGroup::open(std::uint32_t label) {
	MuxCarrier* best = nullptr;
	for (const auto& each : carriers_)
		if (!each->ended() && (best == nullptr || each->mux().channels() < best->mux().channels())) best = each.get();
	if (best == nullptr) co_return std::unexpected(std::string("no carrier is connected"));
	auto opening = best->mux().open(label);
	auto opened = co_await std::move(opening);
	co_return opened;
}

}  // namespace verbena::channel
