// SPDX-License-Identifier: Apache-2.0
// The findings of the judge about one row, and the verdict that follows from them.
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace verbena::bench {

// valid           the row can be true
// not_applicable  the row claims no number
// suspect         the row needs an explanation
// not comparable  the row measured other work than the rows beside it
// mislabelled     the row is one of another cell than it says
// invalid         the row cannot be true
// In the order of their weight: the heaviest finding is the verdict.
enum class Validity : std::uint8_t { valid, not_applicable, suspect, not_comparable, mislabelled, invalid };

// valid, n/a, suspect, not comparable, mislabelled, invalid
std::string_view name_of(Validity validity);

struct Verdict {
	Validity validity = Validity::valid;
	std::string reason;
};

// Reasons beyond this number, or beyond this size together, are not listed. A longer sentence is
// cut, because it quotes a file that may come from anywhere.
inline constexpr std::size_t reasons_max = 50, reasons_bytes_max = 16u << 10, reason_bytes_max = 500;

class Findings {
public:
	// Adds a reason, unless it was given before, or there are many already. A remark changes no
	// verdict.
	void remark(const std::string& reason) { add(Validity::valid, reason); }
	void not_applicable(const std::string& reason) { add(Validity::not_applicable, reason); }
	void suspect(const std::string& reason) { add(Validity::suspect, reason); }
	void not_comparable(const std::string& reason) { add(Validity::not_comparable, reason); }
	void mislabelled(const std::string& reason) { add(Validity::mislabelled, reason); }
	void invalid(const std::string& reason) { add(Validity::invalid, reason); }
	// Adds the findings of another examination; `place` is put before its reasons.
	void add(const std::string& place, const Findings& other);

	const Verdict& verdict() const { return verdict_; }
	bool is_invalid() const { return verdict_.validity == Validity::invalid; }

private:
	void add(Validity validity, std::string_view reason, std::size_t bytes_most = reason_bytes_max);

	Verdict verdict_;
	std::size_t reasons_ = 0;
};

}  // namespace verbena::bench
