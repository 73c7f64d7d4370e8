// What TlsContext and TlsSession know of each other, in OpenSSL's types. For their .cc files only.
#pragma once

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "lib/channel/setup/identity_key.h"
#include "lib/channel/setup/openssl.h"
#include "lib/channel/setup/tls_context.h"

namespace verbena::channel {

// A set-up's messages are small, and a session's write buffer has the size of the largest fragment; a session that then
// carries data gets the largest that there is.
inline constexpr std::size_t first_fragment_max = 1024;

class TicketCache {
public:
	// A copy, because a session in use is written to; null if there is none.
	ossl::Session find(const std::string& key) {
		const std::scoped_lock lock(mutex_);
		const auto place = by_key_.find(key);
		if (place == by_key_.end()) return nullptr;
		entries_.splice(entries_.begin(), entries_, place->second);
		return ossl::Session(SSL_SESSION_dup(place->second->second.get()));
	}

	void store(const std::string& key, ossl::Session session) {
		const std::scoped_lock lock(mutex_);
		if (const auto place = by_key_.find(key); place != by_key_.end()) {
			place->second->second = std::move(session);
			entries_.splice(entries_.begin(), entries_, place->second);
			return;
		}
		entries_.emplace_front(key, std::move(session));
		by_key_[key] = entries_.begin();
		if (entries_.size() <= ticket_cache_size) return;
		by_key_.erase(entries_.back().first);
		entries_.pop_back();
	}

private:
	using Entry = std::pair<std::string, ossl::Session>;
	std::mutex mutex_;
	std::list<Entry> entries_;  // most recently used first
	std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

struct TlsContext::State {
	std::unique_ptr<SSL_CTX, ossl::Deleter<SSL_CTX_free>> ssl;
	TlsSide side = TlsSide::client;
	Trust trust;
	ossl::Key own_public_key;
	std::string own_fingerprint;
	TicketCache tickets;
	IdentityKey identity_key;  // of a user's identity only
};

// What callbacks and the explanation of a failure need of one session; OpenSSL's session points to it.
struct SessionNotes {
	std::shared_ptr<const TlsContext> context;
	std::string host;  // whom a client asked for
	std::string ticket_key;
	std::string peer_fingerprint;  // of a key that was not ours
	std::string peer_names;  // of a certificate that was not for `host`
	int verify_error = X509_V_OK;
	bool wrong_protocol = false;  // ALPN

	static SessionNotes& of(SSL* ssl) { return *static_cast<SessionNotes*>(SSL_get_app_data(ssl)); }
};

// Why the handshake failed, as one sentence with what to do; empties OpenSSL's errors.
std::string explain_failure(const SessionNotes& notes);

}  // namespace verbena::channel
