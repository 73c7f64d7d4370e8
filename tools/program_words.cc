// SPDX-License-Identifier: Apache-2.0
#include "tools/program_words.h"

#include <iterator>

namespace verbena::tools {

std::vector<std::string> cut_program_words(const CLI::App& sub, std::vector<std::string>& words, std::size_t first) {
	std::size_t own = first;
	std::size_t separator = 0;  // the number of words between ours and those of the program
	while (own < words.size() && !sub.get_allow_extras()) {
		const std::string& word = words[own];
		if (word == "--") {
			separator = 1;
			break;
		}
		if (!word.starts_with('-')) break;
		// An option that is not known counts as one word; the parser will refuse it.
		const CLI::Option* const option = sub.get_option_no_throw(word);
		own += option != nullptr && option->get_expected_min() > 0 && own + 1 < words.size() ? 2 : 1;
	}
	const auto begin = words.begin() + static_cast<std::ptrdiff_t>(own);
	std::vector<std::string> program(std::next(begin, static_cast<std::ptrdiff_t>(separator)), words.end());
	words.erase(begin, words.end());
	return program;
}

}  // namespace verbena::tools
