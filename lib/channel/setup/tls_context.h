// What all TLS sessions of a program share: its certificate, whom it trusts, the rules, and on a client the tickets by
// which it comes back without certificates.
//
// TLS 1.3 only, ALPN "verbena/1". Two programs of one user join by a key that both derive from the user's identity
// (identity_key.h); if they have different ones, certificates are shown, so that the error can say whose. By an
// authority both ends show a certificate, the chain is verified, and a client holds the server's against the host that
// it asked for, unless any name was allowed. Revocation lists are not read. A ticket is good for an hour, and only in
// the context that got it (a client) or gave it (a server).
//
// Made once, then read by any number of threads; sessions keep it alive.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "lib/channel/setup/trust.h"

struct ssl_ctx_st;
struct ssl_session_st;

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
	// Whether a client holds a session's server against the host that it asked for.
	bool checks_names() const;

	struct State;  // for tls_session.cc
	State& state() const { return *state_; }

private:
	friend struct ContextMaker;
	explicit TlsContext(std::unique_ptr<State> state);
	std::unique_ptr<State> state_;
};

// Reads the files that `trust` names; the first use of an identity makes it. Not for --insecure, which is no TLS. The
// error names the file and what to do.
std::expected<std::shared_ptr<const TlsContext>, std::string> make_client_context(const Trust& trust);
std::expected<std::shared_ptr<const TlsContext>, std::string> make_server_context(const Trust& trust);

// How the bytes of a set-up are protected: not at all, which somebody must have said, or by TLS.
struct InClear {};
using Protection = std::variant<InClear, std::shared_ptr<const TlsContext>>;

std::expected<Protection, std::string> make_client_protection(const Trust& trust);
std::expected<Protection, std::string> make_server_protection(const Trust& trust);

// A client's tickets by whom it asked for: the newest of each, the least recently used go first. From any thread.
inline constexpr std::size_t ticket_cache_size = 256;

}  // namespace verbena::channel
