// SPDX-License-Identifier: Apache-2.0
// The options --ca, --cert, --key and --insecure of the programs that connect by TLS.
#pragma once

#include <CLI/CLI.hpp>

#include "lib/channel/setup/tls_context.h"

namespace verbena::tools {

inline void add_trust(CLI::App& app, channel::TrustOptions& options) {
	app.add_option(
		   "--ca", options.ca, "Certificate of the authority that has signed the peer's certificate (or VERBENA_CA)")
		->type_name("FILE");
	app.add_option("--cert", options.certificate, "Own certificate (or VERBENA_CERT)")->type_name("FILE");
	app.add_option("--key", options.key, "Private key of the own certificate (or VERBENA_KEY)")->type_name("FILE");
	app.add_flag("--insecure", options.insecure, "Connect without authentication and without encryption");
}

}  // namespace verbena::tools
