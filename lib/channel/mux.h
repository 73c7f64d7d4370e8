// Logical channels: many channels over one carrier, a channel of any kind. A Mux is one end of the
// carrier without I/O (mux_carrier.h moves the messages); a MuxChannel is one logical channel.
//
// Receiving: each frame is copied into its channel's queue at once, so the carrier is always read,
// and a channel whose program does not receive blocks no other. A window of credits (mux_window.h)
// bounds that queue, besides one message that is being put together.
//
// Sending: channels with something to send take turns by deficit round robin, in frames of at most
// `frame_bytes`; small messages of several channels share one carrier message.
//
// Threads: the loop's thread.
// Lifetime: channels may outlive their Mux; they are then lost. open() must be done before the Mux
//   is destroyed.
// Errors: a peer that breaks the protocol ends the carrier (handle()); every other failure ends one
//   channel.
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
	std::uint32_t window = 64 << 10;  // bytes of each channel that wait here for the program
	std::uint32_t channels_max = 100'000;  // channels at once that the peer may open
	// The largest frame, and a channel's share of each round, in bytes.
	std::uint32_t frame_bytes = 16 << 10;
	// Frames share a carrier message up to this size, which fits one frame of an RC carrier.
	std::uint32_t batch_bytes = 1076;
	std::uint32_t message_max = 64u << 20;
	std::uint32_t close_timeout_ms = 1000;  // the time that close() gives the peer
};

struct MuxCounters {
	// `refused` counts opens of the peer beyond this end's `channels_max`.
	std::uint64_t opened = 0, refused = 0, closed = 0, reset = 0;
	std::uint64_t messages_sent = 0, messages_received = 0;
	std::uint64_t frames_sent = 0, frames_received = 0;
	std::uint64_t batches_sent = 0, batches_received = 0;  // carrier messages
	std::uint64_t credit_frames = 0;
	std::uint64_t bytes_sent = 0, bytes_received = 0;  // carrier messages, with all headers

	MuxCounters& operator+=(const MuxCounters& other);
};

namespace detail {
	// The two lists of a Mux in which a channel may be.
struct MuxUrgent : async::Linked {};
struct MuxActive : async::Linked {};
}  // namespace detail

class MuxChannel final : public Channel, private async::Timer, private detail::MuxUrgent, private detail::MuxActive {
public:
	~MuxChannel() override;

	std::uint32_t id() const { return id_; }
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
	enum class PendingFrame : std::uint8_t { open = 1, credit = 2, close = 4, accept = 8 };

	MuxChannel(Mux& mux, std::uint32_t id, std::uint32_t label);

	Sending::Progress advance(Sending& sending) override;
	bool has_message() const override { return inbox_ != nullptr; }
	Received next() override;
	void expire() override;

	static ArrivedBlock make_arrived(std::size_t size);
	void handle_open(std::uint32_t window);
	// Empty, or the way in which the frame breaks the protocol.
	std::string_view handle_data(MuxKind kind, std::span<const std::byte> payload);
	void handle_close();
	void deliver();
	void release_assembly();
	void announce_if_due();
	void owe(PendingFrame what);
	bool has_pending_frame(PendingFrame what) const { return (pending_frames_ & static_cast<std::uint8_t>(what)) != 0; }
	void finish_close();
	// Ends the channel; with `tell`, the peer is sent a reset with that reason.
	void fail(Trouble trouble, std::string reason, std::optional<MuxReset> tell);

	Mux* mux_;  // null: the channel or its carrier has ended
	std::shared_ptr<const Path> path_;
	std::uint32_t id_, label_;
	MuxSendWindow send_;
	MuxReceiveWindow receive_;
	std::uint32_t deficit_ = 0;  // bytes that it may still send in its turn (Mux::visit_active)
	// The bytes of the message that is being put together, and their charge that is not released
	// yet.
	std::uint32_t assembled_ = 0, assembly_charge_ = 0;
	std::uint8_t pending_frames_ = 0;  // control frames to send: a set of `PendingFrame`
	// With `in_message_`, the peer has the beginning of a message and not its end.
	bool open_ = false, in_message_ = false;
	bool close_sent_ = false, peer_closed_ = false, lost_ = false;
	Arrived* inbox_ = nullptr;  // oldest first
	Arrived* inbox_last_ = nullptr;
	ArrivedBlock assembly_;
};

class Mux {
public:
	// The opener is the side that connected the carrier.
	enum class Side : std::uint8_t { opener, acceptor };
	using Opened = std::expected<std::unique_ptr<MuxChannel>, std::string>;
	using Deliver = std::function<void(std::unique_ptr<MuxChannel>)>;
	using Wake = std::function<void()>;

	// `carrier`: its path(). `wake` is called when take() has something to return again. `deliver`
	// receives the channels that the peer opens; for the acceptor only.
	Mux(async::Loop& loop, Side side, Path carrier, const MuxOptions& options, Wake wake, Deliver deliver = {});
	~Mux();
	Mux(const Mux&) = delete;
	Mux& operator=(const Mux&) = delete;

	// Opens a channel, once the peer accepts it. `label` is a number for the programs at both ends.
	// The error is one sentence.
	async::Task<Opened> open(std::uint32_t label);

	// Takes one carrier message. An error says how the peer breaks the protocol; the caller then
	// ends the carrier.
	std::expected<void, std::string> handle(std::span<const std::byte> batch);
	// Writes the next carrier message to `batch`. False: there is nothing to send until `wake` is
	// called.
	bool take(std::vector<std::byte>& batch);
	// The carrier has ended: ends all channels.
	void end(Trouble trouble, const std::string& reason);

	// Channels, and open() calls in progress.
	std::size_t channels() const { return channels_ + waiting_; }
	const MuxCounters& counters() const { return counters_; }
	const MuxOptions& options() const { return options_; }

private:
	friend class MuxChannel;

	void put(std::vector<std::byte>& into, std::uint32_t id, MuxKind kind,
		std::initializer_list<std::span<const std::byte>> payload);
	void put_pending_frames(MuxChannel& channel);
	bool room_for(const std::vector<std::byte>& batch, std::size_t payload) const {
		return batch.empty() || batch.size() + MuxFrame::bytes + payload <= options_.batch_bytes;
	}
	// The buffer into which this channel may put a frame now, or null if it must wait.
	std::vector<std::byte>* place_for(MuxChannel& channel, std::size_t payload, std::uint32_t charge);
	void visit_active(std::vector<std::byte>& batch);
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
	std::size_t channels_ = 0, waiting_ = 0;
	std::uint32_t peer_channels_max_ = 0, peer_message_max_ = 0;
	bool peer_known_ = false, hello_sent_ = false, woken_ = false, ended_ = false;
	std::string reason_;
	async::List<async::Waiter> openers_;  // open() calls that wait for the peer's hello

	async::List<detail::MuxUrgent> urgent_;
	async::List<detail::MuxActive> active_;
	MuxChannel* in_turn_ = nullptr;  // it has its turn, which goes on in the next carrier message
	MuxChannel* visited_ = nullptr;  // it is putting frames into `visited_batch_` right now
	std::vector<std::byte>* visited_batch_ = nullptr;
	enum class Blocked : std::uint8_t {
		no,
		credit,
		quantum,
		room
	} blocked_ = Blocked::no;  // the reason why the last visit ended
	std::vector<std::byte> next_;  // frames put while no channel waited for its turn
	std::vector<std::pair<std::uint32_t, MuxReset>> resets_;
	MuxCounters counters_;
};

}  // namespace verbena::channel
