// SPDX-License-Identifier: Apache-2.0
// Runs one program of the rules: `programs RULE broken`, `broken-3` or `fixed`; with one argument,
// prints their names.
#include "programs.h"

int repetitions = 1;

int main(int argc, char **argv) {
	const struct program *const groups[] = {lifetime, buffers, queues, ordering, portability};
	for (size_t group = 0; group < sizeof groups / sizeof *groups; ++group)
		for (const struct program *each = groups[group]; each->rule; ++each) {
			if (argc == 2) puts(each->rule);
			if (argc != 3 || strcmp(each->rule, argv[1]) != 0) continue;
			if (strcmp(argv[2], "broken-3") == 0) repetitions = 3;
			each->run(strcmp(argv[2], "fixed") == 0);
			return 0;
		}
	return argc == 2 ? 0 : 2;
}
