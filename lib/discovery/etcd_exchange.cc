// SPDX-License-Identifier: Apache-2.0
// The way of a call to etcd: which member is asked, with which token, and the meaning of errors.
#include <algorithm>

#include "lib/discovery/etcd.h"

namespace verbena::discovery {
namespace {

constexpr std::size_t answer_max = 64u << 20;  // bytes
// One member alone has more time, because no other can answer.
constexpr long patience_of_one_ms = 5000, patience_of_several_ms = 2000;
constexpr Nanoseconds pause_after_refusal = 5'000'000'000;

// The text of an error of the gateway; empty if this is none. A call that streams has an object.
std::string message_in(const nlohmann::json& answer) {
	const auto found = answer.find("error");
	if (found == answer.end()) return {};
	if (found->is_string()) return found->get<std::string>();
	if (!found->is_object()) return "an error";
	const auto text = found->find("message");
	return text != found->end() && text->is_string() ? text->get<std::string>() : "an error";
}

bool has(const std::string& message, std::string_view words) { return message.find(words) != message.npos; }

}  // namespace

Etcd::Etcd(EtcdPrefix where, long patience_ms, Notice notice)
	: where_(std::move(where)),
	  usual_patience_ms_(where_.urls.size() == 1 ? patience_of_one_ms : patience_of_several_ms),
	  patience_ms_(patience_ms != 0 ? patience_ms : usual_patience_ms_),
	  notice_(std::move(notice)),
	  http_(where_.access) {}

void Etcd::stop() {
	{
		const std::lock_guard guard(lock_);
		http_.stop();
	}
	stops_.notify_all();
}

bool Etcd::sleep(std::uint32_t milliseconds) {
	std::unique_lock guard(lock_);
	return !stops_.wait_for(guard, std::chrono::milliseconds(milliseconds), [this] { return stopped(); });
}

Etcd::Failure Etcd::refusal(long status, const std::string& message) const {
	const std::string etcd = "etcd at " + url();
	const EtcdAccess& access = where_.access;
	if (has(message, "user name is empty")) {
		if (!access.user.empty()) return {.sentence = etcd + " wants a token", .token = true};
		return {.sentence = etcd + " wants a user: give --etcd-user and --etcd-password-file"};
	}
	if (has(message, "authentication failed"))
		return {.sentence = etcd + " refuses user " + access.user + ": check --etcd-user, and the password in " +
				access.password_file};
	if (has(message, "permission denied"))
		return {.sentence = etcd + ": user " + access.user + " may not read and write the keys below " + where_.prefix +
				": give one of its roles that right (etcdctl role grant-permission)"};
	if (has(message, "invalid auth token") || has(message, "revision of auth store is old"))
		return {.sentence = etcd + ": " + message, .token = true};
	const std::string text =
		message.empty() ? "status " + std::to_string(status) + "; is it etcd 3.4 or later?" : message;
	return {.sentence = etcd + ": " + text, .elsewhere = message.empty() || status < 400 || status >= 500};
}

Etcd::Tried<long> Etcd::post(
	const std::string& path, const std::string& body, const Http::Take& take, long patience_ms) {
	const auto status =
		http_.post({.url = url() + path, .body = body, .authorization = token_, .patience_ms = patience_ms}, take);
	if (status) return *status;
	if (stopped()) return std::unexpected(Failure{.sentence = "stopped"});
	return std::unexpected(Failure{.sentence = "etcd at " + url() + ": " + status.error().sentence,
		.elsewhere = true,
		.late = status.error().late});
}

Etcd::Tried<Etcd::Json> Etcd::exchange(const std::string& path, const std::string& body, long patience_ms) {
	std::string text;
	const auto gather = [&](std::string_view bytes) {
		text += bytes;
		return text.size() < answer_max;
	};
	const auto status = post(path, body, gather, patience_ms);
	if (!status) {
		// A token gets no answer from an etcd that was restored from an older copy.
		if (status.error().late) token_.clear();
		return std::unexpected(status.error());
	}
	Json json = Json::parse(text, nullptr, false);
	const std::string message = json.is_object() ? message_in(json) : "";
	if (*status >= 400 || !message.empty()) return std::unexpected(refusal(*status, message));
	if (!json.is_object())
		return std::unexpected(
			Failure{.sentence = "etcd at " + url() + " sent an answer that is not JSON", .elsewhere = true});
	return json;
}

Etcd::Tried<void> Etcd::authenticate(long patience_ms) {
	if (monotonic_now() < next_attempt_) return std::unexpected(Failure{.sentence = refused_});
	const auto failed = [&](const Failure& failure) -> Tried<void> {
		if (!failure.elsewhere && !stopped()) {
			next_attempt_ = monotonic_now() + pause_after_refusal;
			refused_ = failure.sentence;
		}
		return std::unexpected(failure);
	};
	// The file is read each time, so that a new password needs no restart.
	const auto password = read_password(where_.access);
	if (!password) return failed({.sentence = password.error()});
	const Json names{{"name", where_.access.user}, {"password", *password}};
	const auto answer = exchange("/v3/auth/authenticate", names.dump(), patience_ms);
	if (!answer) {
		if (!has(answer.error().sentence, "authentication is not enabled")) return failed(answer.error());
		without_tokens_ = true;  // as etcd's own clients do
		return {};
	}
	const auto token = answer->find("token");
	if (token != answer->end() && token->is_string()) token_ = token->get<std::string>();
	if (token_.empty()) return failed({.sentence = "etcd at " + url() + " sent no token", .elsewhere = true});
	return {};
}

Etcd::Tried<Etcd::Json> Etcd::ask(const std::string& path, const std::string& body, long patience_ms) {
	const bool has_user = !where_.access.user.empty();
	for (bool again = false;; again = true) {
		if (has_user && token_.empty() && !without_tokens_)
			if (const auto done = authenticate(patience_ms); !done) return std::unexpected(done.error());
		auto answer = exchange(path, body, patience_ms);
		if (answer || !answer.error().token || !has_user || again) return answer;
		token_.clear();
		without_tokens_ = false;
	}
}

Etcd::Result<Etcd::Json> Etcd::call(
	const std::string& path, const Json& body, long patience_ms, std::size_t members_max) {
	const std::string text = body.dump();
	std::string failures;
	for (std::size_t tried = 0; tried < std::min(members_max, where_.urls.size()); ++tried) {
		auto answer = ask(path, text, patience_ms);
		if (answer) {
			if (!failures.empty() && notice_) notice_(failures + "; " + url() + " answers");
			return std::move(*answer);
		}
		failures += (failures.empty() ? "" : "; ") + answer.error().sentence;
		if (stopped() || !answer.error().elsewhere) break;
		turn_to_next();
	}
	return std::unexpected(stopped() ? "stopped" : failures);
}

}  // namespace verbena::discovery
