// SPDX-License-Identifier: Apache-2.0
// The option --metrics of the servers, of performance_test and of `verbena run`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "lib/metrics/export.h"
#include "tools/option_values.h"

namespace verbena::tools {

inline CLI::Option* add_metrics_option(CLI::App& app, std::string& where, const std::string& text) {
	return app.add_option("--metrics", where, text)
		->type_name("[HOST:]PORT")
		->check(not_empty())
		->check(CLI::Validator([](const std::string& value) { return metrics::mistake_in_address(value); }, ""));
}

}  // namespace verbena::tools
