// SPDX-License-Identifier: Apache-2.0
// The headers that most unit tests include (cmake/floor.cmake).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "cmake/precompiled/libraries.h"
