// SPDX-License-Identifier: Apache-2.0
// The virtual clock, and the links between simulated hosts with their faults.
//
// One direction of a link is a Path: the memory that the sender's outlet writes to. On a lossy
// fabric the slots of the path become RoCEv2 packets (real bytes, real ICRC). Each packet is
// dropped, duplicated, corrupted or delayed at random before the other end parses it. On a lossless
// fabric the other end reads the slots themselves, as two processes of one host do.
//
// Threads: one.
// Owns: the hosts, the paths and all pending events.
// Invariants: the seed and the options determine a run: nothing reads a real clock or another
//   source of randomness. A run is bounded in events and in virtual time.
// Errors: a run that does not reach its goal returns Ended::idle or Ended::limit, and describe()
//   returns the state of each busy queue pair as text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nic/sim/host.h"
#include "nic/sim/random.h"
#include "nic/wire/packet.h"

namespace verbena::sim {

// The probability of each fault for one packet, and the times in nanoseconds. On a lossless fabric,
// `delay` and `jitter` determine when the other end reads new slots, and the rest is unused.
struct Faults {
	double drop = 0;
	double duplicate = 0;
	double reorder = 0;  // the packet is held back by at most `reorder_by`
	double corrupt = 0;  // one to three bits are flipped
	Nanoseconds delay = 5'000;  // every packet takes this time
	Nanoseconds jitter = 0;  // the largest extra time, chosen at random
	Nanoseconds reorder_by = 60'000;
};

struct FabricOptions {
	std::uint64_t seed = 1;
	bool lossless = false;
	Faults faults;
	// Lossy: packets that reach a host within this time after a first one are handled in one pass.
	Nanoseconds batch = 0;
	std::uint32_t ps_per_byte = 100;  // lossy: picoseconds to transmit a byte; 100 is 80 Gbit/s
	// The bounds of each call of run_until(): the number of events, and the virtual time.
	std::uint64_t events_max = 4'000'000;
	Nanoseconds time_max = 600'000'000'000;
};

// The way in which a run ended: the goal was reached, no event was left, or a bound was reached.
enum class Ended : std::uint8_t { reached, idle, limit };

class Fabric {
public:
	explicit Fabric(const FabricOptions& options);
	~Fabric();
	Fabric(const Fabric&) = delete;
	Fabric& operator=(const Fabric&) = delete;

	Host& add_host();  // the host lives as long as the fabric
	// The outlet of the path from one host to another. The first call for the two creates the path.
	transport::Outlet& outlet(Host& from, Host& to);
	Nanoseconds now() const { return now_; }
	const FabricOptions& options() const { return options_; }

	// A packet that departs on a lossy fabric.
	struct Departure {
		const Host& from;
		wire::Opcode opcode;
		wire::Psn24 psn;
		std::uint8_t syndrome;  // if the packet has an AETH
	};
	// If set, run_until() calls this function for each departing packet, before the random faults.
	// True: the packet is lost. For scenarios that lose particular packets.
	std::function<bool(const Departure&)> loses;

	// If set, run_until() calls this function before every event. The simulated programs poll and
	// post in it.
	std::function<void()> each_step;

	// Runs a pass of the host's adapter: begins the pass, calls work(), and finishes the pass.
	void pass(Host& host, const std::function<void()>& work);
	// Schedules a call of `what` at the time `when`, or at the current time if `when` has passed.
	void at(Nanoseconds when, std::function<void()> what);

	// Advances the clock from event to event until goal() is true, no event is left, or a bound is
	// reached.
	Ended run_until(const std::function<bool()>& goal);
	// Runs until no event is left. False if a bound was reached instead.
	bool settle() {
		return run_until([] { return false; }) == Ended::idle;
	}
	// Runs for this much virtual time, or until a bound is reached.
	void run_for(Nanoseconds time);

	struct Statistics {
		// `packets` to `reordered` count packets of a lossy fabric. `ring_full` counts the passes
		// that were made for a sender that waits for room on a path.
		std::uint64_t packets = 0, dropped = 0, duplicated = 0, corrupted = 0, reordered = 0, events = 0, ring_full = 0;
		// Packets that the parser refused, by reason.
		std::array<std::uint64_t, static_cast<int>(wire::DropReason::count)> refused{};
	} statistics;

	// Text with one line for each queue pair that has unfinished work; empty if none has.
	std::string describe();

private:
	struct Path;
	// Events at the same time happen in the order in which they were scheduled.
	using Moment = std::pair<Nanoseconds, std::uint64_t>;
	struct Event {
		Path* path = nullptr;  // null: `action` is called
		std::vector<std::byte> bytes;  // a packet that arrives; empty: the path is drained or read
		std::function<void()> action;
	};

	Path& path(Host& from, Host& to);
	void schedule(Nanoseconds when, Event event) { events_.emplace(Moment{when, sequence_++}, std::move(event)); }
	void schedule_path(Path& path);  // schedules drain() or read()
	void drain(Path& path);  // lossy: turns slots into packets, each of which departs
	void read(Path& path);  // lossless: the other end reads slots
	void depart(Path& path, Nanoseconds when, const std::vector<std::byte>& bytes);
	void arrive(Path& path, const std::vector<std::byte>& bytes);  // a pass for the packet
	void deliver(Path& path, const std::vector<std::byte>& bytes);  // inside a pass
	void resume_sender(Path& path);  // a pass for a sender that waits for room on the path
	void end_pass(Host& host);
	bool run_timers(Nanoseconds until);
	bool step();

	FabricOptions options_;
	Random random_;
	Nanoseconds now_ = 1'000'000;
	std::uint64_t sequence_ = 0;
	std::map<Moment, Event> events_;
	std::vector<std::unique_ptr<Host>> hosts_;
	std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Path>> paths_;
};

}  // namespace verbena::sim
