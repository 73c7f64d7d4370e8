// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/findings.h"

#include <algorithm>

#include "bench/table/row.h"

namespace verbena::bench {

std::string_view name_of(Validity validity) {
	switch (validity) {
		case Validity::valid: return "valid";
		case Validity::not_applicable: return "n/a";
		case Validity::suspect: return "suspect";
		case Validity::not_comparable: return "not comparable";
		case Validity::mislabelled: return "mislabelled";
		case Validity::invalid: return "invalid";
	}
	return "";
}

void Findings::add(Validity validity, std::string_view text, std::size_t bytes_most) {
	verdict_.validity = std::max(verdict_.validity, validity);
	const std::string reason = shortened(text, bytes_most);
	if (reason.empty() || reasons_ > reasons_max || verdict_.reason.find(reason) != std::string::npos) return;
	++reasons_;
	if (verdict_.reason.size() + reason.size() > reasons_bytes_max) reasons_ = reasons_max + 1;
	verdict_.reason += (verdict_.reason.empty() ? "" : "; ") + (reasons_ > reasons_max ? "and more" : reason);
}

void Findings::add(const std::string& place, const Findings& other) {
	const Verdict& found = other.verdict();
	add(found.validity, found.reason.empty() ? "" : place + found.reason, reasons_bytes_max);
}

}  // namespace verbena::bench
