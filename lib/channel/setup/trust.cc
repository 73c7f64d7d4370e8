// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/trust.h"

#include <cstdlib>

#include "base/private_folder.h"
#include "lib/channel/setup/identity.h"

namespace verbena::channel {

TrustEnvironment trust_environment() {
	const auto value = [](const char* name) {
		const char* text = std::getenv(name);
		return std::string(text ? text : "");
	};
	return {value("VERBENA_CA"), value("VERBENA_CERT"), value("VERBENA_KEY"),
		{value("XDG_CONFIG_HOME"), value("HOME"), private_folders()}};
}

std::string Trust::description() const {
	switch (kind) {
		case TrustKind::identity: return "programs of this user (" + folder + "/" + identity_file + ")";
		case TrustKind::authority: return "the authority of " + ca + (any_name ? ", any name under it" : "");
		case TrustKind::insecure: break;
	}
	return "every peer, without authentication or encryption (--insecure)";
}

std::expected<Trust, std::string> choose_trust(const TrustOptions& options, const TrustEnvironment& environment) {
	const bool asked = !options.ca.empty() || !options.certificate.empty() || !options.key.empty();
	if (options.insecure) {
		if (asked || options.any_name)
			return std::unexpected(
				"--insecure cannot be combined with --ca, --cert, --key or a choice of names: leave out one or the "
				"other");
		return Trust{.kind = TrustKind::insecure};
	}

	struct Item {
		const char* option;
		const char* variable;
		std::string value;
	};
	const auto item = [](const char* option, const char* variable, const std::string& given, const std::string& set) {
		return Item{option, variable, given.empty() ? set : given};
	};
	const Item items[] = {item("--ca", "VERBENA_CA", options.ca, environment.ca),
		item("--cert", "VERBENA_CERT", options.certificate, environment.certificate),
		item("--key", "VERBENA_KEY", options.key, environment.key)};
	std::string there, missing;
	for (const Item& each : items) {
		std::string& list = each.value.empty() ? missing : there;
		list += (list.empty() ? "" : " and ") + (std::string(each.option) + " (or " + each.variable + ")");
	}
	if (!there.empty()) {
		// Both ends show a certificate, so an authority alone is no use.
		if (!missing.empty())
			return std::unexpected(
				"with " + there + ", " + missing + " is needed too; 'verbena certs --help' shows how to make a set");
		return Trust{.kind = TrustKind::authority,
			.ca = items[0].value,
			.certificate = items[1].value,
			.key = items[2].value,
			.any_name = options.any_name};
	}
	if (options.any_name)
		return std::unexpected(
			"any name is a choice among the servers of an authority: give --ca, --cert and --key with it");

	auto folder = choose_identity_folder(environment.identity);
	if (!folder) return std::unexpected(folder.error());
	return Trust{.kind = TrustKind::identity, .folder = std::move(*folder)};
}

}  // namespace verbena::channel
