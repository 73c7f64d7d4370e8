// SPDX-License-Identifier: Apache-2.0
// Test helper: literal bytes as they are printed in a capture, for example hex("45c2 003c").
// Ignores all characters other than digits and a to f.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace verbena::wire {

inline std::vector<std::byte> hex(std::string_view digits) {
	std::vector<std::byte> bytes;
	int high = -1;
	for (const char c : digits) {
		const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (value < 0) continue;
		if (high < 0) high = value;
		else {
			bytes.push_back(static_cast<std::byte>(high << 4 | value));
			high = -1;
		}
	}
	return bytes;
}

}  // namespace verbena::wire
