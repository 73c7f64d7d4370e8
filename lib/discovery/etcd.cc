// SPDX-License-Identifier: Apache-2.0
#include "lib/discovery/etcd.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "base/check.h"

namespace verbena::discovery {
namespace {

// A server that leaves does not wait long: if etcd does not answer, the lease expires by itself.
constexpr long connect_patience_ms = 3000, revoke_patience_ms = 300, enter_patience_ms = 5000;
// Bytes of an answer, and of a watch that reports no event.
constexpr std::size_t answer_max = 64u << 20, watch_max = 64u << 10;
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

using Take = std::function<bool(std::string_view)>;
extern "C" std::size_t take_bytes(char* bytes, std::size_t size, std::size_t count, void* take) {
	return (*static_cast<const Take*>(take))({bytes, size * count}) ? size * count : 0;
}

}  // namespace

std::expected<EtcdPrefix, std::string> read_etcd(std::string_view text) {
	constexpr std::string_view scheme = "etcd://";
	const std::string_view rest = text.substr(std::min(text.size(), scheme.size()));
	const std::size_t slash = rest.find('/');
	const std::string_view host = rest.substr(0, slash),
						   prefix = slash == rest.npos ? std::string_view() : rest.substr(slash);
	if (!is_etcd(text) || host.empty() || prefix.size() < 2)
		return std::unexpected("'" + std::string(text) + "' is not an etcd prefix; write etcd://HOST:2379/PREFIX");
	EtcdPrefix where{"http://" + std::string(host), std::string(prefix)};
	if (!where.prefix.ends_with('/')) where.prefix += '/';
	return where;
}

Etcd::Etcd(EtcdPrefix where, long patience_ms)
	: where_(std::move(where)), patience_ms_(patience_ms), curl_(CurlLibrary::load()) {
	if (!curl_) return;
	multi_ = curl_->multi_init();
	easy_ = curl_->easy_init();
	check(multi_ != nullptr && easy_ != nullptr, "libcurl has memory");
}

Etcd::~Etcd() {
	if (!curl_) return;
	curl_->easy_cleanup(easy_);
	curl_->multi_cleanup(multi_);
}

void Etcd::stop() {
	{
		const std::lock_guard guard(lock_);
		stopped_ = true;
	}
	stops_.notify_all();
	if (curl_) curl_->multi_wakeup(multi_);
}

bool Etcd::sleep(std::uint32_t milliseconds) {
	std::unique_lock guard(lock_);
	return !stops_.wait_for(guard, std::chrono::milliseconds(milliseconds), [this] { return stopped_.load(); });
}

Etcd::Result<void> Etcd::post(const std::string& path, const std::string& body, const Take& take, long patience_ms) {
	if (!curl_) return std::unexpected(curl_.error());
	const std::string url = where_.url + path;
	bool enough = false;
	const Take until_enough = [&](std::string_view bytes) {
		enough = enough || !take(bytes);
		return !enough;
	};
	curl_->easy_reset(easy_);
	curl_->easy_setopt(easy_, CURLOPT_URL, url.c_str());
	curl_->easy_setopt(easy_, CURLOPT_POSTFIELDS, body.c_str());
	curl_->easy_setopt(easy_, CURLOPT_WRITEFUNCTION, take_bytes);
	curl_->easy_setopt(easy_, CURLOPT_WRITEDATA, &until_enough);
	curl_->easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
	curl_->easy_setopt(easy_, CURLOPT_FAILONERROR, 1L);
	curl_->easy_setopt(easy_, CURLOPT_NOPROXY, "*");
	curl_->easy_setopt(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
	// Keepalive ends a watch of a host that has died.
	curl_->easy_setopt(easy_, CURLOPT_TCP_KEEPIDLE, 5L);
	curl_->easy_setopt(easy_, CURLOPT_TCP_KEEPINTVL, 5L);
	curl_->easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, connect_patience_ms);
	curl_->easy_setopt(easy_, CURLOPT_TIMEOUT_MS, patience_ms);
	curl_->multi_add_handle(multi_, easy_);
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	for (int running = 1; running > 0 && !stopped_ && !enough;) {
		if (curl_->multi_perform(multi_, &running) != CURLM_OK) break;
		int left = 0;
		for (const CURLMsg* message; (message = curl_->multi_info_read(multi_, &left)) != nullptr;)
			if (message->msg == CURLMSG_DONE) result = message->data.result;
		if (running > 0 && !enough) curl_->multi_poll(multi_, nullptr, 0, 1000, nullptr);
	}
	curl_->multi_remove_handle(multi_, easy_);
	if (enough) return {};
	if (stopped_) return std::unexpected("stopped");
	if (result != CURLE_OK) return std::unexpected("etcd at " + where_.url + ": " + curl_->easy_strerror(result));
	return {};
}

Etcd::Result<Etcd::Json> Etcd::call(const std::string& path, const Json& body, long patience_ms) {
	std::string text;
	const auto gather = [&](std::string_view bytes) {
		text += bytes;
		return text.size() < answer_max;
	};
	const auto called = post(path, body.dump(), gather, patience_ms);
	if (!called) return std::unexpected(called.error());
	Json json = Json::parse(text, nullptr, false);
	if (!json.is_object()) return std::unexpected("etcd at " + where_.url + " sent an answer that is not JSON");
	return json;
}

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
	return post("/v3/watch", request.dump(), [&](std::string_view bytes) {
		text += bytes;
		// Any event, and also a cancellation after a compaction, ends the wait: the caller then
		// fetches the list. So does more text than a watch without events has.
		return text.size() < watch_max && text.find("\"events\"") == text.npos &&
			text.find("\"canceled\":true") == text.npos;
	});
}

Etcd::Result<std::string> Etcd::grant(std::uint32_t seconds) {
	const auto answer = call("/v3/lease/grant", {{"TTL", std::to_string(seconds)}}, enter_patience_ms);
	if (!answer) return std::unexpected(answer.error());
	if (!answer->contains("ID")) return std::unexpected("etcd at " + where_.url + " grants no lease");
	return std::to_string(number_in(*answer, "ID"));
}

Etcd::Result<void> Etcd::put(const std::string& name, const std::string& lease, std::uint32_t lease_s) {
	const std::string value = Json{{"lease_s", lease_s}}.dump();
	const auto answer = call("/v3/kv/put",
		{{"key", base64(where_.prefix + name)}, {"value", base64(value)}, {"lease", lease}}, enter_patience_ms);
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
	std::ignore = call("/v3/lease/revoke", {{"ID", lease}}, revoke_patience_ms);
}

}  // namespace verbena::discovery
