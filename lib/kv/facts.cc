// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/facts.h"

#include <array>
#include <concepts>

namespace verbena::kv {
namespace {

class Lines {
public:
	void add(std::string_view name, std::string_view value) {
		text_.append(name).append(": ").append(value).append("\n");
	}
	void add(std::string_view name, std::unsigned_integral auto value) { add(name, std::to_string(value)); }
	std::string take() { return std::move(text_); }

private:
	std::string text_;
};

std::string hexadecimal(std::uint64_t number) {
	constexpr std::string_view digits = "0123456789abcdef";
	std::string text(16, '0');
	for (std::size_t i = 0; i < text.size(); ++i) text[i] = digits[number >> (60 - 4 * i) & 15];
	return text;
}

std::string names_of(std::uint64_t features) {
	std::string names;
	for (const auto& [bit, name] : feature_names)
		if ((features & bit) != 0) names.append(names.empty() ? "" : " ").append(name);
	return names;
}

void add_requests(Lines& lines, const RequestMeter& meter) {
	for (std::size_t kind = 0; kind < request_kinds; ++kind)
		for (std::size_t result = 0; result < RequestMeter::results; ++result)
			if (const std::uint64_t count = meter.counts[kind][result]; count > 0)
				lines.add(std::string("requests_")
							  .append(word_of(static_cast<RequestKind>(kind)))
							  .append("_")
							  .append(word_of(static_cast<Status>(result))),
					count);
}

void add_memory(Lines& lines, const Facts& facts) {
	lines.add("memory_budget_bytes", facts.memory_budget);
	lines.add("memory_counted_bytes", facts.memory_counted);
	lines.add("memory_values_bytes", facts.memory.values);
	lines.add("memory_free_bytes", facts.memory.free);
	lines.add("memory_table_bytes", facts.memory.table);
	lines.add("memory_sessions_bytes", facts.memory.sessions);
	lines.add("memory_watches_bytes", facts.memory.watches);
	lines.add("memory_published_bytes", facts.memory.published);
	lines.add("memory_receive_bytes", facts.memory.receive);
	lines.add("memory_messages_bytes", facts.memory.messages);
}

void add_journal(Lines& lines, const Facts& facts) {
	lines.add("durable", facts.durable ? "yes" : "no");
	if (!facts.durable) return;
	lines.add("journal_commits", facts.commits.durations.count());
	lines.add("journal_commits_failed", facts.commits.failed);
	lines.add("journal_changes", facts.commits.changes);
	lines.add("journal_waiting_changes", facts.waiting);
	lines.add("journal_waiting_bytes", facts.waiting_bytes);
	lines.add("journal_bad_records", facts.bad_records);
	lines.add("journal_works", facts.journal_failure.empty() ? "yes" : "no");
}

void add_member(Lines& lines, const std::optional<MemberFacts>& member) {
	lines.add("cluster_member", member ? "yes" : "no");
	if (!member) return;
	lines.add("cluster_is_a_cache", "yes");
	lines.add("cluster_may_answer", member->valid ? "yes" : "no");
	lines.add("cluster_slots", member->slots);
	lines.add("cluster_slots_waiting", member->slots_waiting);
	lines.add("cluster_looks", member->looks);
	lines.add("cluster_lapses", member->lapses);
	lines.add("cluster_keys_dropped", member->dropped);
}

}  // namespace

std::string text_of(const Facts& facts) {
	Lines lines;
	if (!facts.version.empty()) lines.add("version", facts.version);
	lines.add("protocol", protocol_version);
	lines.add("features", names_of(facts.features));
	lines.add("identity", hexadecimal(facts.identity));
	lines.add("uptime_s", facts.uptime / 1'000'000'000);
	lines.add("clients", facts.clients);
	lines.add("clients_peak", facts.clients_peak);
	lines.add("clients_failed", facts.clients_failed);
	lines.add("sessions", facts.sessions);
	lines.add("leases", facts.leases);
	lines.add("keys", facts.keys);
	add_memory(lines, facts);
	lines.add("requests", facts.server.requests);
	add_requests(lines, facts.server.meter);
	lines.add("lookups", facts.store.gets);
	lines.add("lookups_hit", facts.store.hits);
	lines.add("keys_evicted", facts.store.evicted);
	lines.add("keys_expired", facts.store.expired);
	lines.add("sets_eager", facts.server.eager_sets);
	lines.add("sets_read", facts.server.read_sets);
	lines.add("sets_written", facts.server.written_sets);
	lines.add("gets_eager", facts.server.eager_gets);
	lines.add("gets_leased", facts.server.leased_gets);
	lines.add("leases_expired", facts.server.leases_expired + facts.server.places_expired);
	lines.add("retries_answered", facts.repeated);
	lines.add("protocol_breaches", facts.server.malformed);
	lines.add("published_keys", facts.index.published);
	lines.add("watches", facts.watches);
	lines.add("events", facts.watched.events);
	lines.add("watches_lapsed", facts.watched.lapses);
	add_member(lines, facts.member);
	add_journal(lines, facts);
	return lines.take();
}

}  // namespace verbena::kv
