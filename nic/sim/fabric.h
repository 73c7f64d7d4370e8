// The virtual clock, and the links between simulated hosts with their faults.
//
// One direction of a link is a Path: the memory that the sender's outlet writes to. On a lossy
// fabric the path is drained into RoCEv2 packets (real bytes, real ICRC). Each packet is dropped,
// duplicated, corrupted or delayed at random before the other end parses it. On a lossless fabric
// the other end reads the slots themselves, as two processes of one host do.
//
// Threads: one.
// Owns: the hosts, the paths and all pending events.
// Invariants: a run is determined by its seed and options: nothing reads a clock or another source
//   of randomness. A run is bounded in events and in virtual time.
// Errors: a run that does not reach its goal returns Ended::idle or Ended::limit, and describe()
//   prints the state of each busy queue pair.
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

// The probability of each fault for one packet, and the times in nanoseconds. On a lossless fabric
// only `delay` and `jitter` are used.
struct Faults {
	double drop = 0;
	double duplicate = 0;
	double reorder = 0;  // the packet is held back by at most `reorder_by`
	double corrupt = 0;  // one to three bits are flipped
	Nanoseconds delay = 5'000;  // each packet's
	Nanoseconds jitter = 0;  // the largest extra delay
	Nanoseconds reorder_by = 60'000;
};

struct FabricOptions {
	std::uint64_t seed = 1;
	bool lossless = false;
	Faults faults;
	Nanoseconds batch = 0;  // packets that reach a host within this time are handled in one pass
	std::uint32_t ps_per_byte = 100;  // transmission time; 100 is 80 Gbit/s
	std::uint64_t events_max = 4'000'000;  // bounds of each run_until()
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
	// The outlet of the path between two hosts. The first call creates the path.
	transport::Outlet& outlet(Host& from, Host& to);
	Nanoseconds now() const { return now_; }
	const FabricOptions& options() const { return options_; }

	// If set, called for each packet that departs on a lossy fabric, before the random faults.
	// True: the packet is lost. For scenarios that lose particular packets.
	struct Departure {
		const Host& from;
		wire::Opcode opcode;
		wire::Psn24 psn;
		std::uint8_t syndrome;  // if it is an acknowledgement
	};
	std::function<bool(const Departure&)> loses;

	// If set, called before every event. Programs poll and post here.
	std::function<void()> each_step;

	// Runs a pass of the host's adapter around `work`.
	void pass(Host& host, const std::function<void()>& work);
	// Calls `what` at the given time, or at once if that has passed.
	void at(Nanoseconds when, std::function<void()> what);

	// Advances the clock from event to event until goal() is true, no event is left, or a bound is
	// reached.
	Ended run_until(const std::function<bool()>& goal);
	// Runs until no event is left. False if a bound was reached instead.
	bool settle() {
		return run_until([] { return false; }) == Ended::idle;
	}
	void run_for(Nanoseconds time);

	struct Statistics {
		// `ring_full`: passes in which a sender found room again after it had waited.
		std::uint64_t packets = 0, dropped = 0, duplicated = 0, corrupted = 0, reordered = 0, events = 0, ring_full = 0;
		// Packets that the parser refused, by reason.
		std::array<std::uint64_t, static_cast<int>(wire::DropReason::count)> refused{};
	} statistics;

	// One line for each queue pair that has unfinished work; empty if none has.
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
	void schedule_path(Path& path);
	void drain(Path& path);  // lossy
	void read(Path& path);  // lossless
	void depart(Path& path, Nanoseconds when, const std::vector<std::byte>& bytes);
	void arrive(Path& path, const std::vector<std::byte>& bytes);
	void deliver(Path& path, const std::vector<std::byte>& bytes);
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
