// SPDX-License-Identifier: Apache-2.0
// Counts the conditions that do not hold, and prints a line for each.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int faults;

#define EXPECT(condition)                                                        \
	do {                                                                         \
		errno = 0;                                                               \
		if (!(condition)) {                                                      \
			printf("line %d: %s (%s)\n", __LINE__, #condition, strerror(errno)); \
			faults++;                                                            \
		}                                                                        \
	} while (0)
