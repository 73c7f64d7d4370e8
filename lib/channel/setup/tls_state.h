// SPDX-License-Identifier: Apache-2.0
// The state that TlsContext and TlsSession share, in OpenSSL's types. Only for their .cc files.
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

// The largest fragment during a set-up, whose messages are small: OpenSSL sizes a session's write
// buffer by it. A session that then carries data gets the largest that TLS has.
inline constexpr std::size_t first_fragment_max = 1024;

// A client's tickets, least recently used evicted. Threads: thread-safe.
class TicketCache {
public:
	// Returns a copy, because a session in use is modified; null if there is none.
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
	IdentityKey identity_key;  // only for a user's identity
};

// Data of one session that the callbacks and explain_failure() need; the SSL object points to it.
struct SessionData {
	std::shared_ptr<const TlsContext> context;
	std::string host;  // the host that a client asked for
	std::string ticket_key;
	std::string peer_fingerprint;  // if the key was not this user's
	std::string peer_names;  // if the certificate was not for `host`
	int verify_error = X509_V_OK;
	bool wrong_protocol = false;  // the peer offered or selected no ALPN name of ours

	static SessionData& of(SSL* ssl) { return *static_cast<SessionData*>(SSL_get_app_data(ssl)); }
};

// Explains the failure of a handshake in one sentence, with what to do; clears OpenSSL's error
// queue.
std::string explain_failure(const SessionData& notes);

}  // namespace verbena::channel
