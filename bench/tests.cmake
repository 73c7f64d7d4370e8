# SPDX-License-Identifier: Apache-2.0
# The tests of the floors above verbs that need more than verbena_floor() gives them, and the
# example programs of the documents, which tests build and run.

# These tests run on our NIC: it is linked before libibverbs, so its symbols are found first.
foreach(floor lib_verbs lib_channel lib_metrics lib_kv lib_rpc bench_scale)
	target_link_options(${floor}_test PRIVATE -Wl,--no-as-needed)
	target_link_libraries(${floor}_test PRIVATE verbena-nic)
endforeach()
target_compile_definitions(lib_rpc_test PRIVATE RPC_TEST_SERVER="$<TARGET_FILE:rpc_test_server>")
add_dependencies(lib_rpc_test rpc_test_server)
add_executable(rpc_test_server ${PROJECT_SOURCE_DIR}/lib/rpc/testing/server_main.cc
	${PROJECT_SOURCE_DIR}/lib/rpc/testing/allocations.cc)
target_link_options(rpc_test_server PRIVATE -Wl,--no-as-needed)
target_link_libraries(rpc_test_server PRIVATE verbena-nic verbena_lib_rpc)
# A program of its own, because it replaces malloc in order to count allocations.
add_executable(lib_rpc_allocations_test ${PROJECT_SOURCE_DIR}/lib/rpc/testing/allocations_main.cc
	${PROJECT_SOURCE_DIR}/lib/rpc/testing/allocations.cc)
target_link_options(lib_rpc_allocations_test PRIVATE -Wl,--no-as-needed)
target_link_libraries(lib_rpc_allocations_test PRIVATE verbena-nic verbena_lib_rpc GTest::gtest_main Threads::Threads)
verbena_test_program(lib_rpc_allocations_test)
add_dependencies(floor-tests lib_rpc_allocations_test)
target_compile_definitions(lib_rpc_allocations_test PRIVATE RPC_TEST_SERVER="$<TARGET_FILE:rpc_test_server>")
add_dependencies(lib_rpc_allocations_test rpc_test_server)
gtest_discover_tests(lib_rpc_allocations_test TEST_PREFIX "lib/rpc: " DISCOVERY_MODE PRE_TEST
	PROPERTIES TIMEOUT ${VERBENA_TEST_TIMEOUT})
# The example programs of docs/rpc.md; tests/rpc runs them.
foreach(example server client attachment pool balance stream_server stream_client
		published_server published_client published_pool)
	add_executable(rpc_${example} ${PROJECT_SOURCE_DIR}/examples/rpc/${example}.cc)
	target_link_options(rpc_${example} PRIVATE -Wl,--no-as-needed)
	target_link_libraries(rpc_${example} PRIVATE verbena-nic verbena_lib_rpc)
endforeach()
# The published_* examples check their answers with assert(), so NDEBUG must not be defined.
foreach(example published_client published_pool)
	target_compile_options(rpc_${example} PRIVATE -UNDEBUG)
endforeach()
# A client for servers that send malformed answers (tests/rpc/test_hostile_server.py).
add_executable(rpc_test_client ${PROJECT_SOURCE_DIR}/tests/rpc/client_main.cc)
target_link_libraries(rpc_test_client PRIVATE verbena_lib_rpc)
# The C++ example of docs/kv.md. The C examples are built by tests/kv, with pkg-config.
add_executable(kv_example_client ${PROJECT_SOURCE_DIR}/examples/kv/client.cc)
# The example includes the installed header, as a program outside of this tree does.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/installed/verbena/kv_client.h "#include \"lib/kv/kv_client.h\"\n")
target_include_directories(kv_example_client PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/installed)
target_link_options(kv_example_client PRIVATE -Wl,--no-as-needed)
target_link_libraries(kv_example_client PRIVATE verbena-nic verbena_lib_kv)
