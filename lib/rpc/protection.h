// From what init_ssl() was told to how connections are protected.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "lib/channel/setup/tls_context.h"
#include "lib/rpc/options.h"

namespace verbena::rpc {

enum class Side { client, server };

// Without a configuration: this user's identity, as the set-up of RDMA has it.
std::expected<channel::Protection, std::string> make_protection(Side side, const std::optional<ssl_config>& config);

}  // namespace verbena::rpc
