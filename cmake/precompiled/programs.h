// SPDX-License-Identifier: Apache-2.0
// The headers that most files of tools/ include (cmake/floor.cmake).
#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cmake/precompiled/libraries.h"
