// SPDX-License-Identifier: Apache-2.0
/* EXPECT(condition): ends the program with status 1 unless the condition holds. The handle of the
 * caller is named `store`. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <verbena/kv.h>

#define EXPECT(condition)                                                                            \
	do {                                                                                             \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: not true: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
				kv_last_error(store));                                                               \
			exit(1);                                                                                 \
		}                                                                                            \
	} while (0)

#endif
