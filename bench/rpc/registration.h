// SPDX-License-Identifier: Apache-2.0
// measure_registration(): the cost of registering memory, beside that of copying the same number of
// bytes. It shows why unregistered data is copied into registered memory instead.
//
// Errors: one sentence, if a region cannot be registered.
#pragma once

#include <cstddef>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "lib/verbs/device.h"

namespace verbena::rpcbench {

struct RegistrationCost {
	std::size_t bytes = 0;
	double register_us = 0;  // median of ibv_reg_mr and ibv_dereg_mr of memory that is mapped
	double copy_us = 0;      // median of a copy between buffers that are not in a cache
};

// Measures each size; a size is at most 64 MiB.
std::expected<std::vector<RegistrationCost>, std::string> measure_registration(
	const lib::OpenDevice& device, std::span<const std::size_t> sizes);

}  // namespace verbena::rpcbench
