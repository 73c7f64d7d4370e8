// SPDX-License-Identifier: Apache-2.0
// The headers of the standard library that most files include, parsed once for all floors
// (cmake/floor.cmake). Files include what they use all the same.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
