// SPDX-License-Identifier: Apache-2.0
// Explains why a TLS handshake failed, and what to do about it.
#include <string>

#include "lib/channel/setup/tls_state.h"

namespace verbena::channel {
namespace {

// OpenSSL reports an alert of the peer as this plus its number (RFC 8446, 6).
constexpr int alert_base = SSL_AD_REASON_OFFSET;

std::string other_identity(const SessionData& notes) {
	const Trust& trust = notes.context->trust();
	return "the peer is not known: it shows the key " + notes.peer_fingerprint + ", and this user's identity is " +
		notes.context->state().own_fingerprint + ": give both ends the same " + trust.folder +
		"/identity.pem, or use --ca, --cert and --key ('verbena certs' makes a set)";
}

std::string bad_certificate(const SessionData& notes) {
	const Trust& trust = notes.context->trust();
	if (trust.kind == TrustKind::identity) return other_identity(notes);
	const std::string peer =
		notes.context->side() == TlsSide::client ? "the server's certificate" : "the client's certificate";
	switch (notes.verify_error) {
		case X509_V_ERR_HOSTNAME_MISMATCH:
		case X509_V_ERR_IP_ADDRESS_MISMATCH:
			return peer + " is not for " + notes.host + " but for " +
				(notes.peer_names.empty() ? "no host" : notes.peer_names) +
				": ask for it by one of these, or make one with 'verbena certs --host " + notes.host + "'";
		case X509_V_ERR_CERT_HAS_EXPIRED: return peer + " has expired: make a new one ('verbena certs')";
		case X509_V_ERR_CERT_NOT_YET_VALID: return peer + " is not valid yet: compare the clocks of both hosts";
		case X509_V_ERR_INVALID_PURPOSE:
			return peer + " was not made for this use: servers and clients have certificates of their own";
		default: break;
	}
	return peer + " is not of the authority " + trust.ca + " (" + X509_verify_cert_error_string(notes.verify_error) +
		"): both ends need certificates of one authority ('verbena certs' makes a set)";
}

std::string refused_by_peer(const SessionData& notes, int alert) {
	const bool client = notes.context->side() == TlsSide::client;
	const std::string peer = client ? "the server" : "the client";
	switch (alert) {
		case SSL_AD_BAD_CERTIFICATE:
		case SSL_AD_UNKNOWN_CA:
		case SSL_AD_CERTIFICATE_UNKNOWN:
		case SSL_AD_UNSUPPORTED_CERTIFICATE:
		case SSL_AD_CERTIFICATE_EXPIRED:
		case SSL_AD_HANDSHAKE_FAILURE:
			if (notes.context->trust().kind == TrustKind::identity)
				return peer + " does not know this user's identity (" + notes.context->state().own_fingerprint +
					"): give both ends the same " + notes.context->trust().folder +
					"/identity.pem, or use --ca, --cert and --key on both";
			return peer + " does not accept the certificate " + notes.context->trust().certificate + " (" +
				SSL_alert_desc_string_long(alert) +
				"): both ends need certificates of one authority, valid today and for their host";
		case SSL_AD_CERTIFICATE_REQUIRED: return peer + " wants a certificate: give --ca, --cert and --key";
		case SSL_AD_PROTOCOL_VERSION: return peer + " does not speak TLS 1.3";
		case SSL_AD_NO_APPLICATION_PROTOCOL:
			return peer + " does not speak " + std::string(alpn_name) + ": is this the right port?";
		default: return peer + " ended the TLS handshake: " + SSL_alert_desc_string_long(alert);
	}
}

}  // namespace

std::string explain_failure(const SessionData& notes) {
	const int reason = ERR_GET_REASON(ERR_peek_error());
	const std::string text = ossl::take_error();
	const bool client = notes.context->side() == TlsSide::client;
	if (notes.wrong_protocol)
		return "the peer speaks TLS, but not " + std::string(alpn_name) + ": is this the right port?";
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) return bad_certificate(notes);
	if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
		return client ? "the server shows no certificate: both ends must be authenticated"
					  : "the client shows no certificate: both ends must be authenticated";
	if (reason >= alert_base) return refused_by_peer(notes, reason - alert_base);
	if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_VERSION_TOO_LOW || reason == SSL_R_WRONG_SSL_VERSION)
		return "the peer offers TLS 1.2 or older, and 1.3 is needed: is it a program of Verbena?";
	if (reason == SSL_R_WRONG_VERSION_NUMBER) return "the peer does not speak TLS: is this the right port?";
	return "the TLS handshake failed: " + text;
}

}  // namespace verbena::channel
