// SPDX-License-Identifier: Apache-2.0
// The part that all TLS sessions of a program share: its certificate, its trust, the rules, and in
// a client the tickets for resumption.
//
// TLS 1.3 only, ALPN "verbena/1". Two programs of one user join by a key that both derive from the
// user's identity (identity_key.h); if they have different ones, certificates are exchanged, so
// that the error can name the keys. Under an authority both ends show a certificate, the chain is
// verified, and a client compares the server's certificate with the host that it asked for, unless
// any name is allowed. Revocation lists are not read. A ticket is valid for an hour, and only in
// the context that received it (client) or issued it (server).
//
// Threads: thread-safe after it was made.
// Lifetime: sessions share its ownership.
// Errors: one sentence that names the file and says what to do.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "lib/channel/setup/trust.h"

namespace verbena::channel {

inline constexpr std::string_view alpn_name = "verbena/1";

enum class TlsSide { client, server };

class TlsContext {
public:
	TlsContext(TlsContext&&) = delete;
	~TlsContext();

	TlsSide side() const;
	const Trust& trust() const;
	std::string own_fingerprint() const;
	// Whether clients compare a server's certificate with the host that they asked for.
	bool checks_names() const;

	struct State;  // only for tls_session.cc
	State& state() const { return *state_; }

private:
	friend struct ContextMaker;
	explicit TlsContext(std::unique_ptr<State> state);
	std::unique_ptr<State> state_;
};

// Reads the files that `trust` names; creates the identity on its first use. Calling it for
// --insecure is our own bug.
std::expected<std::shared_ptr<const TlsContext>, std::string> make_client_context(const Trust& trust);
std::expected<std::shared_ptr<const TlsContext>, std::string> make_server_context(const Trust& trust);

// Protection of the bytes of a set-up: TLS, or none, which both users must have asked for.
struct ClearText {};
using Protection = std::variant<ClearText, std::shared_ptr<const TlsContext>>;

std::expected<Protection, std::string> make_client_protection(const Trust& trust);
std::expected<Protection, std::string> make_server_protection(const Trust& trust);

// The number of tickets that a client keeps, one for each host and port; the least recently used is
// evicted.
inline constexpr std::size_t ticket_cache_size = 256;

}  // namespace verbena::channel
