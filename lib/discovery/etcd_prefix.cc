// SPDX-License-Identifier: Apache-2.0
#include "lib/discovery/etcd_prefix.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lib/channel/setup/private_file.h"

namespace verbena::discovery {
namespace {

using Checked = std::expected<void, std::string>;

struct Option {
	const char* name;
	const char* variable;
	std::string EtcdAccess::* value;
	std::string words() const { return std::string(name) + " (or " + variable + ")"; }
};
constexpr Option ca{"--etcd-ca", "VERBENA_ETCD_CA", &EtcdAccess::ca},
	certificate{"--etcd-cert", "VERBENA_ETCD_CERT", &EtcdAccess::certificate},
	key{"--etcd-key", "VERBENA_ETCD_KEY", &EtcdAccess::key},
	user{"--etcd-user", "VERBENA_ETCD_USER", &EtcdAccess::user},
	password_file{"--etcd-password-file", "VERBENA_ETCD_PASSWORD_FILE", &EtcdAccess::password_file};
constexpr const Option* options[] = {&ca, &certificate, &key, &user, &password_file};

Checked check_pair(const EtcdAccess& access, const Option& one, const Option& other) {
	const bool has_one = !(access.*one.value).empty(), has_other = !(access.*other.value).empty();
	if (has_one == has_other) return {};
	const Option &there = has_one ? one : other, &missing = has_one ? other : one;
	return std::unexpected("with " + there.words() + ", " + missing.words() + " is needed too");
}

Checked check_readable(const EtcdAccess& access, const Option& option) {
	const std::string& path = access.*option.value;
	if (path.empty() || ::access(path.c_str(), R_OK) == 0) return {};
	return std::unexpected("cannot read " + path + " of " + option.name + ": " + std::strerror(errno));
}

Checked check_files(const EtcdAccess& access) {
	if (auto good = check_pair(access, certificate, key); !good) return good;
	if (auto good = check_pair(access, user, password_file); !good) return good;
	if (auto good = check_readable(access, ca); !good) return good;
	if (auto good = check_readable(access, certificate); !good) return good;
	if (!access.key.empty())
		if (const auto text = channel::read_secret_file(access.key); !text) return std::unexpected(text.error());
	if (!access.password_file.empty())
		if (const auto text = read_password(access); !text) return std::unexpected(text.error());
	return {};
}

}  // namespace

EtcdAccess etcd_environment() {
	EtcdAccess set;
	for (const Option* const each : options)
		if (const char* const text = std::getenv(each->variable); text != nullptr) set.*each->value = text;
	return set;
}

std::expected<std::string, std::string> read_password(const EtcdAccess& access) {
	auto text = channel::read_secret_file(access.password_file, "password");
	if (!text) return text;
	while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
	if (text->empty()) return std::unexpected("the password " + access.password_file + " is empty");
	return text;
}

std::expected<EtcdPrefix, std::string> read_etcd(
	std::string_view text, const EtcdAccess& given, const EtcdAccess& environment) {
	const bool tls = text.starts_with("etcds://");
	const std::size_t scheme = text.find("://");
	const std::string_view rest = is_etcd(text) ? text.substr(scheme + 3) : std::string_view();
	const std::size_t slash = rest.find('/');
	std::string_view hosts = rest.substr(0, slash);
	EtcdPrefix where{.prefix = std::string(slash == rest.npos ? std::string_view() : rest.substr(slash))};
	bool complete = where.prefix.size() > 1;
	for (bool last = false; !last;) {
		const std::size_t comma = hosts.find(',');
		last = comma == hosts.npos;
		const std::string_view host = hosts.substr(0, comma);
		complete = complete && !host.empty();
		where.urls.push_back((tls ? "https://" : "http://") + std::string(host));
		hosts.remove_prefix(last ? hosts.size() : comma + 1);
	}
	if (!complete)
		return std::unexpected("'" + std::string(text) +
			"' is not an etcd prefix; write etcd://HOST:2379/PREFIX, or etcds:// for TLS, with commas between several "
			"HOST:2379");
	if (!where.prefix.ends_with('/')) where.prefix += '/';
	for (const Option* const each : options) {
		std::string& value = where.access.*each->value;
		value = (given.*each->value).empty() ? environment.*each->value : given.*each->value;
		// A password must not cross the network without encryption, nor a mistyped address pass for
		// one with TLS.
		if (!value.empty() && !tls)
			return std::unexpected(
				each->words() + " needs TLS: write etcds:// instead of etcd://, or leave the option out");
	}
	if (auto good = check_files(where.access); !good) return std::unexpected(good.error());
	return where;
}

}  // namespace verbena::discovery
