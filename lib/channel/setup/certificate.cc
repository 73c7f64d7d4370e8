// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/certificate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/random.h"
#include "lib/channel/setup/openssl.h"

namespace verbena::channel {
namespace {

using MadeCredential = std::expected<Credential, std::string>;

std::unexpected<std::string> failed(const char* what) {
	return std::unexpected(std::string("cannot ") + what + ": " + ossl::take_error());
}

// The contents of a certificate besides its key.
struct Content {
	std::string name;
	unsigned days = 0;  // 0: never expires (RFC 5280, 4.1.2.5)
	std::string alternative_names;
	const char* constraints = "critical,CA:FALSE";
	const char* usage = "critical,digitalSignature";
	const char* extended_usage = nullptr;
};

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
	X509V3_CTX context;
	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
	using Extension = std::unique_ptr<X509_EXTENSION, ossl::Deleter<X509_EXTENSION_free>>;
	const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
	return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
	// RFC 5280, 4.1.2.2 allows 20 bytes and wants a positive number, so the first bit is 0.
	std::array<std::byte, 16> random;
	secure_random(random);
	random[0] = (random[0] & std::byte{0x7f}) | std::byte{0x40};
	using Number = std::unique_ptr<BIGNUM, ossl::Deleter<BN_free>>;
	const Number number(
		BN_bin2bn(reinterpret_cast<const unsigned char*>(random.data()), static_cast<int>(random.size()), nullptr));
	return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_validity(X509* certificate, unsigned days) {
	constexpr long hour = 3600;
	if (!X509_gmtime_adj(X509_getm_notBefore(certificate), -hour)) return false;
	if (days == 0) return ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "99991231235959Z") == 1;
	return X509_time_adj_ex(X509_getm_notAfter(certificate), static_cast<int>(days), 0, nullptr) != nullptr;
}

// Makes a certificate, signed by `issuer` with `issuer_key`, or self-signed if they are null.
MadeCredential make(const Content& content, X509* issuer, EVP_PKEY* issuer_key) {
	const ossl::Key key(EVP_EC_gen("P-256"));
	if (!key) return failed("make a key");
	const ossl::Certificate certificate(X509_new());
	if (!certificate) return failed("make a certificate");
	X509* x509 = certificate.get();
	if (!issuer) issuer = x509, issuer_key = key.get();

	X509_NAME* subject = X509_get_subject_name(x509);
	const auto* name = reinterpret_cast<const unsigned char*>(content.name.data());
	const bool good = X509_set_version(x509, 2) && set_serial(x509) && set_validity(x509, content.days) &&
		X509_set_pubkey(x509, key.get()) &&
		X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, static_cast<int>(content.name.size()), -1, 0) &&
		X509_set_issuer_name(x509, X509_get_subject_name(issuer)) &&
		add_extension(x509, issuer, NID_subject_key_identifier, "hash") &&
		(issuer == x509 || add_extension(x509, issuer, NID_authority_key_identifier, "keyid:always")) &&
		add_extension(x509, issuer, NID_basic_constraints, content.constraints) &&
		add_extension(x509, issuer, NID_key_usage, content.usage) &&
		(!content.extended_usage || add_extension(x509, issuer, NID_ext_key_usage, content.extended_usage)) &&
		(content.alternative_names.empty() ||
			add_extension(x509, issuer, NID_subject_alt_name, content.alternative_names)) &&
		X509_sign(x509, issuer_key, EVP_sha256()) > 0;
	if (!good) return failed("make a certificate");

	const ossl::Bio certificate_pem(BIO_new(BIO_s_mem())), key_pem(BIO_new(BIO_s_secmem()));
	if (!certificate_pem || !key_pem || !PEM_write_bio_X509(certificate_pem.get(), x509) ||
		!PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr))
		return failed("write a certificate");
	return Credential{ossl::text_of(certificate_pem.get()), ossl::text_of(key_pem.get())};
}

std::expected<void, std::string> check_name(const std::string& name) {
	const bool good =
		!name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
	if (!good)
		return std::unexpected("'" + name + "' cannot be a certificate's name: 1 to 64 printable ASCII characters");
	return {};
}

}  // namespace

MadeCredential make_identity(const std::string& name) {
	if (const auto good = check_name(name); !good) return std::unexpected(good.error());
	return make({.name = name}, nullptr, nullptr);
}

MadeCredential make_authority(const std::string& name, unsigned days) {
	if (const auto good = check_name(name); !good) return std::unexpected(good.error());
	return make({.name = name,
					.days = days,
					.constraints = "critical,CA:TRUE,pathlen:0",
					.usage = "critical,keyCertSign,cRLSign"},
		nullptr, nullptr);
}

MadeCredential issue(const Credential& authority, Use use, const CertificateOptions& options) {
	if (const auto good = check_name(options.name); !good) return std::unexpected(good.error());
	if (use == Use::server && options.hosts.empty())
		return std::unexpected("a server's certificate needs a host name or an address");
	const ossl::Certificate issuer = ossl::read_certificate(authority.certificate_pem);
	const ossl::Key issuer_key = ossl::read_key(authority.key_pem);
	if (!issuer || !issuer_key) return failed("read the authority's certificate and key");
	Content content{.name = options.name, .days = options.days};
	// check_host refuses every character that has a meaning in this notation: commas, spaces,
	// colons outside of an address.
	for (const std::string& host : options.hosts) {
		if (const auto good = check_host(host); !good) return std::unexpected(good.error());
		content.alternative_names +=
			(content.alternative_names.empty() ? "" : ",") + std::string(is_ip_address(host) ? "IP:" : "DNS:") + host;
	}
	content.extended_usage = use == Use::server ? "serverAuth" : "clientAuth";
	return make(content, issuer.get(), issuer_key.get());
}

std::string ossl::fingerprint_of(X509* certificate) {
	unsigned char* key = nullptr;
	const int key_size = i2d_PUBKEY(X509_get0_pubkey(certificate), &key);
	std::array<unsigned char, 32> digest{};
	unsigned digest_size = 0;
	if (key_size > 0)
		EVP_Digest(key, static_cast<std::size_t>(key_size), digest.data(), &digest_size, EVP_sha256(), nullptr);
	OPENSSL_free(key);
	std::array<unsigned char, 48> text{};
	EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(digest.size()));
	// Without the padding.
	return "SHA256:" + std::string(reinterpret_cast<const char*>(text.data()), 43);
}

std::expected<std::string, std::string> fingerprint(std::string_view certificate_pem) {
	const ossl::Certificate certificate = ossl::read_certificate(certificate_pem);
	if (!certificate) return failed("read the certificate");
	return ossl::fingerprint_of(certificate.get());
}

bool is_ip_address(const std::string& host) {
	std::array<std::byte, 16> address;
	return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
		inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

std::expected<void, std::string> check_host(const std::string& host) {
	if (is_ip_address(host)) return {};
	std::string_view rest = host;
	if (rest.starts_with("*.")) rest.remove_prefix(2);
	bool good = !rest.empty() && host.size() <= 253 && rest.find_first_not_of("0123456789.:") != rest.npos;
	for (std::size_t begin = 0; good && begin <= rest.size();) {
		const std::size_t end = std::min(rest.find('.', begin), rest.size());
		const std::string_view label = rest.substr(begin, end - begin);
		good = !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
			std::ranges::all_of(label, [](char c) {
				return c == '-' || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
			});
		begin = end + 1;
	}
	if (!good) return std::unexpected("'" + host + "' is neither a host name nor an IP address");
	return {};
}

}  // namespace verbena::channel
