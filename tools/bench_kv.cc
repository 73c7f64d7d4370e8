// verbena bench kv: measures SET and GET of the key-value store between two processes, eager and by
// rendezvous; and, if asked, the same operations of redis and memcached.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/sizes.h"
#include "bench/environment.h"
#include "bench/kv/memcached.h"
#include "bench/kv/redis.h"
#include "bench/kv/rows.h"
#include "bench/sweep/interruption.h"
#include "bench/sweep/progress_line.h"
#include "lib/kv/index.h"
#include "tools/commands.h"
#include "tools/device_options.h"
#include "tools/option_values.h"
#include "tools/output_options.h"
#include "tools/trust_options.h"

namespace verbena::tools {
namespace {

using namespace kvbench;

struct Options {
	std::string sizes_text = "1:1M", ops_text = "set,get", protos_text = "eager,rndv,auto", forms_text = "read",
				windows_text = "1,16,64";
	std::string eager_max = "4096", memory = "1G", format = "markdown", sensitivity_text, transport = "rdma", device;
	std::vector<std::uint64_t> sizes, windows;
	std::vector<Op> ops;
	std::vector<Proto> protos;
	std::vector<Form> forms;
	std::vector<std::string> sensitivity;
	std::uint32_t rx_depth = 6000, tx_depth = 6000, warmup = 50, iters = 60'000, clients = 1, reps = 5, poll_us = 50,
				  stalled = 0;
	double seconds_max = 1;
	bool crossover = false, with_redis = false, with_memcached = false;
	OutputOptions output;
	channel::TrustOptions trust;
	std::string command_line;
};

std::vector<Cell> cells_of(const Options& options) {
	std::vector<Cell> cells;
	for (const Op op : options.ops)
		for (const std::uint64_t window : options.windows)
			for (const Proto proto : options.protos)
				for (const Form form : options.forms) {
					// The form matters only for SETs by rendezvous; measure other cells once.
					if (form != options.forms.front() && (op == Op::get || proto == Proto::eager)) continue;
					if (proto == Proto::one_sided && op == Op::set) continue;
					for (const std::uint64_t size : options.sizes)
						cells.push_back({.op = op,
							.proto = proto,
							.form = form,
							.size = static_cast<std::uint32_t>(size),
							.window = static_cast<std::uint32_t>(window),
							.clients = options.clients,
							.warmup = options.warmup,
							.iters = options.iters,
							.seconds_max = options.seconds_max});
				}
	return cells;
}

// The memory for values that clients read by RDMA READ alone: 16 values of each client, twice over
// because old copies stay until they are overwritten, and a third more because a quarter of the
// memory is the index. So a value takes at most 1/32 of the records' part; the store allows 1/8.
std::size_t one_sided_bytes(const Options& options) {
	const std::uint64_t largest = std::ranges::max(options.sizes) + kv::key_max;
	return std::clamp<std::uint64_t>(largest * 32 * options.clients * 4 / 3, 16 << 20, kv::Index::bytes_max);
}

// One command: runs all cells, collects the rows and writes the tables.
class Measuring {
public:
	Measuring(const Options& options, channel::Protection server, channel::Protection client) : options_(options) {
		trial_ = {
			.settings = {.rx_depth = options.rx_depth,
				.tx_depth = options.tx_depth,
				.eager_max = static_cast<std::uint32_t>(*parse_size(options.eager_max)),
				.memory = *parse_size(options.memory),
				.one_sided = std::ranges::count(options.protos, Proto::one_sided) > 0 ? one_sided_bytes(options) : 0},
			.server_protection = std::move(server),
			.client_protection = std::move(client),
			.device = options.device,
			.tcp = options.transport == "tcp",
			.spin = Nanoseconds{options.poll_us} * 1000};
	}

