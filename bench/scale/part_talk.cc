// SPDX-License-Identifier: Apache-2.0
// The messages of a client, and the verification of their echoes.
#include <algorithm>
#include <cstring>

#include "bench/scale/part.h"

namespace verbena::scale {

using async::Task;

// Clients continue this long after the measured time, so that all of them are still at work when
// the watching process takes its sample at the end of it, even a little late.
constexpr Nanoseconds tail = 100'000'000;

// The times of one client: the measured time and, with a rate, when each message is due.
struct Schedule {
	Schedule(const SwarmOptions& options, Nanoseconds began, std::uint32_t index)
		: from(began + options.warmup),
		  to(from + options.duration),
		  stop(to + tail),
		  interval(options.rate > 0 ? options.clients / options.rate * 1e9 : 0),
		  first_due(began + static_cast<Nanoseconds>(interval * index / options.clients)) {}

	Nanoseconds due(std::uint32_t number) const { return first_due + static_cast<Nanoseconds>(interval * number); }

	Nanoseconds from, to;   // the measured time, with a duration
	Nanoseconds stop;       // with a duration: no message begins after this
	double interval;        // nanoseconds between two messages of the client; 0: no rate
	Nanoseconds first_due;  // with a rate
};

namespace {

// Waits for a send that found no room at once. If it fails, the next receive() has the reason.
Task<void> finish(channel::Channel::Sending& sending) { co_await sending; }

// Closes a channel whose server is behind with its echoes and sends none for `patience`.
class EchoWatch final : public async::Timer {
public:
	EchoWatch(channel::Channel& channel, const std::uint32_t& sent, const std::uint32_t& done, Nanoseconds patience)
		: channel_(channel), sent_(sent), done_(done), patience_(patience) {
		if (patience > 0) look_again(monotonic_now() + patience);
	}
	~EchoWatch() { channel_.loop().cancel(*this); }
	bool expired() const { return expired_; }

private:
	void look_again(Nanoseconds when) {
		done_then_ = done_;
		waiting_ = sent_ != done_;
		channel_.loop().schedule(*this, when);
	}
	void expire() override {
		if (!waiting_ || done_ != done_then_) return look_again(monotonic_now() + patience_);
		expired_ = true;
		channel_.close();
	}

	channel::Channel& channel_;
	const std::uint32_t &sent_, &done_;
	Nanoseconds patience_;
	std::uint32_t done_then_ = 0;
	bool waiting_ = false, expired_ = false;
};

}  // namespace

bool Part::is_message(std::span<const std::byte> bytes, const Mark& mark) const {
	const std::size_t head = std::min<std::size_t>(sizeof mark, options.message_bytes);
	const auto body = body_of(mark.client, head);
	return bytes.size() == options.message_bytes && std::memcmp(bytes.data(), &mark, head) == 0 &&
		(body.empty() || std::memcmp(bytes.data() + head, body.data(), body.size()) == 0);
}

void Part::count_echo(Nanoseconds start, Nanoseconds now, const Schedule& schedule) {
	if (!options.timed() || (start >= schedule.from && now <= schedule.to)) {
		part.latency.record(now - start);
		part.latency_sum_ns += now - start;
	}
	if (options.metered) board.round_trips.record(now - start);
}

Task<bool> Part::talk(std::uint32_t index, channel::Channel& channel) {
	const Schedule schedule(options, board.began.load(), index);
	const bool paced = schedule.interval > 0;
	std::vector<Nanoseconds> begun(options.window);
	Nanoseconds sum = 0;
	std::uint32_t sent = 0, done = 0;
	const EchoWatch watch(channel, sent, done, options.echo_patience);
	// The latest message. While it waits for room, echoes are received: otherwise both ends would
	// wait for each other if they cannot buffer a whole window.
	Mark last_sent;
	std::optional<channel::Channel::Sending> sending;
	async::Job waiting;

	const auto wants_more = [&] {
		return (options.messages == 0 || sent < options.messages) &&
			(!options.timed() || monotonic_now() < schedule.stop);
	};
	while (true) {
		while (sent - done < options.window && waiting.done() && wants_more()) {
			Nanoseconds start = monotonic_now();
			if (paced) {
				const Nanoseconds due = schedule.due(sent);
				if (options.timed() && due >= schedule.stop) {
					if (sent == done) co_await loop.sleep_until(schedule.stop);
					break;
				}
				if (due > start) {
					if (sent > done) break;  // receive the outstanding echoes first
					co_await loop.sleep_until(due);
					start = monotonic_now();  // the lateness of our own timer must not count
				} else if (sent > 0) {
					start = due;  // the wait for earlier messages counts as latency of this one
				}
			}
			begun[sent % options.window] = start;
			last_sent = {.client = index, .number = sent};
			const std::span<const std::byte> whole_mark = std::as_bytes(std::span(&last_sent, 1));
			const auto head = whole_mark.first(std::min<std::size_t>(whole_mark.size(), options.message_bytes));
			sending.emplace(channel, head, body_of(index, head.size()));
			if (!sending->await_ready()) waiting = async::Job(loop, finish(*sending));
			else if (const auto done_at_once = sending->await_resume();
				!done_at_once && done_at_once.error() == channel::Trouble::too_large) {
				fail(index, Cause::lost,
					"the server accepts no message of " + std::to_string(options.message_bytes) + " bytes");
				co_return false;  // the channel is still open, and no echo would come
			}
			++sent;
		}
		if (sent == done) {
			if (waiting.done()) break;
			co_await async::NextTurn(loop);  // the echo came before its send was resumed
			continue;
		}
		auto echo = co_await channel.receive();
		if (!echo && watch.expired()) {
			fail(index, Cause::timed_out, "the server sends no echo in time");
			co_return false;
		}
		if (!echo) {
			fail(index, Cause::lost,
				channel.reason().empty() ? std::string(channel::name_of(echo.error())) : channel.reason());
			co_return false;
		}
		if (!is_message(echo->bytes(), {.client = index, .number = done})) {
			fail(index, Cause::wrong_echo, "an echo differs from the message that was sent");
			co_return false;
		}
		*echo = {};
		const Nanoseconds now = monotonic_now(), start = begun[done % options.window];
		count_echo(start, now, schedule);
		sum += now - start;
		++done;
		rows[index].echoes = done;
		rows[index].latency_ms = static_cast<float>(static_cast<double>(sum) / 1e6 / done);
		if (options.think > 0 && !paced && wants_more()) co_await loop.sleep_for(options.think);
	}
	co_return true;
}

}  // namespace verbena::scale
