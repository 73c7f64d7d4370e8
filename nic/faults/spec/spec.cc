// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/spec/spec.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/sizes.h"

namespace verbena::faults {
namespace {

using Address = std::array<std::uint8_t, 16>;

constexpr std::string_view names[] = {
	"loss", "dup", "reorder", "corrupt", "delay", "rate", "partition", "qp-error", "rnr", "seed", "peer", "qp"};

// Longer times and higher rates would not fit the arithmetic of nanoseconds.
constexpr double seconds_max = 86'400, bits_max = 1e12;

// The number at the beginning of `text`, which then has the rest. Nothing: there is none.
std::optional<double> take_number(std::string_view& text) {
	double number = 0;
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
	text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
	return number;
}

// The factor of the unit that the text is, or nothing.
template <std::size_t count>
std::optional<double> factor_of(std::string_view text, const std::pair<std::string_view, double> (&units)[count]) {
	const auto found = std::ranges::find(units, text, &std::pair<std::string_view, double>::first);
	return found == std::end(units) ? std::nullopt : std::optional(found->second);
}

std::optional<double> probability_of(std::string_view text) {
	static constexpr std::pair<std::string_view, double> units[] = {{"", 1}, {"%", 0.01}};
	const auto number = take_number(text);
	const auto factor = factor_of(text, units);
	if (!number || !factor || *number * *factor > 1) return std::nullopt;
	return *number * *factor;
}

std::optional<Nanoseconds> time_of(std::string_view text) {
	static constexpr std::pair<std::string_view, double> units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	const auto number = take_number(text);
	const auto factor = factor_of(text, units);
	if (!number || !factor || *number * *factor > seconds_max * 1e9) return std::nullopt;
	return static_cast<Nanoseconds>(std::llround(*number * *factor));
}

std::optional<std::uint64_t> rate_of(std::string_view text) {
	static constexpr std::pair<std::string_view, double> units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}};
	const auto number = take_number(text);
	const auto factor = factor_of(text, units);
	if (!number || !factor || *number * *factor < 1 || *number * *factor > bits_max) return std::nullopt;
	return static_cast<std::uint64_t>(*number * *factor);
}

template <class Number> std::optional<Number> number_of(std::string_view text) {
	Number number = 0;
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
	return number;
}

std::optional<Address> address_of(std::string_view text) {
	const std::string terminated(text);
	Address address{};
	if (inet_pton(AF_INET6, terminated.c_str(), address.data()) == 1) return address;
	in_addr ipv4;
	if (inet_pton(AF_INET, terminated.c_str(), &ipv4) != 1) return std::nullopt;
	address[10] = address[11] = 0xff;
	std::memcpy(&address[12], &ipv4, sizeof ipv4);
	return address;
}

// The text before and after `mark`; the second is null if there is no mark.
std::pair<std::string_view, std::optional<std::string_view>> halves(std::string_view text, std::string_view mark) {
	const std::size_t at = text.find(mark);
	if (at == text.npos) return {text, std::nullopt};
	return {text.substr(0, at), text.substr(at + mark.size())};
}

bool set_delay(Faults& faults, std::string_view text) {
	auto [delay, jitter] = halves(text, "±");
	if (!jitter) std::tie(delay, jitter) = halves(text, "+-");
	const auto whole = time_of(delay), part = jitter ? time_of(*jitter) : std::optional<Nanoseconds>(0);
	if (!whole || !part || *part > *whole) return false;
	faults.delay = *whole;
	faults.jitter = *part;
	return true;
}

bool set_partition(Faults& faults, std::string_view text) {
	const auto [from, to] = halves(text, "..");
	const auto begin = time_of(from);
	const auto end = to && to->empty() ? std::optional(never) : to ? time_of(*to) : std::nullopt;
	if (!begin || !end || *begin >= *end) return false;
	faults.partition = {*begin, *end};
	return true;
}

// The member that a fault with a probability sets, or null.
double* probability_in(Faults& faults, std::string_view name) {
	return name == "loss"    ? &faults.loss
		: name == "dup"      ? &faults.duplicate
		: name == "reorder"  ? &faults.reorder
		: name == "corrupt"  ? &faults.corrupt
		: name == "rnr"      ? &faults.not_ready
		: name == "qp-error" ? &faults.qp_error
							 : nullptr;
}

// Assigns the value if there is one, and returns an empty text; otherwise returns `reason`.
template <class To, class Value>
std::string_view assign(To& to, const std::optional<Value>& value, std::string_view reason) {
	if (!value) return reason;
	if constexpr (std::same_as<To, std::optional<Value>>) to = value;
	else to = *value;
	return {};
}

// Sets what a word says. Returns an empty text, or the reason for which it cannot.
std::string_view set(Spec& spec, Clause& clause, std::string_view name, std::string_view value) {
	if (double* const to = probability_in(clause.faults, name))
		return assign(*to, probability_of(value), "is no probability (examples: 1%, 0.01, 1e-6; at most 100%)");
	if (name == "delay")
		return set_delay(clause.faults, value) ? "" : "is no time (examples: 2ms, 50us, 2ms±1ms; at most a day)";
	if (name == "partition")
		return set_partition(clause.faults, value) ? "" : "is no span of time (examples: 10s..12s, 500ms..)";
	if (name == "rate")
		return assign(clause.faults.bits_per_second, rate_of(value), "is no rate (examples: 1G, 100M; bits a second)");
	if (name == "seed") return assign(spec.seed, number_of<std::uint64_t>(value), "is no number below 2^64");
	if (name == "peer") return assign(clause.peer, address_of(value), "is no IPv4 or IPv6 address");
	const auto number = number_of<std::uint32_t>(value);
	clause.queue_pair = number.value_or(0);
	return clause.queue_pair != 0 ? "" : "is no queue pair (1 is the first that the program creates)";
}

std::expected<void, Mistake> read_word(Spec& spec, Clause& clause, std::string_view word) {
	const auto [name, value] = halves(word, "=");
	if (std::ranges::find(names, name) == std::end(names))
		return std::unexpected(Mistake{std::string(name), "is no word of --faults", true});
	if (!value)
		return std::unexpected(Mistake{std::string(word), "needs a value, as in " + std::string(name) + "=..."});
	const std::string_view reason = set(spec, clause, name, *value);
	if (!reason.empty()) return std::unexpected(Mistake{std::string(word), std::string(reason)});
	return {};
}

}  // namespace

const Faults* Spec::find(const Address& peer, std::uint32_t queue_pair) const {
	const auto admits = [&](const Clause& clause) {
		return (!clause.peer || *clause.peer == peer) && (clause.queue_pair == 0 || clause.queue_pair == queue_pair);
	};
	const auto last = std::find_if(clauses.rbegin(), clauses.rend(), admits);
	return last == clauses.rend() ? nullptr : &last->faults;
}

std::expected<Spec, Mistake> parse(std::string_view text) {
	Spec spec;
	for (const std::string_view part : split(text, ';')) {
		Clause& clause = spec.clauses.emplace_back();
		for (const std::string_view word : split(part))
			if (auto read = read_word(spec, clause, word); !read) return std::unexpected(std::move(read.error()));
		// A clause that holds the seed alone, as `verbena run` appends one, admits no packet.
		if (part.starts_with("seed=") && !part.contains(',')) spec.clauses.pop_back();
	}
	return spec;
}

std::span<const std::string_view> words() { return names; }

}  // namespace verbena::faults
