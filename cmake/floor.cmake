# SPDX-License-Identifier: Apache-2.0
# verbena_floor(FOLDER [USES FLOOR...] [LINKS LIBRARY...])
#
# Defines the static library verbena_<folder> from the sources in FOLDER and, if BUILD_TESTING is on
# and there are files FOLDER/*_test.cc, the test program <folder>_test, whose tests are registered
# with ctest. In target names, each slash of the folder is an underscore.
#
# USES   the floors that this one may use; it is linked to these and to no other floor
# LINKS  libraries from outside of this project
#
# A folder without sources becomes an interface target, so that the list of floors in the CMake
# files is complete.
if(BUILD_TESTING)
	find_package(GTest REQUIRED)
	include(GoogleTest)
endif()

# verbena_precompile(TARGET KIND): TARGET starts each of its C++ files with the headers of
# cmake/precompiled/KIND.h, which are parsed once for all targets of that kind. The targets of a
# kind have the same compiler flags.
function(verbena_precompile target kind)
	if(NOT VERBENA_PRECOMPILE)
		return()
	endif()
	get_property(first GLOBAL PROPERTY verbena_precompiled_${kind})
	if(first)
		target_precompile_headers(${target} REUSE_FROM ${first})
	else()
		set_property(GLOBAL PROPERTY verbena_precompiled_${kind} ${target})
		target_precompile_headers(${target} PRIVATE
			$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/precompiled/${kind}.h>)
	endif()
endfunction()

# The tests of the floors alone, without the programs that users have, their tests, and examples.
add_custom_target(floor-tests)

# verbena_test_program(TARGET): TARGET is compiled as tests are: quickly. The code that it tests is
# in libraries, and these are compiled as users have them.
function(verbena_test_program target)
	target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-Og;-g1>)
	verbena_precompile(${target} tests)
endfunction()

# A unit test that takes longer fails. The sanitizer presets set a higher limit.
set(VERBENA_TEST_TIMEOUT 60 CACHE STRING "time limit of a unit test, in seconds")

function(verbena_floor folder)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES;LINKS")
	string(REPLACE "/" "_" name ${folder})
	set(root ${PROJECT_SOURCE_DIR}/${folder})
	file(GLOB sources CONFIGURE_DEPENDS ${root}/*.cc ${root}/*.c ${root}/*.S)
	file(GLOB tests CONFIGURE_DEPENDS ${root}/*_test.cc)
	if(tests)
		list(REMOVE_ITEM sources ${tests})
	endif()

	set(below ${arg_USES})
	list(TRANSFORM below REPLACE "/" "_")
	list(TRANSFORM below PREPEND "verbena_")

	if(sources)
		add_library(verbena_${name} STATIC ${sources})
		set(scope PUBLIC)
	else()
		add_library(verbena_${name} INTERFACE)
		set(scope INTERFACE)
	endif()
	target_include_directories(verbena_${name} ${scope} ${PROJECT_SOURCE_DIR})
	target_link_libraries(verbena_${name} ${scope} ${below} ${arg_LINKS})

	if(sources)
		verbena_precompile(verbena_${name} libraries)
	endif()

	if(tests AND BUILD_TESTING)
		add_executable(${name}_test ${tests})
		target_link_libraries(${name}_test PRIVATE verbena_${name} GTest::gtest_main GTest::gmock Threads::Threads)
		verbena_test_program(${name}_test)
		add_dependencies(floor-tests ${name}_test)
		# PRE_TEST: ctest asks the program for its tests; the build does not run it. Tests start in
		# the root of the sources, because they read files below it.
		gtest_discover_tests(${name}_test TEST_PREFIX "${folder}: "
			DISCOVERY_MODE PRE_TEST
			WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
			PROPERTIES TIMEOUT ${VERBENA_TEST_TIMEOUT})
	endif()
endfunction()
