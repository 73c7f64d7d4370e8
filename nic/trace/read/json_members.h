// SPDX-License-Identifier: Apache-2.0
// Members of a JSON object that is not trusted: a line of a trace, or of another file.
//
// Threads: pure functions.
// Errors: a value that is no object, or has no such member of this type, gives nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace verbena::trace {

inline std::string text_in(const nlohmann::json& object, const char* name) {
	if (!object.is_object()) return {};
	const auto member = object.find(name);
	return member != object.end() && member->is_string() ? member->get<std::string>() : std::string();
}

template <class Number> Number number_in(const nlohmann::json& object, const char* name) {
	if (!object.is_object()) return 0;
	const auto member = object.find(name);
	return member != object.end() && member->is_number_unsigned() ? member->get<Number>() : Number{0};
}

}  // namespace verbena::trace
