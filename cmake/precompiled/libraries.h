// SPDX-License-Identifier: Apache-2.0
// The headers of the standard library that most files include (cmake/floor.cmake). Files include
// what they use all the same: with ccache, and for clang-tidy, nothing is precompiled.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
