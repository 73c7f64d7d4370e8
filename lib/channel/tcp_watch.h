// SPDX-License-Identifier: Apache-2.0
// TcpWatch: notices that the peer of a TCP connection has vanished, or that it stalls in the middle
// of a message.
//
// An idle connection is watched by the kernel (async::keep_alive). The kernel does not probe a
// connection with unacknowledged bytes, and gives up on those after a quarter of an hour only; so
// while a connection is in use, this class looks once a second. A kernel acknowledges also for a
// program that is stopped: such a peer is not taken for dead. It stalls, which is limited only in
// the middle of a message, by `stall_after`.
//
// Threads: the loop's thread.
// Lifetime: the owner outlives the watch.
// Invariants: scheduled from watch() until nothing is awaited from the peer, and not before.
#pragma once

#include <string>

#include "lib/async/socket.h"
#include "lib/channel/stall_watch.h"

namespace verbena::channel {

class TcpWatch final : public async::Timer {
public:
	class Owner {
	public:
		// Bytes received so far if the peer is in the middle of a message or of a TLS record that
		// this end waits for; 0: it is not.
		virtual std::size_t received_in_part() const = 0;
		// Whether there are bytes that the kernel has not taken.
		virtual bool has_unsent() const = 0;
		// The connection is of no use any more. Called at most once.
		virtual void peer_failed(std::string why) = 0;

	protected:
		~Owner() = default;
	};

	// `dead_after`, `stall_after`: 0 means never.
	TcpWatch(Owner& owner, const async::Descriptor& socket, Nanoseconds dead_after, Nanoseconds stall_after);
	~TcpWatch() { socket_.loop().cancel(*this); }
	TcpWatch(const TcpWatch&) = delete;
	TcpWatch& operator=(const TcpWatch&) = delete;

	// To be called when bytes were sent, and when a part of a message has arrived.
	void watch() {
		if (!watching_) start();
	}
	void stop() { socket_.loop().cancel(*this); }

private:
	void start();
	void expire() override;
	std::string trouble(Nanoseconds now);

	Owner& owner_;
	const async::Descriptor& socket_;
	Nanoseconds dead_after_, stall_after_;
	bool watching_ = false;
	Nanoseconds looked_at_ = 0;
	Nanoseconds awaited_since_ = 0;  // 0: nothing was awaited at the last look
	StallWatch stall_;
};

}  // namespace verbena::channel
