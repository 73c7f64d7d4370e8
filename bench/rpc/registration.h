// What it costs to register memory, beside copying as much: why data that is not registered is copied into memory that
// is.
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
	double register_us = 0;  // ibv_reg_mr and ibv_dereg_mr of memory that is there, the median
	double copy_us = 0;      // as many bytes between buffers that were not just used, the median
};

std::expected<std::vector<RegistrationCost>, std::string> measure_registration(
	const lib::OpenDevice& device, std::span<const std::size_t> sizes);

}  // namespace verbena::rpcbench
