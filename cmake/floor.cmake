# verbena_floor(FOLDER [USES FLOOR...] [LINKS LIBRARY...])
#
# A static library verbena_<folder> from FOLDER/*.cc and, from FOLDER/*_test.cc, a test program <folder>_test whose tests ctest
# knows. LINKS names libraries from outside. A folder with nothing to compile yet becomes an interface target, so that the table of
# floors in CMakeLists.txt is the whole architecture.
find_package(GTest REQUIRED)
include(GoogleTest)

# Seconds that a unit test may take; a sanitizer's build needs more.
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

	if(tests)
		add_executable(${name}_test ${tests})
		target_link_libraries(${name}_test PRIVATE verbena_${name} GTest::gtest_main GTest::gmock Threads::Threads)
		# PRE_TEST: a build does not run the programs. Tests start in the root of the sources, where the data they read lies.
		gtest_discover_tests(${name}_test TEST_PREFIX "${folder}: " DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES TIMEOUT ${VERBENA_TEST_TIMEOUT})
	endif()
endfunction()
