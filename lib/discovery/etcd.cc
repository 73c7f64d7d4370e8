// SPDX-License-Identifier: Apache-2.0
#include "lib/discovery/etcd.h"

#include <openssl/evp.h>

#include <algorithm>
#include <tuple>

namespace verbena::discovery {
namespace {

// A server that leaves does not wait long: if etcd does not answer, the lease expires by itself.
constexpr long revoke_patience_ms = 300;
constexpr std::size_t revoke_members_max = 2;
constexpr long watch_of_several_ms = 4000;
constexpr std::size_t watch_max = 64u << 10;  // bytes of a watch that reports no event
// The longest lease of a member that is believed.
constexpr std::int64_t lease_s_max = 3600;

std::string base64(std::string_view text) {
	std::string out((text.size() + 2) / 3 * 4 + 1, '\0');
	const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
		reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
	out.resize(static_cast<std::size_t>(length));
	return out;
}

std::string from_base64(std::string_view text) {
	std::string out(text.size() / 4 * 3 + 3, '\0');
	const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
		reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
	if (length < 0) return {};
	const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
	out.resize(std::max(static_cast<std::size_t>(length), padding) - padding);
	return out;
}

// The end of the range of all keys with this prefix: its last byte, '/', plus one.
std::string after(std::string prefix) {
	++prefix.back();
	return prefix;
}

// The gateway writes 64-bit numbers as strings.
std::int64_t number_in(const nlohmann::json& object, const char* name) {
	const auto found = object.find(name);
	if (found == object.end()) return 0;
	return found->is_string()        ? std::strtoll(found->get<std::string>().c_str(), nullptr, 10)
		: found->is_number_integer() ? found->get<std::int64_t>()
									 : 0;
}

// The key or the value of an entry of a list; empty if it has none.
std::string text_in(const nlohmann::json& entry, const char* name) {
	if (!entry.is_object()) return {};
	const auto found = entry.find(name);
	return found != entry.end() && found->is_string() ? from_base64(found->get<std::string>()) : std::string();
}

}  // namespace

void Etcd::for_each_entry(
	const Json& answer, const std::function<void(std::string name, const Json& entry)>& take) const {
	const auto found = answer.find("kvs");
	if (found == answer.end() || !found->is_array()) return;
	for (const Json& each : *found) {
		const std::string key = text_in(each, "key");
		if (key.starts_with(where_.prefix) && key.size() > where_.prefix.size())
			take(key.substr(where_.prefix.size()), each);
	}
}

Etcd::Result<Etcd::Listed> Etcd::list() {
	const auto answer = call("/v3/kv/range",
		{{"key", base64(where_.prefix)}, {"range_end", base64(after(where_.prefix))}, {"keys_only", true}});
	if (!answer) return std::unexpected(answer.error());
	Listed listed;
	if (const auto header = answer->find("header"); header != answer->end() && header->is_object())
		listed.revision = number_in(*header, "revision");
	for_each_entry(*answer, [&](std::string name, const Json&) { listed.names.push_back(std::move(name)); });
	std::ranges::sort(listed.names);
	return listed;
}

Etcd::Result<std::vector<Etcd::Entry>> Etcd::entries() {
	const auto answer =
		call("/v3/kv/range", {{"key", base64(where_.prefix)}, {"range_end", base64(after(where_.prefix))}});
	if (!answer) return std::unexpected(answer.error());
	std::vector<Entry> entries;
	for_each_entry(*answer, [&](std::string name, const Json& entry) {
		const Json value = Json::parse(text_in(entry, "value"), nullptr, false);
		const std::int64_t seconds = value.is_object() ? number_in(value, "lease_s") : 0;
		entries.push_back({.name = std::move(name),
			.lease = std::to_string(number_in(entry, "lease")),
			.lease_s = static_cast<std::uint32_t>(std::clamp<std::int64_t>(seconds, 0, lease_s_max))});
	});
	return entries;
}

Etcd::Result<void> Etcd::wait_for_change(std::int64_t revision) {
	const Json request{{"create_request",
		{{"key", base64(where_.prefix)}, {"range_end", base64(after(where_.prefix))},
			{"start_revision", std::to_string(revision + 1)}}}};
	std::string text;
	const auto has = [&](std::string_view words) { return text.find(words) != text.npos; };
	const auto until_event = [&](std::string_view bytes) {
		text += bytes;
		// Any event, and also a cancellation after a compaction, ends the wait: the caller then
		// fetches the list. So does more text than a watch without events has.
		return text.size() < watch_max && !has("\"events\"") && !has("\"canceled\":true");
	};
	const long limit_ms = where_.urls.size() == 1 ? 0 : watch_of_several_ms;
	const auto status = post("/v3/watch", request.dump(), until_event, limit_ms);
	if (!status) {
		if (status.error().late && limit_ms != 0) return {};
		if (status.error().elsewhere) turn_to_next();
		return std::unexpected(status.error().sentence);
	}
	if (*status < 400 && (!has("\"cancel_reason\"") || has("\"compact_revision\""))) return {};
	// The list that the caller fetches next shows the reason, and gets a new token.
	token_.clear();
	return std::unexpected("etcd at " + url() + " ended a watch: " + text);
}

Etcd::Result<std::string> Etcd::grant(std::uint32_t seconds) {
	const auto answer = call("/v3/lease/grant", {{"TTL", std::to_string(seconds)}}, usual_patience_ms_);
	if (!answer) return std::unexpected(answer.error());
	if (!answer->contains("ID")) return std::unexpected("etcd at " + url() + " grants no lease");
	return std::to_string(number_in(*answer, "ID"));
}

Etcd::Result<void> Etcd::put(const std::string& name, const std::string& lease, std::uint32_t lease_s) {
	const std::string value = Json{{"lease_s", lease_s}}.dump();
	const auto answer = call("/v3/kv/put",
		{{"key", base64(where_.prefix + name)}, {"value", base64(value)}, {"lease", lease}}, usual_patience_ms_);
	if (!answer) return std::unexpected(answer.error());
	return {};
}

Etcd::Result<bool> Etcd::renew(const std::string& lease) {
	const auto answer = call("/v3/lease/keepalive", {{"ID", lease}});
	if (!answer) return std::unexpected(answer.error());
	const auto result = answer->find("result");
	return result != answer->end() && result->is_object() && number_in(*result, "TTL") > 0;
}

void Etcd::revoke(const std::string& lease) {
	std::ignore = call("/v3/lease/revoke", {{"ID", lease}}, revoke_patience_ms, revoke_members_max);
}

}  // namespace verbena::discovery
