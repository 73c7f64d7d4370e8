// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/protection.h"

#include <cstdio>

namespace verbena::rpc {

void log_to_standard_error(std::string_view sentence) {
	std::fprintf(stderr, "verbena rpc: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

std::expected<channel::Protection, std::string> make_protection(Side side, const std::optional<ssl_config>& config) {
	channel::TrustOptions options;
	if (config) {
		const auto path_in_base = [&](const std::string& file) {
			return file.empty() || config->base_path.empty() ? file : config->base_path + "/" + file;
		};
		options = {.ca = path_in_base(config->ca_file),
			.certificate = path_in_base(config->cert_file),
			.key = path_in_base(config->key_file),
			.insecure = false,
			.any_name = config->any_name};
	}
	const auto trust = channel::choose_trust(options, channel::trust_environment());
	if (!trust) return std::unexpected(trust.error());
	return side == Side::server ? channel::make_server_protection(*trust) : channel::make_client_protection(*trust);
}

}  // namespace verbena::rpc