	// Returns the exit code.
	int measure() {
		if (const int code = measure_all(); code != good) return code;
		if (table_.rows.empty()) return complain("interrupted before anything was measured", bench::interrupted);
		const int code = write();
		return interruption_.asked() ? bench::interrupted : code;
	}

private:
	int measure_all() {
		if (options_.stalled > 0) return beside_stalled(cells_of(options_));
		if (options_.sensitivity.empty()) {
			if (const int code = run(trial_, cells_of(options_)); code != good) return code;
		}
		for (const std::string& parameter : options_.sensitivity)
			if (const int code = vary(parameter); code != good) return code;
		for (const auto& [wanted, add] :
			{std::pair(options_.with_redis, &add_redis), std::pair(options_.with_memcached, &add_memcached)}) {
			if (!wanted || interruption_.asked()) continue;
			std::vector<Json> rows = table_.rows;
			bench::ProgressLine progress(!options_.output.quiet, measurements(rows));
			const auto added =
				add(rows, {.repetitions = options_.reps, .iters = options_.iters, .next = [&](std::string what) {
							   progress.next(std::move(what));
							   return !interruption_.asked();
						   }});
			if (added) table_.rows = std::move(rows);
			else if (!interruption_.asked()) return complain(added.error());
		}
		return good;
	}

	std::string words_of(const Cell& cell) const {
		return fmt::format(
			"{} {} {} window {}", name_of(cell.op), name_of(cell.proto), bytes_text(cell.size), cell.window);
	}

	// Runs `cells` and adds a row for each that has at least one repetition, also when interrupted.
	// `varied` names the parameter that --sensitivity varies.
	int run(const TrialOptions& trial, const std::vector<Cell>& cells, const std::string& varied = {}) {
		bench::ProgressLine progress(!options_.output.quiet, cells.size() * options_.reps);
		const auto result = run_trial(trial, cells, options_.reps, [&](const Cell& cell) {
			progress.next(varied + (varied.empty() ? "" : ": ") + words_of(cell));
			return !interruption_.asked();
		});
		if (!result) return complain(result.error());
		for (std::size_t i = 0; i < cells.size(); ++i)
			if (!result->runs[i].empty()) add_row(row_of(cells[i], result->runs[i], trial), varied);
		account_ = result->account;
		return good;
	}

	void add_row(Json row, const std::string& varied) {
		row["varied"] = varied;
		// An interrupted row has few repetitions, so its interval is narrow without being reliable.
		if (row["validity"] == "valid" && row["reps"] < options_.reps) {
			row["validity"] = "suspect";
			row["reason"] =
				fmt::format("interrupted after {} of {} repetitions", row["reps"].get<std::uint64_t>(), options_.reps);
		}
		table_.rows.push_back(std::move(row));
	}

	// Runs every cell without and with stalled clients, in turn. Each run has a server and clients
	// of its own, because a stalled client's lease ends after some seconds: from then on it would
	// no longer hold anything of the server's, and the run would measure nothing.
	int beside_stalled(const std::vector<Cell>& cells) {
		TrialOptions beside = trial_;
		beside.stalled = options_.stalled;
		std::vector<std::vector<Run>> alone_runs(cells.size()), beside_runs(cells.size());
		bench::ProgressLine progress(!options_.output.quiet, cells.size() * options_.reps * 2);
		for (std::uint32_t repetition = 0; repetition < options_.reps; ++repetition)
			for (std::size_t i = 0; i < cells.size(); ++i)
				for (const auto& [trial, runs] :
					{std::pair(&trial_, &alone_runs[i]), std::pair(&beside, &beside_runs[i])}) {
					if (interruption_.asked()) continue;
					progress.next(fmt::format("{} beside {} stalled clients", words_of(cells[i]), trial->stalled));
					const auto result = run_trial(*trial, {cells[i]}, 1, [](const Cell&) { return true; });
					if (!result) return complain(result.error());
					runs->push_back(result->runs.front().front());
					account_ = result->account;
				}
		for (std::size_t i = 0; i < cells.size(); ++i) {
			if (beside_runs[i].empty()) continue;
			add_row(row_of(cells[i], alone_runs[i], trial_), "stalled");
			Json row = row_of(cells[i], beside_runs[i], beside);
			add_stalled(row, beside_runs[i], alone_runs[i]);
			add_row(std::move(row), "stalled");
		}
		return good;
	}

