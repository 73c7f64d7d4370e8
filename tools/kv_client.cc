// SPDX-License-Identifier: Apache-2.0
// The program kv_client: executes lines of SET, GET, DEL, GETV, CAS, SCAN, WATCH and INFO at a
// kv_server.
// Each file is a client of its own, and all files are executed at the same time.
//
// Threads: one loop runs all clients.
// Errors: a line that fails is reported with its number, and the next ones are executed; exit code
//   1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "base/sizes.h"
#include "lib/discovery/members.h"
#include "lib/kv/scan.h"
#include "lib/kv/script.h"
#include "lib/kv/watch.h"
#include "tools/command_line.h"
#include "tools/device_options.h"
#include "tools/etcd_options.h"
#include "tools/line_reader.h"
#include "tools/loopback_device.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/server_wait.h"
#include "tools/server_words.h"
#include "tools/trust_options.h"

namespace {

using namespace verbena;

struct Options {
	std::string server;
	std::vector<std::string> files;
	std::string proto = "auto", rndv = "read", transport = "rdma", eager_max;
	std::uint32_t outstanding = 16;
	kv::Settings settings{.rx_depth = 128, .tx_depth = 64};
	std::string device;
	bool stats = false, one_sided = false;
	std::uint32_t timeout_ms = 10'000;
	double wait_s = 0;
	kv::RouterOptions how;
	channel::TrustOptions trust;
	discovery::EtcdAccess etcd;
};

int fail(const std::string& text, int code = 1) {
	tools::print_error("kv_client: {}\n", text);
	return code;
}

// One client and the lines of its file.
//
// Invariants: at most `outstanding` SETs are under way at once, and only one for a key, so that
//   SETs of one key keep their order. A GET or DEL waits until all SETs before it have completed.
class Script {
public:
	Script(const Options& options, std::string name, bool alone)
		: options_(options), name_(std::move(name)), alone_(alone) {}

	async::Task<void> run(kv::Session& session, kv::ClientOptions client_options, std::size_t& left) {
		co_await execute(session, client_options);
		--left;
	}
	std::size_t failures() const { return failures_; }

private:
	async::Task<void> execute(kv::Session& session, kv::ClientOptions client_options) {
		tools::LineReader lines(session.loop(), name_);
		if (complain_of(lines)) co_return;
		auto opening = kv::Router::open(session, client_options, options_.how);
		auto opened = co_await std::move(opening);
		if (!opened) {
			++failures_;
			tools::print_error("kv_client: {}\n", opened.error());
			co_return;
		}
		router_ = std::move(*opened);
		std::string line;
		// With a single fixed server, a line that waited for it in vain ends the script. With
		// several servers, or with members of a cluster, the next line may go to another one.
		const bool one_for_all = router_->size() == 1 && session.members() == nullptr;
		for (std::size_t number = 1;; ++number) {
			bool is_there = lines.take(line);
			if (!is_there) {
				std::fflush(stdout);  // the writer of the next line may wait for it
				is_there = co_await lines.read(line);
			}
			if (!is_there) break;
			auto command = kv::read_command(line);
			if (command && !*command) continue;
			if (one_for_all && unreachable_) {
				complain(number, "the server is unreachable: this line and those after it were not executed");
				break;
			}
			if (command) co_await execute(session, number, std::move(**command));
			else complain(number, command.error());
		}
		co_await all_set(0);
		complain_of(lines);
		if (options_.stats) print_stats();
		router_->close();
		co_await router_->until_closed();
	}

