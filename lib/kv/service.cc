// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service.h"

#include <algorithm>
#include <chrono>

#include "base/boot_time.h"
#include "base/random.h"
#include "lib/kv/fault_report.h"
#include "lib/kv/placement.h"
#include "lib/kv/wall_clock.h"
#include "lib/verbs/local_device.h"

namespace verbena::kv {
namespace {

using async::Task;

constexpr Nanoseconds drain_patience = 1'500'000'000, answers_patience = 500'000'000, report_interval = 1'000'000'000;

// A client that is being served. It is linked in Service::open_, so that stop() can close it.
struct Served : async::Linked {
	explicit Served(Connection& of) : connection(of) {}
	Connection& connection;
};

channel::RcOptions further_rc_options(const ServiceOptions& options) {
	Settings settings = options.settings;
	settings.one_sided = 0;
	return server_rc_options(settings, options.server.value_max);
}

}  // namespace

Service::Service(ServiceOptions options)
	: options_(std::move(options)),
	  setup_({.spin = 0}),
	  io_({.spin = options_.spin}),
	  transports_(io_, server_rc_options(options_.settings, options_.server.value_max), further_rc_options(options_)) {}

Service::~Service() {
	io_.stop();
	if (thread_.joinable()) thread_.join();
	setup_.abandon_spawned();
	io_.abandon_spawned();
	// Their requests may use values of the store.
	for (const auto& transport : transports_.all()) transport->abandon_draining();
}

channel::AcceptorOptions acceptor_options(const ServiceOptions& options) {
	// Answers that a client does not read are kept in its outbox, which the budget counts.
	channel::TcpOptions tcp = tcp_options();
	tcp.buffer_max = 64 << 10;
	return {.protection = options.protection, .clients_max = options.settings.connections_max, .tcp = tcp};
}

channel::Described describe(const ServiceOptions& options) {
	const auto text = [](std::uint64_t number) { return std::to_string(number); };
	channel::Described all{{"memory", text(options.settings.memory)}, {"one_sided", text(options.settings.one_sided)},
		{"value_max", text(options.server.value_max)}, {"requests_max", text(options.server.requests_max)},
		{"rendezvous_max", text(options.server.rendezvous_max)}, {"lease_ms", text(options.server.lease_ms)},
		{"clients_max", text(options.settings.connections_max)}};
	for (auto& each : channel::describe(acceptor_options(options))) all.push_back(std::move(each));
	for (auto& each : channel::describe(server_rc_options(options.settings, options.server.value_max)))
		all.push_back(std::move(each));
	return all;
}

std::expected<void, std::string> Service::start() {
	const Settings& settings = options_.settings;
	if (options_.evict && !options_.data.empty()) return std::unexpected("a cache that evicts keeps no journal");
	if (options_.join && (!options_.data.empty() || settings.one_sided > 0))
		return std::unexpected("a member of a cluster has neither a journal nor one-sided GETs");
	started_ = monotonic_now();
	counters_.meter.timed = options_.timed;
	if (options_.wish.device.empty()) options_.wish.device = lib::device_at(options_.where.get());
	if (auto opened = transports_.open(options_.wish); !opened) return opened;
	if (const std::size_t needed = message_bytes_beyond_free() + Budget::memory_min; needed > settings.memory)
		return std::unexpected("the receive buffers alone need " + std::to_string(needed) +
			" bytes of --memory; give more memory, or a smaller --rx-depth");
	options_.server.message_max = records_max(settings.eager_max);
	store_ = std::make_unique<Store>(StoreOptions{.memory_max = settings.memory,
										 .index_bytes = settings.one_sided,
										 .window = options_.data.empty() ? 1 : Changes::waiting_max,
										 .evict = options_.evict},
		&transports_.first().memory());
	watches_ = std::make_unique<Watches>(io_, *store_);
	store_->announce(io_.now());
	store_->charge(message_bytes_beyond_free());
	if (settings.one_sided > 0 && store_->index() == nullptr)
		return std::unexpected("there is not enough memory for --one-sided; use a smaller size");
	// The versions of a store without a past follow the time, in nanoseconds. So they are above
	// those of an earlier store of this name, unless the clock was set back.
	store_->begin_versions(options_.data.empty() ? wall_now() : 0);
	if (options_.data.empty()) sessions_ = std::make_unique<Sessions>(secure_random<std::uint64_t>() | 1);
	else if (auto opened = open_journal(); !opened) return opened;
	if (options_.join) member_ = std::make_unique<Member>(*store_, options_.join_lease_s);
	changes_ = std::make_unique<Changes>(io_, *store_, *sessions_, session_journal_.get(), member_.get());
	auto listener = async::listen(setup_, options_.where);
	if (!listener) return std::unexpected(listener.error());
	const channel::AcceptorOptions accepting = acceptor_options(options_);
	std::vector<channel::Acceptor::Home> homes;
	homes.push_back({.loop = &io_,
		.transport = &transports_.first(),
		.deliver = [this](std::unique_ptr<channel::Channel> channel) { io_.spawn(serve(std::move(channel))); },
		.transport_at = transports_.by_address(
			options_.where, options_.wish,
			[this](channel::RcTransport& further) { return store_->share(further.memory()); }, options_.complain)});
	acceptor_ = std::make_unique<channel::Acceptor>(
		setup_, std::move(*listener), std::move(homes), accepting, options_.complain);
	acceptor_->start();
	pulse_ = std::make_unique<Pulse>(io_, [this] { store_->announce(io_.now()); }, [this] { return next_work(); });
	pulse_->begin();
	io_.spawn(keep_counts());
	io_.spawn(end_lives());
	// Join last: clients connect as soon as they see the name, so the port must be open.
	return options_.join ? join() : std::expected<void, std::string>();
}

std::expected<void, std::string> Service::join() {
	auto name = server_name(options_.name, port());
	if (!name) return std::unexpected(name.error());
	options_.name = std::move(*name);
	member_->begin(options_.name);
	io_.spawn(drop_lost_keys());
	auto joined = discovery::Registration::make(
		*options_.join, options_.name, options_.join_lease_s,
		[this](discovery::Look look) {
			io_.post([this, look = std::move(look)] { member_->handle_look(look, boot_now()); });
		},
		options_.complain);
	if (!joined) return std::unexpected(joined.error());
	registration_ = std::move(*joined);
	return {};
}

// The area for one-sided GETs, which is memory of the transport's pool.
std::size_t Service::published_bytes() const {
	return store_ && store_->index() != nullptr ? channel::MemoryPool::block_size(store_->index()->area().length) : 0;
}

// The bytes of receive buffers, arriving messages and unsent answers that count in the budget. The
// area for one-sided GETs does not.
std::size_t Service::message_bytes_beyond_free() const {
	return Budget::beyond_free(
		transports_.receive_bytes() + transports_.registered_bytes() - published_bytes() + counters_.unsent.bytes);
}

Facts Service::facts() const {
	const Arena& arena = store_->arena();
	Facts facts{.version = options_.version,
		.identity = sessions_->identity(),
		.features = feature_info | server_features | (member_ ? feature_cluster : 0),
		.uptime = monotonic_now() - started_,
		.clients = counts_.clients.load(std::memory_order_relaxed),
		.clients_peak = counts_.clients_peak.load(std::memory_order_relaxed),
		.clients_failed = clients_failed_,
		.sessions = sessions_->size(),
		.leases = transports_.leases(),
		.keys = store_->size(),
		.memory_budget = options_.settings.memory,
		.memory_counted = store_->used() + store_->overhead(),
		.memory = {.values = store_->used(),
			.free = arena.reserved() - std::min(arena.reserved(), store_->used()),
			.table = store_->table_bytes(),
			.sessions = sessions_->bytes(),
			.watches = watches_->bytes(),
			.published = published_bytes(),
			.receive = transports_.receive_bytes(),
			.messages = transports_.registered_bytes() - published_bytes()},
		.server = counters_,
		.store = store_->counters(),
		.watches = watches_->size(),
		.watched = watches_->counters(),
		.index = store_->index() != nullptr ? store_->index()->counters() : IndexCounters{},
		.repeated = changes_->repeated(),
		.durable = journal_ != nullptr,
		.bad_records = bad_records_,
		.waiting = store_->window().size(),
		.waiting_bytes = store_->waiting_bytes(),
		.commits = changes_->commits()};
	if (journal_) facts.journal_failure = journal_->failure();
	if (member_) facts.member = member_->facts();
	return facts;
}

std::expected<void, std::string> Service::open_journal() {
	// LMDB's file also holds old pages until no transaction uses them, and unused parts of pages.
	constexpr std::size_t times = 4, bytes_min = std::size_t{1} << 30;
	const FaultReport report(options_.data + " is damaged, and LMDB cannot read it; restore the folder from a copy");
	Salvage salvaged;
	auto opened = LmdbJournal::open(options_.data, std::max(options_.settings.memory * times, bytes_min), wall_now(),
		options_.salvage ? &salvaged : nullptr);
	if (!opened) return std::unexpected(opened.error());
	journal_ = std::move(*opened);
	bad_records_ = salvaged.losses.size();
	for (const std::string& loss : salvaged.losses) options_.complain(options_.data + ": " + loss);
	if (!salvaged.fault.empty()) options_.complain(options_.data + "/data.mdb was damaged at " + salvaged.fault);
	if (!salvaged.kept.empty())
		options_.complain(options_.data + ": " + (salvaged.losses.empty() ? "all records were read; " : "") +
			"the damaged file is kept as " + salvaged.kept);
	bool fits = true;
	const auto read = journal_->read_all([&](std::string_view key, Bytes value, const Stamp& stamp) {
		return fits = store_->restore(key, value, stamp.version, monotonic_time_of(stamp.expires, monotonic_now()));
	});
	if (!read) return read;
	if (!fits) return std::unexpected("the content of " + options_.data + " needs more than --memory; raise it");
	auto restored = SessionJournal::read(*journal_, io_.now(), options_.salvage);
	if (!restored) return std::unexpected(options_.data + ": " + restored.error());
	sessions_ = std::move(restored->sessions);
	bad_records_ += restored->dropped;
	if (restored->dropped > 0)
		options_.complain(options_.data + ": " + std::to_string(restored->dropped) +
			" records of clients' changes are damaged; these clients do not repeat unanswered changes");
	session_journal_ = std::make_unique<SessionJournal>(*journal_, *sessions_);
	store_->begin_versions(journal_->last_version());
	return {};
}

channel::Path Service::path() const {
	const lib::OpenDevice& device = transports_.first().device();
	return {.transport = "rc",
		.device = device.choice.device,
		.gid = lib::format_gid(device.choice.gid),
		.mtu = device.mtu_bytes(),
		.peer = {}};
}

void Service::run() {
	thread_ = std::jthread([this] { io_.run(); });
	setup_.run();
	registration_.reset();
	acceptor_->stop();
	io_.post([this] { io_.spawn(close_all()); });
	thread_.join();
}

Task<void> Service::serve(std::unique_ptr<channel::Channel> channel) {
	Connection connection(
		*store_, *changes_, *sessions_, std::move(channel), options_.server, counters_, *watches_, this, pulse_.get());
	Served served(connection);
	open_.push_back(served);
	pulse_->quicken();
	const std::uint64_t now = counts_.clients.fetch_add(1, std::memory_order_relaxed) + 1;
	if (counts_.clients_peak.load(std::memory_order_relaxed) < now)
		counts_.clients_peak.store(now, std::memory_order_relaxed);
	const std::string why = co_await connection.serve();
	if (!why.empty()) {
		++clients_failed_;
		options_.complain(why);
	}
	counts_.clients.fetch_sub(1, std::memory_order_relaxed);
}

Task<void> Service::keep_counts() {
	while (true) {
		counts_.requests.store(counters_.requests, std::memory_order_relaxed);
		counts_.keys.store(store_->size(), std::memory_order_relaxed);
		counts_.used_bytes.store(store_->used(), std::memory_order_relaxed);
		if (journal_) report_journal();
		if (member_) member_->handle_time(boot_now());
		sessions_->expire(io_.now());
		store_->charge(message_bytes_beyond_free() + sessions_->bytes() + watches_->bytes());
		counts_.registrations.store(transports_.registrations(), std::memory_order_relaxed);
		co_await async::Park(pulse_->beats());
	}
}

// The time at which there is work without a request: an end of life, and all the time for a member,
// whose right to answer depends on the time.
Nanoseconds Service::next_work() const { return member_ ? 0 : store_->next_end(); }

// When many lives end at once, some end in each turn, and the clients are served between them.
Task<void> Service::end_lives() {
	while (true) {
		if (changes_->expire()) co_await async::NextTurn(io_);
		else co_await async::Park(pulse_->beats());
	}
}

// The clients are served between the steps of a walk.
Task<void> Service::drop_lost_keys() {
	while (true) {
		if (member_->drop_some()) co_await async::NextTurn(io_);
		else co_await async::Park(pulse_->beats());
	}
}

// Reports a failure of the disk once, and once that it works again; not more than once a second.
void Service::report_journal() {
	const bool fails = !journal_->failure().empty();
	if (fails == disk_fails_ || io_.now() < next_report_) return;
	disk_fails_ = fails;
	next_report_ = io_.now() + report_interval;
	options_.complain(fails ? "changes are refused, because they cannot be written to the disk: " + journal_->failure()
							: "changes can be written to the disk again");
}

Task<void> Service::close_all() {
	const Nanoseconds begin = monotonic_now(), deadline = begin + drain_patience;
	const auto for_each = [this](auto&& act) {
		async::List<async::Linked> seen;
		while (async::Linked* const each = open_.pop_front()) {
			act(static_cast<Served*>(each)->connection);
			seen.push_back(*each);
		}
		open_.splice(seen);
	};
	for_each([](Connection& connection) { connection.stop(); });
	// The answers leave first, unless a client does not receive them.
	for (bool answering = true; answering && monotonic_now() < begin + answers_patience;) {
		co_await io_.sleep_for(1'000'000);
		answering = false;
		for_each([&](Connection& connection) { answering = answering || connection.answering(); });
	}
	for_each([](Connection& connection) { connection.channel().close(); });
	while (counts_.clients.load(std::memory_order_relaxed) > 0 && monotonic_now() < deadline)
		co_await io_.sleep_for(1'000'000);
	io_.stop();
}

}  // namespace verbena::kv
