// SPDX-License-Identifier: Apache-2.0
// A sentence of bounded length that is put together without allocating, and its words for rights,
// sizes and times.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "nic/memory/key_table.h"

namespace verbena::engine {

class Sentence {
public:
	[[gnu::format(printf, 2, 3)]] Sentence& add(const char* format, ...) {
		const std::size_t room = sizeof bytes_ - size_;
		va_list arguments;
		va_start(arguments, format);
		const int wanted = std::vsnprintf(bytes_ + size_, room, format, arguments);
		va_end(arguments);
		if (wanted > 0) size_ += std::min(static_cast<std::size_t>(wanted), room - 1);
		return *this;
	}
	// "12.5 ms".
	Sentence& add_time(Nanoseconds ns) {
		if (ns < 1'000'000) return add("%.1f us", static_cast<double>(ns) / 1e3);
		if (ns < 1'000'000'000) return add("%.1f ms", static_cast<double>(ns) / 1e6);
		return add("%.1f s", static_cast<double>(ns) / 1e9);
	}
	// "LOCAL_WRITE|REMOTE_READ", or "none".
	Sentence& add_rights(std::uint8_t access) {
		static constexpr struct {
			std::uint8_t bit;
			const char* name;
		} names[] = {{memory::local_write, "LOCAL_WRITE"}, {memory::remote_write, "REMOTE_WRITE"},
			{memory::remote_read, "REMOTE_READ"}, {memory::remote_atomic, "REMOTE_ATOMIC"},
			{memory::window_bind, "MW_BIND"}};
		const char* between = "";
		for (const auto& [bit, name] : names)
			if (access & bit) add("%s%s", std::exchange(between, "|"), name);
		return *between ? *this : add("none");
	}
	// "[0x7f00, 0x7f40)".
	Sentence& add_range(std::uint64_t begin, std::uint64_t end) {
		return add("[0x%llx, 0x%llx)", static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end));
	}
	std::string_view text() const { return {bytes_, size_}; }

private:
	std::size_t size_ = 0;
	char bytes_[480] = {};
};

}  // namespace verbena::engine