	async::Task<void> execute(kv::Session& session, std::size_t number, kv::Command command) {
		if (command.kind == kv::Command::Kind::set && !command.expected) {
			while (setting_.contains(command.key)) co_await async::Park(waiting_);
			co_await all_set(options_.outstanding - 1);
			++under_way_;
			setting_.insert(command.key);
			session.loop().spawn(set(session.loop(), number, std::move(command)));
			co_return;
		}
		co_await all_set(0);
		if (command.kind == kv::Command::Kind::scan) {
			co_await print_keys(number, command.key);
			co_return;
		}
		if (command.kind == kv::Command::Kind::info) {
			co_await print_info(number);
			co_return;
		}
		if (command.kind == kv::Command::Kind::watch || command.kind == kv::Command::Kind::watch_prefix) {
			co_await print_events(number, command);
			co_return;
		}
		if (command.expected) {
			co_await change_if(number, command);
			co_return;
		}
		if (command.kind == kv::Command::Kind::remove) {
			const auto done = co_await router_->remove(command.key);
			if (!done && done.error() != kv::Error::missing) complain(number, command.key, done.error());
			co_return;
		}
		const bool versioned = command.kind == kv::Command::Kind::get_version;
		auto getting = versioned ? router_->get_versioned(command.key) : router_->get(command.key);
		auto value = co_await getting;
		if (!value && value.error() != kv::Error::missing) {
			complain(number, command.key, value.error());
			co_return;
		}
		const std::string_view text = value ? kv::text_of(value->bytes()) : std::string_view();
		if (!alone_) fmt::print("{}:{}: ", name_, number);
		if (versioned) fmt::print("{} ", value ? value->version : 0);
		std::fwrite(text.data(), 1, text.size(), stdout);
		std::fputc('\n', stdout);
	}

	// CAS, and DEL with a version; prints the new version of a CAS.
	async::Task<void> change_if(std::size_t number, const kv::Command& command) {
		const kv::Bytes value = kv::bytes_of(std::string_view(command.value));
		const bool sets = command.kind == kv::Command::Kind::set;
		kv::Conditional call = sets ? router_->set_if(command.key, value, *command.expected)
									: router_->remove_if(command.key, *command.expected);
		const auto done = co_await call;
		if (!done && done.error() == kv::Error::changed)
			complain(number, fmt::format("{}: its version is {}", kv::sentence_of(done.error()), call.version()));
		else if (!done) complain(number, command.key, done.error());
		else if (sets && !alone_) fmt::print("{}:{}: {}\n", name_, number, *done);
		else if (sets) fmt::print("{}\n", *done);
	}

	// Prints each key with this prefix; of several servers, those that answer.
	async::Task<void> print_keys(std::size_t number, const std::string& prefix) {
		kv::Scan scan(*router_, prefix);
		while (!scan.done()) {
			const auto keys = co_await scan.next();
			if (!keys) {
				complain(number, fmt::format("{}: {}", scan.server(), kv::sentence_of(keys.error())));
				scan.skip();
				continue;
			}
			for (const std::string& key : *keys) {
				if (!alone_) fmt::print("{}:{}: ", name_, number);
				fmt::print("{}\n", key);
			}
		}
	}

	// Prints events as they come, until the program is interrupted.
	async::Task<void> print_events(std::size_t number, const kv::Command& command) {
		const bool of_key = command.kind == kv::Command::Kind::watch;
		kv::Watch watch(*router_, command.key, of_key ? kv::Scope::key : kv::Scope::prefix);
		while (true) {
			const auto event = co_await watch.next();
			if (!event) break;
			if (!alone_) fmt::print("{}:{}: ", name_, number);
			if (event->kind == kv::EventKind::look_again) fmt::print("{}\n", kv::word_of(event->kind));
			else fmt::print("{} {} {}\n", kv::word_of(event->kind), event->version, event->key);
			std::fflush(stdout);
		}
		complain(number, kv::sentence_of(*watch.error()));
	}

	// Prints the facts of each server, with its name before them.
	async::Task<void> print_info(std::size_t number) {
		// The list may change meanwhile.
		const std::vector<std::string> servers = router_->servers();
		for (const std::string& server : servers) {
			auto text = co_await router_->info(server);
			if (text) fmt::print("server: {}\n{}", server, kv::text_of(text->bytes()));
			else complain(number, fmt::format("{}: {}", server, kv::sentence_of(text.error())));
		}
	}

	// Waits until at most `most` SETs are under way.
	async::Task<void> all_set(std::size_t most) {
		while (under_way_ > most) co_await async::Park(waiting_);
	}

	async::Task<void> set(async::Loop& loop, std::size_t number, kv::Command command) {
		const kv::Bytes value = kv::bytes_of(std::string_view(command.value));
		kv::Call call = router_->set(command.key, value, {.ttl_ms = command.ttl_ms});
		const auto done = co_await call;
		if (!done) complain(number, command.key, done.error());
		setting_.erase(command.key);
		--under_way_;
		loop.resume_soon(waiting_);
	}

