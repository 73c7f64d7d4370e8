// SPDX-License-Identifier: Apache-2.0
// Translates the argument of init_ssl() into the protection of a connection's set-up.
//
// Threads: thread-safe, but reads files and the environment.
// Errors: one sentence, for example about a file that cannot be read.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "lib/channel/setup/tls_context.h"
#include "lib/rpc/options.h"

namespace verbena::rpc {

enum class Side { client, server };

// Without a configuration: this user's identity, or what the environment names (VERBENA_CA, ...).
std::expected<channel::Protection, std::string> make_protection(Side side, const std::optional<ssl_config>& config);

}  // namespace verbena::rpc
