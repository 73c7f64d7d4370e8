// SPDX-License-Identifier: Apache-2.0
#include "bench/table/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "bench/table/limits.h"

namespace verbena::bench {
namespace {

std::expected<std::string, std::string> text_of_open(int file) {
	std::string text;
	std::array<char, 1 << 16> part;
	while (true) {
		const ssize_t got = read(file, part.data(), part.size());
		if (got < 0 && errno == EINTR) continue;
		if (got < 0) return std::unexpected(std::strerror(errno));
		if (got == 0) return text;
		text.append(part.data(), static_cast<std::size_t>(got));
		if (text.size() > bytes_max)
			return std::unexpected(fmt::format("it has more than {} MiB, which no table has", bytes_max >> 20));
	}
}

// The bytes of the character at the front: 0 if they are no UTF-8, or are to be written as numbers.
std::size_t bytes_to_print(std::string_view text) {
	const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
	const unsigned first = at(0);
	if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
	const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
	for (std::size_t i = 1; i < size; ++i)
		if ((at(i) & 0xc0) != 0x80) return 0;
	// U+0080 to U+009F are control characters; the others are longer than they need be, surrogates,
	// or above U+10FFFF.
	const unsigned second = at(1);
	const bool is_control = first == 0xc2 && second < 0xa0;
	const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
		(first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
	return is_control || is_wrong ? 0 : size;
}

}  // namespace

std::expected<std::string, std::string> text_of_file(const std::string& path) {
	if (path == "-") return text_of_open(STDIN_FILENO);
	const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (file < 0) return std::unexpected(std::strerror(errno));
	struct stat what{};
	const bool is_good = fstat(file, &what) == 0 && (S_ISREG(what.st_mode) || S_ISFIFO(what.st_mode));
	auto text = is_good ? text_of_open(file) : std::unexpected(std::string("it is neither a file nor a pipe"));
	close(file);
	return text;
}

std::string printable(std::string_view text) {
	std::string shown;
	while (!text.empty()) {
		const std::size_t bytes = bytes_to_print(text);
		if (bytes > 0) shown += text.substr(0, bytes);
		else shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
		text.remove_prefix(std::max<std::size_t>(bytes, 1));
	}
	return shown;
}

}  // namespace verbena::bench