	// An operation on this key has failed.
	void complain(std::size_t number, std::string_view key, kv::Error error) {
		const bool late = error == kv::Error::unavailable || error == kv::Error::timeout;
		const std::string reason = late || error == kv::Error::lost ? router_->reason(key) : std::string();
		complain(number, std::string(kv::sentence_of(error)) + (reason.empty() ? "" : ": ") + reason);
		unreachable_ = unreachable_ || late;
	}

	// Whether the lines have ended by an error.
	bool complain_of(const tools::LineReader& lines) {
		if (lines.error() == 0) return false;
		++failures_;
		std::fflush(stdout);
		tools::print_error("kv_client: cannot read {}: {}\n", shown_name(), std::strerror(lines.error()));
		return true;
	}

	std::string shown_name() const { return name_ == "-" ? "standard input" : name_; }

	// Counts a failure and prints it; `number` is the line, or 0 for the whole file.
	void complain(std::size_t number, std::string_view what) {
		++failures_;
		std::fflush(stdout);
		if (number == 0) tools::print_error("kv_client: {}: {}\n", name_, what);
		else tools::print_error("kv_client: {}:{}: {}\n", shown_name(), number, what);
	}

	void print_stats() const {
		const kv::ClientCounters counters = router_->counters();
		tools::print_error(
			"kv_client: {}: {} operations, {} messages, {} eager, {} read, {} written, {} leased, {} one-sided, {} "
			"under way at most\n",
			name_, counters.operations, counters.records_sent + counters.records_received, counters.eager,
			counters.reads, counters.writes, counters.leased, counters.one_sided, counters.under_way_max);
	}

	const Options& options_;
	std::string name_;
	bool alone_;
	std::unique_ptr<kv::Router> router_;
	std::size_t failures_ = 0, under_way_ = 0;
	bool unreachable_ = false;  // an operation waited for its server until its deadline
	std::unordered_set<std::string> setting_;
	async::List<async::Waiter> waiting_;
};

// Returns once all servers of the list listen, or once the etcd prefix has a member, or when the
// time is over. A name that cannot be resolved is left to Session::open(), which reports it.
void wait_for_servers(const std::string& servers, const discovery::EtcdAccess& etcd, double seconds) {
	if (seconds == 0) return;
	using Clock = std::chrono::steady_clock;
	const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
	const auto wait_for = [&](const std::string& host, std::uint16_t port) {
		const std::chrono::duration<double> left = deadline - Clock::now();
		if (const auto address = async::resolve(host, port)) tools::wait_for_listener(*address, left.count());
	};
	if (!discovery::is_etcd(servers)) {
		for (const std::string_view each : split(servers)) wait_for(std::string(each), kv::port_default);
		return;
	}
	const auto prefix = discovery::read_etcd(servers, etcd, discovery::etcd_environment());
	if (!prefix) return;
	// libcurl's ports, for a URL without one. One member of etcd is enough, but the others soon
	// listen, too.
	for (const std::string& url : prefix->urls)
		wait_for(url.substr(url.rfind('/') + 1), url.starts_with("https") ? 443 : 80);
	const auto members = discovery::Members::watch(*prefix);
	while (members && (*members)->list().empty() && Clock::now() < deadline)
		std::this_thread::sleep_for(tools::pause_between_attempts);
}

int run(Options options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return fail(trust.error(), 2);
	auto protection = channel::make_client_protection(*trust);
	if (!protection) return fail(protection.error());

	kv::ClientOptions client{.protocol = options.proto == "eager" ? kv::Protocol::eager
			: options.proto == "rndv"                             ? kv::Protocol::rendezvous
																  : kv::Protocol::automatic,
		.form = options.rndv == "write" ? kv::Form::write : kv::Form::read,
		.one_sided = options.one_sided};
	options.how.timeout = options.timeout_ms == 0 ? never : Nanoseconds{options.timeout_ms} * 1'000'000;
	if (!options.eager_max.empty())
		client.eager_max = options.settings.eager_max = static_cast<std::uint32_t>(*parse_size(options.eager_max));
	if (const std::string mistake = tools::mistake_in_servers(options.server); !mistake.empty())
		return fail(mistake, 2);
	wait_for_servers(options.server, options.etcd, options.wait_s);
	auto session = kv::Session::open({.host = options.server,
		.etcd = options.etcd,
		.port = kv::port_default,
		.protection = std::move(*protection),
		.device = options.device,
		.tcp = options.transport == "tcp",
		.settings = options.settings});
	if (!session) return fail(session.error());

	if (options.files.empty()) options.files.push_back("-");
	std::deque<Script> scripts;
	for (const std::string& file : options.files) scripts.emplace_back(options, file, options.files.size() == 1);
	std::size_t left = scripts.size();
	for (Script& script : scripts) (*session)->loop().spawn(script.run(**session, client, left));
	(*session)->loop().run_until([&] { return left == 0; });
	std::fflush(stdout);
	std::size_t failures = 0;
	for (const Script& script : scripts) failures += script.failures();
	return failures == 0 ? 0 : 1;
}

}  // namespace

