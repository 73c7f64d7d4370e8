// SPDX-License-Identifier: Apache-2.0
// The words of a line in a text that another process has written, and that is not trusted.
//
// Threads: values and pure functions.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace verbena {

// The text without control characters: a line must stay one line, and a terminal must not obey it.
inline std::string printable(std::string_view text) {
	std::string out(text);
	std::ranges::replace_if(out, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
	return out;
}

// Removes the first line from `text` and returns it without its end.
inline std::string_view take_line(std::string_view& text) {
	const std::string_view line = text.substr(0, text.find('\n'));
	text.remove_prefix(std::min(line.size() + 1, text.size()));
	return line;
}

// The words of a line, one after the other, with one space between two. A word that is missing or
// no number makes good() false.
class LineWords {
public:
	explicit LineWords(std::string_view line) : rest_(line) {}

	std::string_view word() {
		const std::size_t end = std::min(rest_.find(' '), rest_.size());
		const std::string_view found = rest_.substr(0, end);
		rest_.remove_prefix(std::min(end + 1, rest_.size()));
		good_ &= !found.empty();
		return found;
	}
	template <class Number> void into(Number& number) {
		const std::string_view text = word();
		const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
		good_ &= read.ec == std::errc{} && read.ptr == text.data() + text.size();
	}
	void into(std::string& text) { text = printable(word()); }
	std::string_view rest() const { return rest_; }
	bool good() const { return good_; }

private:
	std::string_view rest_;
	bool good_ = true;
};

}  // namespace verbena
