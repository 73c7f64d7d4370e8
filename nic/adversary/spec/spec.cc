// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/spec/spec.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/sizes.h"

namespace verbena::adversary {
namespace {

constexpr std::string_view models[] = {"tso", "iba", "loose"};
constexpr std::string_view kinds[] = {
	"placement", "gather", "reads", "atomics", "completions", "events", "datagrams", "connections", "receives"};
static_assert(std::size(kinds) == kind_count);

std::optional<std::uint64_t> seed_of(std::string_view text) {
	const int base = text.starts_with("0x") ? 16 : 10;
	if (base == 16) text.remove_prefix(2);
	std::uint64_t seed = 0;
	const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seed, base);
	if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
	return seed;
}

std::optional<std::uint16_t> kinds_of(std::string_view text) {
	std::uint16_t bits = 0;
	for (const std::string_view name : split(text, '+')) {
		const auto* const at = std::ranges::find(kinds, name);
		if (at == std::end(kinds)) return std::nullopt;
		bits |= static_cast<std::uint16_t>(1u << (at - kinds));
	}
	return bits;
}

// Sets what a word after the seed says. Returns an empty text, or the reason for which it cannot.
std::string_view set(Spec& spec, std::string_view word) {
	if (const auto* const at = std::ranges::find(models, word); at != std::end(models)) {
		spec.model = static_cast<Model>(at - models);
		return {};
	}
	constexpr std::string_view only = "only=";
	if (!word.starts_with(only)) return "is no model (tso, iba or loose) and no list (only=KIND+KIND...)";
	const auto bits = kinds_of(word.substr(only.size()));
	if (!bits)
		return "names a kind that does not exist (placement, gather, reads, atomics, completions, events, datagrams, "
			   "connections, receives)";
	spec.kinds = *bits;
	return {};
}

}  // namespace

std::expected<Spec, Mistake> parse(std::string_view text) {
	Spec spec;
	bool first = true;
	for (const std::string_view word : split(text, ':')) {
		if (std::exchange(first, false)) {
			spec.seed = seed_of(word);
			if (word.empty() || spec.seed) continue;
			// The seed may be left out together with its colon.
		}
		const std::string_view reason = set(spec, word);
		if (!reason.empty()) return std::unexpected(Mistake{std::string(word), std::string(reason)});
	}
	if (spec.kinds == 1u << static_cast<unsigned>(Kind::receives) && spec.model != Model::loose)
		return std::unexpected(Mistake{"only=receives", "does nothing without the model loose"});
	return spec;
}

std::string_view name_of(Model model) { return models[static_cast<unsigned>(model)]; }
std::string_view name_of(Kind kind) { return kinds[static_cast<unsigned>(kind)]; }

std::string text_of(const Spec& spec) {
	char digits[16];
	char* const end = std::to_chars(std::begin(digits), std::end(digits), spec.seed.value_or(0), 16).ptr;
	std::string text = "0x" + std::string(digits, end) + ":" + std::string(name_of(spec.model));
	if (spec.kinds == Spec{}.kinds) return text;
	std::string_view mark = ":only=";
	for (unsigned i = 0; i < kind_count; ++i) {
		if (!spec.has(static_cast<Kind>(i))) continue;
		text += mark;
		text += kinds[i];
		mark = "+";
	}
	return text;
}

}  // namespace verbena::adversary
