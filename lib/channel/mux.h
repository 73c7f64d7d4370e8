// SPDX-License-Identifier: Apache-2.0
// Logical channels: many channels that share one carrier, which is itself a channel (over RC or
// TCP). A Mux is one end of the carrier, without I/O: mux_carrier.h moves its messages. A
// MuxChannel is one end of a logical channel.
//
// Receiving: each frame is copied into its channel's queue at once, so the carrier is always read,
// and a channel whose program does not receive blocks no other. A window in bytes (mux_window.h)
// bounds that queue; only the message that is being put together may exceed it.
//
// Sending: channels with something to send take turns by deficit round robin, in frames of at most
// `frame_bytes`; small messages of several channels share one carrier message.
//
// Threads: the loop's thread.
// Lifetime: channels may outlive their Mux; they are then lost. A call of open() must have ended
//   before the Mux is destroyed.
// Errors: a breach of the protocol by the peer (an error of handle()), or the end of the carrier,
//   ends all channels; every other failure ends one channel.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/channel/channel.h"
#include "lib/channel/mux_frame.h"
#include "lib/channel/mux_window.h"

namespace verbena::channel {

class Mux;

struct MuxOptions {
	std::uint32_t window = 64 << 10;  // bytes of one channel that may wait here for the program
	std::uint32_t channels_max = 100'000;  // the most channels of the peer that are open at once
	// The largest frame, and the share of a channel in each round, in bytes.
	std::uint32_t frame_bytes = 16 << 10;
	// Frames share a carrier message of at most this size; a larger frame has one of its own. The
	// default fits into one frame of an RC carrier with default options.
	std::uint32_t batch_bytes = 1076;
	std::uint32_t message_max = 64u << 20;  // bytes, sent or received
	std::uint32_t close_timeout_ms = 1000;  // the time that close() gives the peer
};

struct MuxCounters {
	// `opened` counts channels that either end has opened, `closed` those that both ends closed in
	// order, `reset` those that this end has ended by a reset frame, and `refused` opens of the
	// peer beyond this end's `channels_max` (which are reset too).
	std::uint64_t opened = 0, refused = 0, closed = 0, reset = 0;
	std::uint64_t messages_sent = 0, messages_received = 0;
	std::uint64_t frames_sent = 0, frames_received = 0;
	std::uint64_t batches_sent = 0, batches_received = 0;  // carrier messages
	std::uint64_t credit_frames = 0;  // sent
	std::uint64_t bytes_sent = 0, bytes_received = 0;  // carrier messages, with all headers

	MuxCounters& operator+=(const MuxCounters& other);
};

namespace detail {
// The links of a channel in two lists of its Mux: MuxUrgent if it has control frames to send,
// MuxActive if it has messages to send.
struct MuxUrgent : async::Linked {};
struct MuxActive : async::Linked {};
}  // namespace detail

// One end of a logical channel. The program owns it; its Mux refers to it until the channel has
// ended.
class MuxChannel final : public Channel, private async::Timer, private detail::MuxUrgent, private detail::MuxActive {
public:
	~MuxChannel() override;

	std::uint32_t id() const { return id_; }  // the number in its frames (MuxId)
	// The number that the opener gave to Mux::open().
	std::uint32_t label() const { return label_; }

	void close() override;
	bool closed() const override { return lost_ || (peer_closed_ && close_sent_); }
	Path path() const override;

private:
	friend class Mux;
	struct Arrived;  // a message, with its bytes behind it
	struct FreeArrived {
		void operator()(Arrived* arrived) const;
	};
	using ArrivedBlock = std::unique_ptr<Arrived, FreeArrived>;
	// Bits of `pending_frames_`.
	enum class PendingFrame : std::uint8_t { open = 1, credit = 2, close = 4, accept = 8 };

	MuxChannel(Mux& mux, std::uint32_t id, std::uint32_t label);

	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override { return inbox_ != nullptr; }
	Received next() override;
	void expire() override;

	static ArrivedBlock make_arrived(std::size_t size);
	void handle_open(std::uint32_t window);
	// Takes a frame of a message. Returns the way in which it breaks the protocol; empty: it does
	// not.
	std::string_view handle_data(MuxKind kind, std::span<const std::byte> payload);
	void handle_close();
	void deliver();
	void release_assembly();
	void announce_if_due();
	// Adds a control frame to those that the Mux is to send for this channel.
	void owe(PendingFrame what);
	bool has_pending_frame(PendingFrame what) const { return (pending_frames_ & static_cast<std::uint8_t>(what)) != 0; }
	void finish_close();
	// Ends the channel. With `tell`, the peer gets a reset frame with that reason.
	void fail(Trouble trouble, std::string reason, std::optional<MuxReset> tell);