	// Varies one parameter while the others keep their values.
	int vary(const std::string& parameter) {
		if (parameter == "depth") {
			for (const std::uint32_t depth : {16u, 64u, 256u, 1024u, 6000u}) {
				if (interruption_.asked()) return good;
				TrialOptions trial = trial_;
				trial.settings.rx_depth = trial.settings.tx_depth = depth;
				if (const int code = run(trial, cells_of(options_), parameter); code != good) return code;
			}
			return good;
		}
		if (interruption_.asked()) return good;
		std::vector<Cell> cells;
		const std::vector<std::uint32_t> values = parameter == "warmup"
			? std::vector<std::uint32_t>{0, 1, 10, 50, 500, 5000}
			: std::vector<std::uint32_t>{100, 1000, 10'000, 60'000};
		for (const std::uint32_t value : values)
			for (Cell cell : cells_of(options_)) {
				(parameter == "warmup" ? cell.warmup : cell.iters) = value;
				cells.push_back(cell);
			}
		return run(trial_, cells, parameter);
	}

	int write() {
		table_.environment = {{"command", options_.command_line}, {"commit", bench::commit()},
			{"device",
				options_.transport == "tcp"
					? ""
					: fmt::format("{} ({}, MTU {})", account_.device, account_.gid, account_.mtu)},
			{"transport", options_.transport}, {"rx-depth", std::to_string(options_.rx_depth)},
			{"tx-depth", std::to_string(options_.tx_depth)}, {"eager-max", options_.eager_max},
			{"warmup", std::to_string(options_.warmup)},
			{"iters", fmt::format("{}, at most {} s a run", options_.iters, options_.seconds_max)},
			{"reps", std::to_string(options_.reps)}, {"processes", "one server, one of clients"},
			{"server registrations", std::to_string(account_.server_registrations)}};
		table_.environment.insert(table_.environment.end(),
			{{"kind",
				 options_.transport == "tcp"              ? ""
					 : account_.device.starts_with("vb_") ? "software"
														  : "hardware"},
				{"cpu", bench::cpu_name()}, {"cores", fmt::format("{}, not pinned", sysconf(_SC_NPROCESSORS_ONLN))},
				{"kernel", bench::kernel_name()}, {"date", bench::utc_now()}});
		if (interruption_.asked())
			table_.environment.insert(table_.environment.begin() + 1,
				{"interrupted", "yes; the column `reps` has the number that each row had"});
		std::string error;
		const auto out = [&](const std::string& path, const std::string& text) {
			return path.empty() || write_out(path, text, error);
		};
		const std::string shown = options_.crossover ? to_crossover(table_.rows)
			: options_.format == "published"         ? to_published(table_.rows)
													 : connect::to_markdown(slim());
		const OutputOptions& to = options_.output;
		if (!(out(to.csv, connect::to_csv(table_)) && out(to.json, connect::to_json(table_)) &&
				out(to.markdown, shown)))
			return complain(error);
		int code = good;
		for (const Json& row : table_.rows)
			if (row["validity"] == "invalid") {
				const std::string reason = row["reason"];
				complain(fmt::format("{} {} {} B window {}: {}", row["op"].get<std::string>(),
					row["proto"].get<std::string>(), row["value_bytes"].get<std::uint64_t>(),
					row["window"].get<std::uint64_t>(), reason));
				const auto has_failed = [](const Json& run) { return run["failure"] != ""; };
				code = std::max(code,
					std::ranges::any_of(row.value("repetitions", Json::array()), has_failed) ? int{failed}
																							 : int{impossible_data});
			}
		return code;
	}

	// The columns of the Markdown table; CSV and JSON have all of them.
	connect::Table slim() const {
		connect::Table shown{.environment = table_.environment, .rows = {}};
		const bool varied = std::ranges::any_of(table_.rows, [](const Json& row) { return row["varied"] != ""; });
		for (const Json& row : table_.rows) {
			Json& one = shown.rows.emplace_back(Json{{"experiment", "kv"}});
			for (const char* key : {"varied", "op", "proto", "protocol", "form", "value_bytes", "window", "clients",
					 "stalled", "rx_depth", "warmup", "iters", "operations_per_second", "gigabytes_per_second",
					 "gibibytes_per_second", "p50_us", "p99_us", "p99_times_alone", "depth", "messages_per_operation",
					 "spread", "redis_unix_per_second", "redis_tcp_per_second", "memcached_unix_per_second",
					 "memcached_tcp_per_second", "validity", "reason"})
				if (row.contains(key) && (varied || std::string_view(key) != "varied")) one[key] = row[key];
		}
		return shown;
	}

