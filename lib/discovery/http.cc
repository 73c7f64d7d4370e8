// SPDX-License-Identifier: Apache-2.0
#include "lib/discovery/http.h"

#include "base/check.h"

namespace verbena::discovery {
namespace {

constexpr long connect_patience_ms = 3000;

extern "C" std::size_t take_bytes(char* bytes, std::size_t size, std::size_t count, void* take) {
	return (*static_cast<const Http::Take*>(take))({bytes, size * count}) ? size * count : 0;
}

}  // namespace

Http::Http(EtcdAccess access) : access_(std::move(access)), curl_(CurlLibrary::load()) {
	if (!curl_) return;
	multi_ = curl_->multi_init();
	easy_ = curl_->easy_init();
	check(multi_ != nullptr && easy_ != nullptr, "libcurl has memory");
}

Http::~Http() {
	if (!curl_) return;
	curl_->easy_cleanup(easy_);
	curl_->multi_cleanup(multi_);
}

void Http::stop() {
	stopped_ = true;
	if (curl_) curl_->multi_wakeup(multi_);
}

void Http::set_options(const Request& request) {
	const auto set = [&](CURLoption option, auto value) { curl_->easy_setopt(easy_, option, value); };
	curl_->easy_reset(easy_);
	set(CURLOPT_URL, request.url.c_str());
	set(CURLOPT_POSTFIELDS, request.body.c_str());
	set(CURLOPT_WRITEFUNCTION, take_bytes);
	set(CURLOPT_NOSIGNAL, 1L);
	set(CURLOPT_NOPROXY, "*");
	// A stream of HTTP/2 shares its connection, which then outlives a request that was ended.
	set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
	set(CURLOPT_TCP_KEEPALIVE, 1L);
	// Keepalive ends a watch of a host that has died.
	set(CURLOPT_TCP_KEEPIDLE, 5L);
	set(CURLOPT_TCP_KEEPINTVL, 5L);
	set(CURLOPT_CONNECTTIMEOUT_MS, connect_patience_ms);
	set(CURLOPT_TIMEOUT_MS, request.patience_ms);
	set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
	// libcurl reads the files for each new connection, so renewed certificates need no restart.
	if (!access_.ca.empty()) {
		set(CURLOPT_CAINFO, access_.ca.c_str());
		set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));  // the authorities of the system
	}
	if (!access_.certificate.empty()) {
		set(CURLOPT_SSLCERT, access_.certificate.c_str());
		set(CURLOPT_SSLKEY, access_.key.c_str());
	}
}

std::expected<long, Http::Failure> Http::post(const Request& request, const Take& take) {
	if (!curl_) return std::unexpected(Failure{curl_.error()});
	bool enough = false;
	const Take until_enough = [&](std::string_view bytes) {
		enough = enough || !take(bytes);
		return !enough;
	};
	char detail[CURL_ERROR_SIZE] = "";
	set_options(request);
	curl_->easy_setopt(easy_, CURLOPT_WRITEDATA, &until_enough);
	curl_->easy_setopt(easy_, CURLOPT_ERRORBUFFER, detail);
	curl_slist* headers = nullptr;
	if (!request.authorization.empty())
		headers = curl_->slist_append(nullptr, ("Authorization: " + request.authorization).c_str());
	curl_->easy_setopt(easy_, CURLOPT_HTTPHEADER, headers);
	curl_->multi_add_handle(multi_, easy_);
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	for (int running = 1; running > 0 && !stopped_ && !enough;) {
		if (curl_->multi_perform(multi_, &running) != CURLM_OK) break;
		int left = 0;
		for (const CURLMsg* message; (message = curl_->multi_info_read(multi_, &left)) != nullptr;)
			if (message->msg == CURLMSG_DONE) result = message->data.result;
		if (running > 0 && !enough) curl_->multi_poll(multi_, nullptr, 0, 1000, nullptr);
	}
	long status = 0;
	curl_->easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
	curl_->multi_remove_handle(multi_, easy_);
	curl_->easy_setopt(easy_, CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
	curl_->easy_setopt(easy_, CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
	curl_->slist_free_all(headers);
	answered_ = answered_ || status != 0;
	if (enough) return status;
	if (stopped_) return std::unexpected(Failure{"stopped"});
	if (result != CURLE_OK)
		return std::unexpected(Failure{reason(request, result, detail), result == CURLE_OPERATION_TIMEDOUT});
	return status;
}

std::string Http::reason(const Request& request, CURLcode result, const char* detail) const {
	const std::string what = *detail != '\0' ? detail : curl_->easy_strerror(result);
	const bool tls = request.url.starts_with("https:");
	switch (result) {
		case CURLE_PEER_FAILED_VERIFICATION:
			return "its certificate is refused (" + what +
				"): check --etcd-ca, the dates of the certificate, and that it has the name of this host";
		case CURLE_SSL_CACERT_BADFILE: return "--etcd-ca " + access_.ca + " has no certificate (" + what + ")";
		case CURLE_SSL_CERTPROBLEM: return "--etcd-cert and --etcd-key cannot be used (" + what + ")";
		case CURLE_SSL_CONNECT_ERROR: return "no TLS (" + what + "): if this port has none, write etcd://";
		case CURLE_OPERATION_TIMEDOUT:
		case CURLE_GOT_NOTHING:
		case CURLE_RECV_ERROR:
			// An address that has answered before is the right one.
			if (answered_) return what;
			if (!tls) return what + ": if this port has TLS, write etcds://";
			if (result == CURLE_OPERATION_TIMEDOUT) return what;
			return what +
				(access_.certificate.empty() ? ": if this etcd asks for a certificate, give --etcd-cert and --etcd-key"
											 : ": check that this etcd accepts the certificate of --etcd-cert");
		default: return what;
	}
}

}  // namespace verbena::discovery
