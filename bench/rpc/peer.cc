// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/peer.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "bench/rpc/processes.h"

namespace verbena::rpcbench {
namespace {

struct Known {
	System system;
	std::string_view name, program, packages;
};
constexpr Known known[] = {
	{System::verbena, "verbena", "", ""},
	{System::grpc, "grpc", "rpc_grpc", "libgrpc++-dev and protobuf-compiler-grpc"},
	{System::capnp, "capnp", "rpc_capnp", "libcapnp-dev and capnproto"},
};
const Known& facts_of(System system) { return known[static_cast<std::size_t>(system)]; }

// The program's path: in the folder bench/ of the build, or beside this program.
std::filesystem::path program_of(System system) {
	const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
	const auto built = folder / "bench" / facts_of(system).program;
	return std::filesystem::exists(built) ? built : folder / facts_of(system).program;
}

}  // namespace

std::string_view name_of(System system) { return facts_of(system).name; }

std::expected<void, std::string> find_peer(System system) {
	if (std::filesystem::exists(program_of(system))) return {};
	return std::unexpected(fmt::format("{} is not built: install {}, then configure and build again",
		facts_of(system).program, facts_of(system).packages));
}

std::expected<Outcome, std::string> run_peer(const CellOptions& options) {
	// The program's output is the Outcome, or one line that says why there is none. Ctrl-C does not
	// end it, so that the repetition is measured to its end.
	const std::string command = fmt::format("trap '' INT; exec '{}' {} {} {} {} {} {} 2>&1",
		program_of(options.system).string(), options.size, options.concurrency, options.connections,
		options.mode == Mode::echo ? "echo" : "sink", options.warmup, options.duration);
	std::FILE* const output = popen(command.c_str(), "r");
	if (output == nullptr) return std::unexpected("the program of the other system could not be started");
	std::string bytes(sizeof(Outcome) + 1, ' ');
	bytes.resize(std::fread(bytes.data(), 1, bytes.size(), output));
	const int status = pclose(output);
	if (status != 0 || bytes.size() != sizeof(Outcome)) {
		if (bytes.empty() || bytes.size() >= sizeof(Outcome))
			return std::unexpected("the program of the other system ended without an outcome");
		return std::unexpected(bytes.substr(0, bytes.find('\n')));
	}
	Outcome outcome;
	std::memcpy(&outcome, bytes.data(), sizeof outcome);
	return outcome;
}

int peer_main(
	int count, char** words, void (*serve)(const CellOptions&, Board&), void (*call)(const CellOptions&, Board&)) {
	if (count != 7) {
		std::fprintf(stderr, "usage: %s SIZE IN_FLIGHT CONNECTIONS sink|echo WARMUP_NS NS\n", words[0]);
		return 2;
	}
	const auto number = [&](int place) { return std::strtoull(words[place], nullptr, 10); };
	const CellOptions options{.mode = std::string_view(words[4]) == "echo" ? Mode::echo : Mode::sink,
		.size = number(1),
		.concurrency = static_cast<std::uint32_t>(number(2)),
		.connections = static_cast<std::uint32_t>(number(3)),
		.warmup = number(5),
		.duration = number(6)};
	const auto outcome =
		run_processes([&](Board& board) { serve(options, board); }, [&](Board& board) { call(options, board); });
	if (!outcome) {
		std::fprintf(stderr, "%s\n", outcome.error().c_str());
		return 1;
	}
	return std::fwrite(&*outcome, sizeof *outcome, 1, stdout) == 1 && std::fflush(stdout) == 0 ? 0 : 1;
}

void Pace::ended(Nanoseconds began, bool good) {
	const Nanoseconds now = monotonic_now();
	const std::lock_guard guard(lock_);
	if (!good) {
		++board_.outcome.failed;
	} else if (began >= counts_from_ && !over()) {
		++board_.outcome.requests;
		board_.outcome.latency_sum_us += static_cast<double>(now - began) / 1e3;
		board_.outcome.latency.record(now - began);
	}
}

bool Pace::has_counted() {
	const std::lock_guard guard(lock_);
	return board_.outcome.requests > 0;
}

void Pace::keep() {
	std::this_thread::sleep_for(std::chrono::nanoseconds(options_.warmup));
	board_.measuring = true;
	const Nanoseconds began = monotonic_now();
	const double cpu_before = cpu_seconds();
	{
		const std::lock_guard guard(lock_);
		counts_from_ = began;
	}
	do {
		std::this_thread::sleep_for(std::chrono::nanoseconds(options_.duration));
	} while (!has_counted() && monotonic_now() - began < measured_at_most);
	over_ = true;
	board_.outcome.seconds = static_cast<double>(monotonic_now() - began) / 1e9;
	board_.outcome.client_cpu_s = cpu_seconds() - cpu_before;
	board_.measured = true;
}

}  // namespace verbena::rpcbench
