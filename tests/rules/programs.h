// SPDX-License-Identifier: Apache-2.0
// The programs of the rules: one function for each, with the mistake or without it.
#pragma once

#include "pair.h"

struct program {
	const char* rule;
	void (*run)(bool fixed);
};
#define PROGRAM(function) {#function, function}

// Each ends with an empty program.
extern const struct program lifetime[], buffers[], queues[], ordering[], portability[];

// The number of times that a program makes its mistake at one place, where it can.
extern int repetitions;