static int act(int argc, char** argv) {
	verbena::tools::list_loopback_device();
	Options options;
	tools::CommandLine app(
		"kv_client", "Executes SET, GET, DEL, SETEX, GETV, CAS, SCAN, WATCH, PWATCH and INFO lines at a kv_server.");
	app.footer(
		"Examples:\n  printf 'SET key value\\nGET key\\n' | kv_client 127.0.0.1\n  kv_client 10.0.0.1:7472 Client1.txt "
		"Client2.txt\n"
		"  kv_client 10.0.0.1,10.0.0.2,10.0.0.3 commands.txt\n  kv_client etcd://127.0.0.1:2379/kv commands.txt\n"
		"  kv_client 10.0.0.1 --proto rndv --rndv write commands.txt\n"
		"A value is the rest of its line. A GET prints the value, or an empty line if there is no such key. SETEX key "
		"10s value\n"
		"sets a key for this time (ms, s, m, h, d); afterwards it is missing. GETV key prints the version before the "
		"value.\n"
		"CAS key version value and DEL key version change a key that has this version (0: is "
		"missing);\n"
		"CAS prints the new one. SCAN prints all keys, SCAN prefix those that begin with it, each at least once.\n"
		"WATCH key prints what happens to a key, until it is interrupted: set, deleted, expired or evicted, with the\n"
		"version and the key. It prints look-again once at the start, and when events may have been missed: get or "
		"scan\n"
		"the keys then, to see what has changed. PWATCH prefix does so for all keys that begin with it. INFO prints "
		"facts\n"
		"of each server: keys, memory, requests and more. A line that fails is reported with its number, and the next\n"
		"ones are executed.\n"
		"Exit codes: 0 success, 1 a line failed or the server is not reachable, 2 wrong usage.");
	app.add_option("server", options.server,
		   "HOST[:PORT] of a kv_server, a comma-separated list of servers that share the keys, or "
		   "etcd://HOST:2379/PREFIX (etcds:// with TLS)")
		->required();
	app.add_option("files", options.files, "Files of lines, each for a client of its own (default: standard input)")
		->type_name("FILE");
	app.add_option("--proto", options.proto, "Way in which values travel")
		->capture_default_str()
		->check(CLI::IsMember({"auto", "eager", "rndv"}));
	app.add_option(
		   "--rndv", options.rndv, "With SET by rendezvous: the server reads the value, or the client writes it")
		->capture_default_str()
		->check(CLI::IsMember({"read", "write"}));
	app.add_option("--eager-max", options.eager_max, "Use this limit for this connection instead of the server's")
		->check(tools::size_between(0, kv::value_max));
	app.add_option("--outstanding", options.outstanding, "SETs of a client under way at once")
		->capture_default_str()
		->check(CLI::Range(1u, 4096u));
	app.add_option("--transport", options.transport, "Transport of the messages")
		->capture_default_str()
		->check(CLI::IsMember({"rdma", "tcp"}));
	tools::add_device_option(app, options.device);
	tools::add_wait_option(app, options.wait_s);
	app.add_option("--timeout-ms", options.timeout_ms,
		   "Milliseconds after which an operation without an answer fails; 0: no limit")
		->capture_default_str()
		->check(CLI::Range(0u, 86'400'000u));
	app.add_flag("--one-sided", options.one_sided,
		"GET values that the server publishes by RDMA READ alone (kv_server --one-sided)");
	app.add_flag("--stats", options.stats, "Print what each client did on standard error");
	tools::add_trust(app, options.trust);
	tools::add_etcd(app, options.etcd);
	if (const auto code = app.read(argc, argv)) return *code;
	return run(std::move(options));
}

int main(int argc, char** argv) { return verbena::tools::run_program("kv_client", act, argc, argv); }
