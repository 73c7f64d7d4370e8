// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/channel/setup/openssl.h"

namespace verbena::channel {
namespace {

TEST(Certificate, IssuedByAnAuthorityVerifiesForItsUseOnly) {
	const Credential authority = *make_authority("authority", 10);
	const ossl::Certificate root = ossl::read_certificate(authority.certificate_pem);
	const auto verifies = [&](const Credential& credential, X509* issuer, X509_PURPOSE* purpose) {
		const ossl::Certificate leaf = ossl::read_certificate(credential.certificate_pem);
		const std::unique_ptr<X509_STORE, ossl::Deleter<X509_STORE_free>> store(X509_STORE_new());
		X509_STORE_add_cert(store.get(), issuer);
		X509_STORE_set_purpose(store.get(), X509_PURPOSE_get_id(purpose));
		const std::unique_ptr<X509_STORE_CTX, ossl::Deleter<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
		X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
		X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
		return X509_verify_cert(context.get()) == 1;
	};
	X509_PURPOSE* as_server = X509_PURPOSE_get0(X509_PURPOSE_get_by_id(X509_PURPOSE_SSL_SERVER));
	X509_PURPOSE* as_client = X509_PURPOSE_get0(X509_PURPOSE_get_by_id(X509_PURPOSE_SSL_CLIENT));
	const Credential server =
		*issue(authority, Use::server, {.name = "s", .hosts = {"db.example.org", "10.0.0.1", "fd00::1"}});
	const Credential client = *issue(authority, Use::client, {.name = "c"});
	EXPECT_TRUE(verifies(server, root.get(), as_server));
	EXPECT_TRUE(verifies(client, root.get(), as_client));
	EXPECT_FALSE(verifies(server, root.get(), as_client));
	EXPECT_FALSE(verifies(client, root.get(), as_server));
	const ossl::Certificate other = ossl::read_certificate(make_authority("authority", 10)->certificate_pem);
	EXPECT_FALSE(verifies(server, other.get(), as_server));

	const ossl::Certificate leaf = ossl::read_certificate(server.certificate_pem);
	EXPECT_EQ(X509_check_host(leaf.get(), "db.example.org", 0, 0, nullptr), 1);
	EXPECT_EQ(X509_check_ip_asc(leaf.get(), "10.0.0.1", 0), 1);
	EXPECT_EQ(X509_check_ip_asc(leaf.get(), "fd00:0::1", 0), 1);
	EXPECT_EQ(X509_check_ip_asc(leaf.get(), "10.0.0.2", 0), 0);
}

TEST(Certificate, AServersNeedsAHost) { EXPECT_FALSE(issue(*make_authority("a", 1), Use::server, {.name = "s"})); }

TEST(Certificate, InvalidHostNamesAreRefused) {
	for (const char* host : {"localhost", "a-b.example.org", "*.example.org", "10.0.0.1", "::1", "node_1"})
		EXPECT_TRUE(check_host(host)) << host;
	for (const char* host : {"", "a b", "a,DNS:b", "-a", "a..b", "*", "*.", "a*b.org", "10.0.0.256", "10.0.0",
			 "fe80::1%eth0", "a/b", "a:80", "\n"})
		EXPECT_FALSE(check_host(host)) << host;
}

TEST(Certificate, InvalidNamesAreRefused) {
	for (const std::string& name : {std::string(), std::string(65, 'x'), std::string("a\nb"), std::string("\x7f")})
		EXPECT_FALSE(make_identity(name));
	for (const std::string& name : {std::string("x"), std::string(64, 'x'), std::string(" ~")})
		EXPECT_TRUE(make_identity(name)) << name;
}

TEST(Certificate, AFingerprintIsOfTheKey) {
	const Credential one = *make_identity("one"), other = *make_identity("one");
	EXPECT_THAT(*fingerprint(one.certificate_pem), testing::MatchesRegex("SHA256:[A-Za-z0-9+/]+"));
	EXPECT_EQ(fingerprint(one.certificate_pem)->size(), 50u);
	EXPECT_NE(*fingerprint(one.certificate_pem), *fingerprint(other.certificate_pem));
	EXPECT_FALSE(fingerprint("hello"));
}

}  // namespace
}  // namespace verbena::channel
