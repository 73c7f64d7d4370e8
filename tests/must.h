// SPDX-License-Identifier: Apache-2.0
// For C programs that tests run: MUST(condition) prints the line and errno, and ends the program
// with status 1, if the condition is false.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                  \
	do {                                                                                 \
		if (!(condition)) {                                                              \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
			exit(1);                                                                     \
		}                                                                                \
	} while (0)
