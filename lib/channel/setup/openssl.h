// SPDX-License-Identifier: Apache-2.0
// Owning handles of OpenSSL's objects, and its errors as text. Only for the .cc files of this
// folder, and stranger.h for tests; no other header includes it.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace verbena::channel::ossl {

template <auto free_function> struct Deleter {
	template <class T> void operator()(T* object) const { free_function(object); }
};

using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Session = std::unique_ptr<SSL_SESSION, Deleter<SSL_SESSION_free>>;

// Returns the oldest error of this thread and clears its queue; "unknown error" if there is none.
inline std::string take_error() {
	const unsigned long code = ERR_get_error();
	ERR_clear_error();
	// OpenSSL has no words for an errno, as of a file that cannot be opened.
	if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
	const char* reason = ERR_reason_error_string(code);
	return reason ? reason : "unknown error";
}

inline Bio reader_of(std::string_view text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

inline std::string text_of(BIO* memory) {
	char* data = nullptr;
	const long size = BIO_get_mem_data(memory, &data);
	return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : "";
}

// The callback for passphrases: refuses, because no user can type one.
inline int no_passphrase(char*, int, int, void*) { return -1; }

inline Certificate read_certificate(std::string_view pem) {
	return Certificate(PEM_read_bio_X509(reader_of(pem).get(), nullptr, no_passphrase, nullptr));
}
inline Key read_key(std::string_view pem) {
	return Key(PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, no_passphrase, nullptr));
}

// "SHA256:" and the digest of the public key in base64, as ssh-keygen shows keys.
std::string fingerprint_of(X509* certificate);

}  // namespace verbena::channel::ossl
