# SPDX-License-Identifier: Apache-2.0
# cmake -D ROOT=<source tree> -D OUT=<header> -P commit.cmake: writes the commit of the source tree
# to a header, unless the header already has it. In a source tarball the commit is in cmake/commit.
cmake_minimum_required(VERSION 3.25)
set(commit unknown)
find_program(git git)
if(git AND EXISTS ${ROOT}/.git)
	execute_process(COMMAND ${git} -C ${ROOT} describe --always --dirty --abbrev=12 OUTPUT_VARIABLE described
		RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
	if(NOT failed)
		set(commit ${described})
	endif()
else()
	file(STRINGS ${ROOT}/cmake/commit packed REGEX "^[0-9a-f]+$")
	if(packed)
		string(SUBSTRING ${packed} 0 12 commit)
	endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define VERBENA_COMMIT \"@commit@\"\n" @ONLY)
