// SPDX-License-Identifier: Apache-2.0
// Restores errno at the end of a scope, for functions that must leave it alone.
#pragma once

#include <cerrno>

namespace verbena {

class KeptErrno {
public:
	KeptErrno() = default;
	~KeptErrno() { errno = value_; }
	KeptErrno(const KeptErrno&) = delete;
	KeptErrno& operator=(const KeptErrno&) = delete;

private:
	const int value_ = errno;
};

}  // namespace verbena
