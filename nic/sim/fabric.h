// The virtual clock, and the links between hosts with everything that goes wrong on them.
//
// One direction of a link is a Path: the memory that its sender's outlet writes to. On a lossy fabric the path is
// drained into RoCEv2 packets (real bytes, real ICRC), and each of them is dropped, doubled, damaged or delayed as
// chance has it, before it is parsed at the other end. On a lossless fabric the other end reads the slots themselves,
// as two processes of one host do.
//
// Nothing here reads a clock or draws from anything but the seed: a run is its seed and its options. A run is bounded
// in events and in virtual time; one that does not reach its goal says so, and describe() tells where each queue pair
// stands.
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

struct Faults {
	double drop = 0;
	double duplicate = 0;
	double reorder = 0;  // held back by up to `reorder_by`
	double corrupt = 0;  // one to three bits flipped
	Nanoseconds delay = 5'000;
	Nanoseconds jitter = 0;
	Nanoseconds reorder_by = 60'000;
};

struct FabricOptions {
	std::uint64_t seed = 1;
	bool lossless = false;
	Faults faults;
	Nanoseconds batch = 0;  // what reaches one host within this time is handled in one pass
	std::uint32_t ps_per_byte = 100;
	std::uint64_t events_max = 4'000'000;
	Nanoseconds time_max = 600'000'000'000;
};

enum class Ended : std::uint8_t { reached, idle, limit };

class Fabric {
public:
	explicit Fabric(const FabricOptions& options);
	~Fabric();
	Fabric(const Fabric&) = delete;
	Fabric& operator=(const Fabric&) = delete;

	Host& add_host();
	transport::Outlet& outlet(Host& from, Host& to);
	Nanoseconds now() const { return now_; }
	const FabricOptions& options() const { return options_; }

	// From now on.
	void set_faults(const Faults& faults) { options_.faults = faults; }

	// A packet about to leave. True: it is lost. For scripted scenarios; asked before chance is. Lossy fabrics only.
	struct Departure {
		const Host& from;
		wire::Opcode opcode;
		wire::Psn24 psn;
		std::uint8_t syndrome;  // of an acknowledgement
	};
	std::function<bool(const Departure&)> loses;

	// Called after every event: where programs poll and post.
	std::function<void()> each_step;

	// A pass of a host's adapter with `work` in it.
	void pass(Host& host, const std::function<void()>& work);
	void at(Nanoseconds when, std::function<void()> what);

	// Lets time go on until `goal` holds, or nothing is left that could happen, or a bound is reached.
	Ended run_until(const std::function<bool()>& goal);
	// Until nothing is left to happen.
	bool settle() {
		return run_until([] { return false; }) == Ended::idle;
	}
	void run_for(Nanoseconds time);

	struct Statistics {
		std::uint64_t packets = 0, dropped = 0, duplicated = 0, corrupted = 0, reordered = 0, events = 0, ring_full = 0;
		std::array<std::uint64_t, static_cast<int>(wire::DropReason::count)> refused{};
	} statistics;

	// Queue pairs that still have something to do, one a line.
	std::string describe();

private:
	struct Path;
	using Moment = std::pair<Nanoseconds, std::uint64_t>;
	struct Event {
		Path* path = nullptr;             // with bytes: a packet arrives; without: the path is drained or read
		std::vector<std::byte> bytes;
		std::function<void()> action;     // neither: this
	};

	Path& path(Host& from, Host& to);
	void schedule(Nanoseconds when, Event event) { events_.emplace(Moment{when, sequence_++}, std::move(event)); }
	void attend(Path& path);
	void drain(Path& path);
	void read(Path& path);
	void depart(Path& path, Nanoseconds when, const std::vector<std::byte>& bytes);
	void arrive(Path& path, const std::vector<std::byte>& bytes);
	void deliver(Path& path, const std::vector<std::byte>& bytes);
	void let_sender_go_on(Path& path);
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
