// SPDX-License-Identifier: Apache-2.0
#include "tools/kv_metrics.h"

#include <initializer_list>

#include "lib/metrics/channel_families.h"

namespace verbena::tools {
namespace {

using metrics::counter;
using metrics::Families;
using metrics::Family;
using metrics::gauge;
using metrics::Kind;
using metrics::Labels;

constexpr std::chrono::milliseconds health_patience(1000);

double number(std::uint64_t value) { return static_cast<double>(value); }

void append(Families& to, Families from) {
	for (Family& each : from) to.push_back(std::move(each));
}

// A family with a sample for each value of a label.
Family by(std::string name, std::string help, Kind kind, const char* label,
	std::initializer_list<std::pair<const char*, std::uint64_t>> values) {
	Family family{.name = std::move(name), .help = std::move(help), .kind = kind, .samples = {}};
	for (const auto& [word, value] : values)
		family.samples.push_back({.labels = {{label, word}}, .value = number(value), .distribution = {}});
	return family;
}

// A kind of request has a sample for each result that has occurred, and for the result `good`. So
// a rate of it begins at 0.
Families request_families(const kv::RequestMeter& meter) {
	Family requests{.name = "verbena_kv_requests_total",
		.help = "Requests that were answered, by kind and result",
		.kind = Kind::counter,
		.samples = {}};
	Family durations{.name = "verbena_kv_request_seconds",
		.help = "From the arrival of a request to its answer",
		.kind = Kind::histogram,
		.samples = {}};
	for (std::size_t i = 0; i < kv::request_kinds; ++i) {
		const auto kind = static_cast<kv::RequestKind>(i);
		if (kind == kv::RequestKind::none) continue;
		const std::string word(kv::word_of(kind));
		for (std::size_t j = 0; j < kv::RequestMeter::results; ++j) {
			const auto result = static_cast<kv::Status>(j);
			const std::uint64_t count = meter.count_of(kind, result);
			if (count > 0 || result == kv::Status::good)
				requests.samples.push_back({.labels = {{"kind", word}, {"result", std::string(kv::word_of(result))}},
					.value = number(count),
					.distribution = {}});
		}
		durations.samples.push_back(
			{.labels = {{"kind", word}}, .value = 0, .distribution = metrics::distribution_of(meter.durations[i])});
	}
	return {std::move(requests), std::move(durations)};
}

Families memory_families(const kv::Facts& facts) {
	const kv::MemoryUse& use = facts.memory;
	return {
		by("verbena_kv_memory_bytes", "Memory of the server, by use", Kind::gauge, "use",
			{{"values", use.values}, {"free", use.free}, {"table", use.table}, {"sessions", use.sessions},
				{"watches", use.watches}, {"published", use.published}, {"receive", use.receive},
				{"messages", use.messages}}),
		gauge("verbena_kv_memory_budget_bytes", "The budget, --memory", number(facts.memory_budget)),
		gauge("verbena_kv_memory_counted_bytes", "Memory that counts in the budget", number(facts.memory_counted)),
	};
}

Families store_families(const kv::Facts& facts) {
	const kv::StoreCounters& store = facts.store;
	return {
		gauge("verbena_kv_keys", "Keys that are stored", number(facts.keys)),
		by("verbena_kv_lookups_total", "GETs by whether the key was there", Kind::counter, "result",
			{{"hit", store.hits}, {"miss", store.gets - store.hits}}),
		by("verbena_kv_changes_total", "Changes of the store that became visible", Kind::counter, "kind",
			{{"set", store.sets}, {"del", store.removes}}),
		counter("verbena_kv_refused_total", "New versions and watches for which there was no memory",
			number(store.refused)),
		by("verbena_kv_keys_removed_total", "Keys that the server removed itself", Kind::counter, "cause",
			{{"evicted", store.evicted}, {"expired", store.expired}}),
		by("verbena_kv_published_total", "Keys in the area for one-sided GETs", Kind::counter, "event",
			{{"published", facts.index.published}, {"withdrawn", facts.index.withdrawn},
				{"evicted", facts.index.evicted}}),
	};
}

Families journal_families(const kv::Facts& facts) {
	if (!facts.durable) return {};
	const kv::CommitCounters& commits = facts.commits;
	const std::uint64_t all = commits.durations.count();
	return {
		by("verbena_kv_journal_commits_total", "Transactions of the journal", Kind::counter, "result",
			{{"good", all - commits.failed}, {"failed", commits.failed}}),
		metrics::histogram("verbena_kv_journal_commit_seconds", "Duration of a transaction", commits.durations),
		counter("verbena_kv_journal_changes_total", "Changes that the journal has written", number(commits.changes)),
		gauge("verbena_kv_journal_waiting_changes", "Changes that are not written yet", number(facts.waiting)),
		gauge("verbena_kv_journal_waiting_bytes", "Bytes of the keys and values of these", number(facts.waiting_bytes)),
		gauge("verbena_kv_journal_bad_records", "Records that --salvage dropped when the server started",
			number(facts.bad_records)),
		gauge(
			"verbena_kv_journal_works", "1 unless the last transaction failed", facts.journal_failure.empty() ? 1 : 0),
	};
}

Families member_families(const kv::Facts& facts) {
	if (!facts.member) return {};
	const kv::MemberFacts& member = *facts.member;
	return {
		by("verbena_kv_cluster_slots", "Slots of this member of a cluster", Kind::gauge, "state",
			{{"owned", member.slots}, {"waiting", member.slots_waiting}}),
		gauge("verbena_kv_cluster_may_answer", "1 unless the last look at etcd was too long ago", member.valid ? 1 : 0),
		counter("verbena_kv_cluster_looks_total", "Looks at the members that etcd has answered", number(member.looks)),
		counter("verbena_kv_cluster_lapses_total", "Times that all keys were lost because etcd was not reached",
			number(member.lapses)),
		counter(
			"verbena_kv_cluster_keys_dropped_total", "Keys of slots that this member has lost", number(member.dropped)),
	};
}

Families client_families(const kv::Facts& facts) {
	const kv::ServerCounters& server = facts.server;
	return {
		gauge("verbena_kv_clients", "Clients that are connected", number(facts.clients)),
		gauge("verbena_kv_clients_peak", "The most clients at once", number(facts.clients_peak)),
		counter("verbena_kv_clients_failed_total", "Clients whose connection broke", number(facts.clients_failed)),
		counter("verbena_kv_protocol_breaches_total", "Clients that were disconnected for a breach of the protocol",
			number(server.malformed)),
		gauge("verbena_kv_sessions", "Clients that are remembered, connected or not", number(facts.sessions)),
		counter("verbena_kv_retries_answered_total", "Changes that arrived again and were answered from a session",
			number(facts.repeated)),
		by("verbena_kv_sets_total", "SETs by the way of the value", Kind::counter, "way",
			{{"eager", server.eager_sets}, {"read", server.read_sets}, {"written", server.written_sets}}),
		by("verbena_kv_gets_total", "GETs by the way of the value", Kind::counter, "way",
			{{"eager", server.eager_gets}, {"leased", server.leased_gets}}),
		gauge("verbena_kv_watches", "Keys and prefixes that clients watch", number(facts.watches)),
		counter("verbena_kv_events_total", "Events that were sent to watchers", number(facts.watched.events)),
		counter("verbena_kv_watches_lapsed_total", "Times that a watch lost events because its client did not read",
			number(facts.watched.lapses)),
		gauge("verbena_kv_leases", "Leases that clients hold", number(facts.leases)),
		by("verbena_kv_leases_expired_total", "Leases that ended because the client was silent", Kind::counter, "right",
			{{"read", server.leases_expired}, {"write", server.places_expired}}),
	};
}

}  // namespace

Families families_of(const kv::Facts& facts) {
	Families all{
		gauge("verbena_kv_info", "The version of the server", 1, {{"version", facts.version}}),
		gauge("verbena_kv_uptime_seconds", "Time since the server started", number(facts.uptime) / 1e9),
	};
	append(all, request_families(facts.server.meter));
	append(all, client_families(facts));
	append(all, store_families(facts));
	append(all, memory_families(facts));
	append(all, member_families(facts));
	append(all, journal_families(facts));
	return all;
}

Families KvMetrics::families() {
	// After run() the loops no longer run, and their state no longer changes: read it directly.
	const auto read_on = [this](async::Loop& loop, auto read) -> std::optional<Families> {
		return ended_.load(std::memory_order_acquire) ? read() : metrics::on_loop(loop, read);
	};
	Families all;
	for (auto& part : {read_on(service_.serving_loop(),
						   [this] {
							   Families both = families_of(service_.facts());
							   append(both, metrics::transport_families(service_.transports()));
							   return both;
						   }),
			 read_on(service_.setup_loop(), [this] { return metrics::acceptor_families(service_.acceptor()); })})
		if (part) append(all, *part);
	append(all, metrics::process_families());
	return all;
}

metrics::Condition KvMetrics::health() {
	const auto failure =
		metrics::on_loop(service_.serving_loop(), [this] { return service_.facts().journal_failure; }, health_patience);
	if (!failure) return {.good = false, .text = "the server does not serve: its loop has not answered for a second"};
	return {.text = failure->empty() ? "good" : "good, but changes cannot be written to the disk: " + *failure};
}

}  // namespace verbena::tools
