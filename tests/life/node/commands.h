// SPDX-License-Identifier: Apache-2.0
// The groups of commands, each in a file of its own, and what they share to read arguments.
#pragma once

#include <cstddef>
#include <istream>
#include <ostream>
#include <string>

#include "objects.h"

// Reads the next argument; throws Failure{EINVAL} if there is none.
template <class T> T next(std::istream& in) {
	T value{};
	if (!(in >> value)) throw Failure{EINVAL};
	return value;
}
inline Pair& next_pair(std::istream& in) { return pairs.at(next<std::size_t>(in)); }

inline long nanoseconds_since(Clock::time_point start) {
	return std::chrono::nanoseconds(Clock::now() - start).count();
}

// These functions execute one group of commands each. If the command `word` belongs to its
// group, a function reads the arguments from `in`, executes the command and writes the answer's
// words to `out`. It returns false for every other word.
bool obey_device(const std::string& word, std::istream& in, std::ostream& out);
bool obey_qp(const std::string& word, std::istream& in, std::ostream& out);
bool obey_work(const std::string& word, std::istream& in, std::ostream& out);
bool obey_memory(const std::string& word, std::istream& in, std::ostream& out);
bool obey_process(const std::string& word, std::istream& in, std::ostream& out);