	const Options& options_;
	TrialOptions trial_;
	bench::Interruption interruption_;
	connect::Table table_;
	Account account_;
};

int measure(const Options& options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return complain(trust.error(), usage);
	auto client = channel::make_client_protection(*trust);
	auto server = channel::make_server_protection(*trust);
	if (!client) return complain(client.error());
	if (!server) return complain(server.error());
	if (options.with_redis)
		if (const auto found = find_redis(); !found) return complain(found.error());
	if (options.with_memcached)
		if (const auto found = find_memcached(); !found) return complain(found.error());
	return Measuring(options, *server, *client).measure();
}

// Refuses options that --format published cannot show: its lines have operation, protocol and size
// only, so no two cells may agree in all three.
void check_published(const Options& options) {
	const auto refuse = [](const char* option, const char* why) {
		throw CLI::ValidationError(option, std::string("--format published shows ") + why);
	};
	const auto asked_for = [&](Proto proto) { return std::ranges::count(options.protos, proto) > 0; };
	if (options.crossover) refuse("--crossover", "another table: leave out one of the two");
	if (!options.sensitivity.empty()) refuse("--sensitivity", "no varied parameters: leave out one of the two");
	if (options.windows.size() > 1) refuse("--window", "only one window");
	if (options.forms.size() > 1) refuse("--rndv", "only one form of rendezvous");
	if (asked_for(Proto::one_sided)) refuse("--proto", "only eager, rndv and auto");
	if (asked_for(Proto::automatic) && options.protos.size() > 1) refuse("--proto", "either auto, or eager and rndv");
}

}  // namespace

void add_bench_kv(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = bench.add_subcommand("kv", "The key-value store: SET and GET, eager and by rendezvous");
	sub->footer(
		"Examples:\n"
		"  verbena bench kv --sizes 64,4K,64K,1M --window 1,64 --reps 3\n"
		"  verbena bench kv --crossover --window 16              the sizes at which each protocol is faster\n"
		"  verbena bench kv --ops get --proto auto,onesided --sizes 64,4K,64K\n"
		"  verbena bench kv --format published                   lines in the published format, at window 1\n"
		"  verbena bench kv --sizes 64 --with-redis --with-memcached    both too, over a unix socket and TCP\n"
		"  verbena bench kv --sizes 64,64K --window 1 --stalled 1      the effect of a stalled client on the others\n"
		"  verbena bench kv --sensitivity depth,warmup,iters --sizes 4K\n"
		"Ctrl-C ends it after the current run and keeps the rows that have a repetition; a second Ctrl-C ends it at "
		"once.\n"
		"Exit codes: 0 success, 1 something could not be measured, 2 wrong usage, 3 a row cannot be true, 130 "
		"interrupted.");
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	sub->add_option("--sizes", options->sizes_text, "Bytes of a value: a list; a:b is from a to b by doubling")
		->capture_default_str();
	sub->add_option("--ops", options->ops_text, "Operations: a list of set, get")->capture_default_str();
	sub->add_option("--proto", options->protos_text,
		   "Way in which values travel: a list of eager, rndv, auto, onesided (GET by RDMA READ alone)")
		->capture_default_str();
	sub->add_option("--rndv", options->forms_text, "Form of a SET by rendezvous: a list of read, write")
		->capture_default_str();
	sub->add_option("--window", options->windows_text, "Operations of a client under way at once: a list")
		->capture_default_str();
	sub->add_option("--clients", options->clients, "Clients, all in one process")
		->capture_default_str()
		->check(CLI::Range(1u, measured_clients_max));
	sub->add_option("--stalled", options->stalled,
		   "Run each cell with and without this number of stalled client processes (SIGSTOP in the middle of a "
		   "rendezvous)")
		->check(CLI::Range(0u, 1000u));
	sub->add_option("--rx-depth", options->rx_depth, "Receive buffers of each side")
		->capture_default_str()
		->check(CLI::Range(8u, 65'536u));
	sub->add_option("--tx-depth", options->tx_depth, "Send work requests of a connection, on each side")
		->capture_default_str()
		->check(CLI::Range(8u, 16'384u));
	sub->add_option("--eager-max", options->eager_max,
		   "With --proto auto: bytes of key and value together below which a value travels eagerly")
		->capture_default_str()
		->check(size_between(0, UINT64_MAX));
	sub->add_option("--memory", options->memory, "Memory of the store")
		->capture_default_str()
		->check(size_between(0, UINT64_MAX));
	sub->add_option("--warmup", options->warmup, "Operations of a run before the timed ones")->capture_default_str();
	sub->add_option("--iters", options->iters, "Timed operations of a run")
		->capture_default_str()
		->check(CLI::Range(1u, 1'000'000'000u));
	sub->add_option("--seconds-max", options->seconds_max,
		   "Seconds after which a run ends; `iters` of its row is the number of operations timed")
		->capture_default_str()
		->check(CLI::Range(0.01, 3600.0));
	sub->add_option("--reps", options->reps, "Repetitions, interleaved")
		->capture_default_str()
		->check(CLI::Range(1u, 1000u));
	sub->add_option("--transport", options->transport, "Transport of the messages")
		->capture_default_str()
		->check(CLI::IsMember({"rdma", "tcp"}));
	add_device_option(*sub, options->device);
	sub->add_option(
		   "--poll-us", options->poll_us, "Microseconds that a thread polls after its last work, before it sleeps")
		->capture_default_str();
	sub->add_flag("--crossover", options->crossover, "Print the sizes at which each protocol is faster, not the table");
	sub->add_option("--sensitivity", options->sensitivity_text,
		"Parameters to vary, one at a time: a list of depth, warmup, iters");
	sub->add_option("--format", options->format,
		   "Format of the output; published: the published lines, by default with --window 1 and --proto eager,rndv")
		->capture_default_str()
		->check(CLI::IsMember({"markdown", "published"}));
	sub->add_flag("--with-redis", options->with_redis, "Measure redis too (it must be installed)");
	sub->add_flag("--with-memcached", options->with_memcached, "Measure memcached too (it must be installed)");
	add_output(*sub, options->output);
	add_trust(*sub, options->trust);

	sub->callback([options, sub, &action] {
		const bool is_published = options->format == "published";
		if (is_published && sub->count("--window") == 0) options->windows_text = "1";
		if (is_published && sub->count("--proto") == 0) options->protos_text = "eager,rndv";
		options->sizes = sizes_of("--sizes", options->sizes_text, kv::value_max);
		options->windows = sizes_of("--window", options->windows_text, 4096);
		options->ops = tools::words_of<Op>("--ops", options->ops_text, {{"set", Op::set}, {"get", Op::get}});
		options->protos = tools::words_of<Proto>("--proto", options->protos_text,
			{{"eager", Proto::eager}, {"rndv", Proto::rndv}, {"auto", Proto::automatic},
				{"onesided", Proto::one_sided}});
		const auto asked_for = [&](Proto proto) { return std::ranges::count(options->protos, proto) > 0; };
		if (options->transport == "tcp" && (asked_for(Proto::rndv) || asked_for(Proto::one_sided)))
			throw CLI::ValidationError(
				"--proto", "rndv and onesided need RDMA: with --transport tcp use --proto eager,auto");
		options->forms =
			tools::words_of<Form>("--rndv", options->forms_text, {{"read", Form::read}, {"write", Form::write}});
		if (!options->sensitivity_text.empty())
			options->sensitivity = tools::words_of<std::string>("--sensitivity", options->sensitivity_text,
				{{"depth", "depth"}, {"warmup", "warmup"}, {"iters", "iters"}});
		if (options->crossover) {
			if (!asked_for(Proto::eager) || !asked_for(Proto::rndv))
				throw CLI::ValidationError("--crossover", "compares eager and rndv: --proto must name both");
			std::erase(options->protos, Proto::automatic);
		}
		if (is_published) check_published(*options);
		if (cells_of(*options).empty()) throw CLI::ValidationError("--proto", "onesided is for GETs: use --ops get");
		const bool compares = !options->sensitivity.empty() || options->with_redis || options->with_memcached;
		if (options->stalled > 0 && (compares || options->crossover || is_published))
			throw CLI::ValidationError("--stalled",
				"is measured alone: leave out --sensitivity, --with-redis, --with-memcached, --crossover and --format "
				"published");
		options->output.settle();
		action = [options] { return measure(*options); };
	});
}

}  // namespace verbena::tools