	Mux* mux_;  // null: this channel or its carrier has ended
	std::shared_ptr<const Path> path_;
	std::uint32_t id_, label_;
	MuxSendWindow send_;
	MuxReceiveWindow receive_;
	std::uint32_t deficit_ = 0;  // bytes that it may still send in its turn (Mux::visit_active)
	// assembled_: the bytes of assembly_ that have arrived. assembly_charge_: the charge for them
	// that is not released yet (mux_window.h).
	std::uint32_t assembled_ = 0, assembly_charge_ = 0;
	std::uint8_t pending_frames_ = 0;  // control frames to send: a set of `PendingFrame`
	// `open_`: the peer has accepted the channel, or has opened it. `in_message_`: the peer has the
	// beginning of a message and not its end.
	bool open_ = false, in_message_ = false;
	bool close_sent_ = false, peer_closed_ = false, lost_ = false;
	Arrived* inbox_ = nullptr;  // whole messages, oldest first
	Arrived* inbox_last_ = nullptr;
	ArrivedBlock assembly_;  // the message that is being put together; null: none
};

// One end of a carrier, with the logical channels on it.
class Mux {
public:
	// The opener connected the carrier; only it opens logical channels.
	enum class Side : std::uint8_t { opener, acceptor };
	using Opened = std::expected<std::unique_ptr<MuxChannel>, std::string>;
	using Deliver = std::function<void(std::unique_ptr<MuxChannel>)>;
	using Wake = std::function<void()>;

	// `carrier`: the path() of the carrier. `wake` is called when take(), after it has returned
	// false, has something to return again. `deliver` receives the channels that the peer opens;
	// only the acceptor needs it.
	Mux(async::Loop& loop, Side side, Path carrier, const MuxOptions& options, Wake wake, Deliver deliver = {});
	~Mux();
	Mux(const Mux&) = delete;
	Mux& operator=(const Mux&) = delete;

	// Opens a channel, and waits until the peer has accepted it. For the opener only (check).
	// `label` is a number for the programs at both ends. The error is one sentence.
	async::Task<Opened> open(std::uint32_t label);

	// Takes one message that has arrived on the carrier. An error says how the peer breaks the
	// protocol; the caller then ends the carrier.
	std::expected<void, std::string> handle(std::span<const std::byte> batch);
	// Writes the next message for the carrier to `batch`. False: there is nothing to send until
	// `wake` is called.
	bool take(std::vector<std::byte>& batch);
	// The carrier has ended: ends all channels.
	void end(Trouble trouble, const std::string& reason);

	// The number of channels, with those whose open() is in progress.
	std::size_t channels() const { return channels_ + waiting_; }
	const MuxCounters& counters() const { return counters_; }
	const MuxOptions& options() const { return options_; }

private:
	friend class MuxChannel;

	// Appends one frame to `into`.
	void put(std::vector<std::byte>& into, std::uint32_t id, MuxKind kind,
		std::initializer_list<std::span<const std::byte>> payload);
	// Puts all pending control frames of the channel into next_.
	void put_pending_frames(MuxChannel& channel);
	bool room_for(const std::vector<std::byte>& batch, std::size_t payload) const {
		return batch.empty() || batch.size() + MuxFrame::bytes + payload <= options_.batch_bytes;
	}
	// The buffer into which this channel may put a frame now, or null if it must wait.
	std::vector<std::byte>* place_for(MuxChannel& channel, std::size_t payload, std::uint32_t charge);
	// Gives the active channels their turns, until `batch` is full.
	void visit_active(std::vector<std::byte>& batch);
	// Put the channel into active_, or into urgent_.
	void activate(MuxChannel& channel);
	void owe(MuxChannel& channel);
	void wake();
	void reset(std::uint32_t id, MuxReset why);
	std::expected<std::uint32_t, std::string> free_id();
	void add(MuxChannel& channel);
	void remove(MuxChannel& channel);
	MuxChannel* find(std::uint32_t id) const;
	std::string_view handle_frame(const MuxFrame& frame, std::span<const std::byte> payload);
	std::string_view handle_open(std::uint32_t id, std::span<const std::byte> payload);
	std::string_view handle_open_channel(
		MuxChannel& channel, const MuxFrame& frame, std::span<const std::byte> payload);

	async::Loop& loop_;
	Side side_;
	std::shared_ptr<const Path> path_;
	MuxOptions options_;
	Wake wake_;
	Deliver deliver_;

	struct Slot {
		MuxChannel* channel = nullptr;
		std::uint32_t generation = 0;
	};
	std::vector<Slot> slots_;
	std::vector<std::uint32_t> free_slots_;
	std::size_t channels_ = 0, waiting_ = 0;  // open or opening; open() calls before the hello
	// The limits in the peer's hello, once `peer_known_`.
	std::uint32_t peer_channels_max_ = 0, peer_message_max_ = 0;
	bool peer_known_ = false, hello_sent_ = false, woken_ = false, ended_ = false;
	std::string reason_;
	async::List<async::Waiter> openers_;  // open() calls that wait for the peer's hello

	async::List<detail::MuxUrgent> urgent_;
	async::List<detail::MuxActive> active_;
	// The first of active_, if its turn goes on in the next carrier message; null: no turn does.
	MuxChannel* in_turn_ = nullptr;
	MuxChannel* visited_ = nullptr;  // puts frames into `visited_batch_` right now; null: none
	std::vector<std::byte>* visited_batch_ = nullptr;
	enum class Blocked : std::uint8_t {
		no,
		credit,  // it has no credit, or has not accepted yet
		quantum,  // its deficit is used up
		room  // the carrier message is full
	} blocked_ = Blocked::no;  // why the channel that was visited last could not put a frame
	// The next carrier message: control frames, and frames put while no channel was active.
	std::vector<std::byte> next_;
	std::vector<std::pair<std::uint32_t, MuxReset>> resets_;  // to send: channel ids and reasons
	MuxCounters counters_;
};

}  // namespace verbena::channel
