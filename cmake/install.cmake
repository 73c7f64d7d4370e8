# SPDX-License-Identifier: Apache-2.0
# The rules of `cmake --install` (docs/installing.md). The components are:
#
#   nic      libverbena-nic.so, the folder with its libibverbs.so.1, and the program verbena
#   tools    the clients and the programs that measure
#   servers  kv_server and echo_server
#   kv       libverbena-kv.so.0, which programs that are linked to it need to run
#   dev      headers, libraries and descriptions for programs of others; needs nic and kv
#   python   the page that `verbena report` writes, and the RPC client verbena_rpc
#
# An installation may be moved: programs and libraries find each other relative to their own place.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(VERBENA_PYTHON_DIR lib/python3/dist-packages CACHE STRING
	"where verbena_rpc is installed, relative to the prefix")
# The Debian package of the NIC has no program, because a program needs more libraries.
option(VERBENA_PACKAGES "install verbena with the tools, and the man pages, as the Debian packages have them" OFF)
set(verbena_component nic)
if(VERBENA_PACKAGES)
	set(verbena_component tools)
endif()

file(RELATIVE_PATH VERBENA_BIN_TO_LIB ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH VERBENA_BIN_TO_DATA ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/verbena)
file(RELATIVE_PATH VERBENA_PC_TO_LIB ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH VERBENA_PC_TO_INCLUDE ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(VERBENA_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/verbena)

# verbena_install_library(TARGET COMPONENT NAME): installs a library, and its description for
# find_package(), in which it is called verbena::NAME. Files that only linkers need are in `dev`.
function(verbena_install_library target component name)
	set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
	install(TARGETS ${target} EXPORT verbena-${name}
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT dev
		ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
		INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
	install(EXPORT verbena-${name} FILE verbena-${name}.cmake NAMESPACE verbena::
		DESTINATION ${VERBENA_CONFIG_DIR} COMPONENT dev)
endfunction()

# verbena_install_description(NAME): the file for pkg-config, from the template NAME.pc.in. Its
# paths are relative to itself.
function(verbena_install_description name)
	set(VERBENA_LIBDIR "\${pcfiledir}/${VERBENA_PC_TO_LIB}")
	set(VERBENA_INCLUDEDIR "\${pcfiledir}/${VERBENA_PC_TO_INCLUDE}")
	set(VERBENA_RUNPATH "")
	configure_file(${name}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()

# verbena_install_archive(TARGET NAME HEADER FLOOR...): an archive of the floors for programs in
# C++23, with its descriptions, and a header, which is installed in the folder `verbena` with the
# headers that it includes.
function(verbena_install_archive target name header)
	set(objects "")
	foreach(floor ${ARGN})
		get_target_property(kind verbena_${floor} TYPE)
		if(kind STREQUAL STATIC_LIBRARY)
			list(APPEND objects $<TARGET_OBJECTS:verbena_${floor}>)
		endif()
	endforeach()
	add_library(${target} STATIC ${objects})
	target_compile_features(${target} INTERFACE cxx_std_23)
	target_link_libraries(${target} INTERFACE
		OpenSSL::SSL OpenSSL::Crypto uring rdmacm ibverbs ${CMAKE_DL_LIBS} Threads::Threads)
	set_target_properties(${target} PROPERTIES
		LINKER_LANGUAGE CXX
		ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
	verbena_install_library(${target} dev ${name})
	verbena_install_description(${target})
	if(VERBENA_PACKAGES)
		# CPack strips programs and shared libraries, but not archives: 75 MB of symbols for
		# debuggers.
		install(CODE "execute_process(COMMAND ${CMAKE_STRIP} --strip-debug --enable-deterministic-archives
			\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/lib${target}.a COMMAND_ERROR_IS_FATAL ANY)"
			COMPONENT dev)
	endif()
	get_filename_component(installed ${header} NAME)
	install(CODE "
		set(ROOT \"${PROJECT_SOURCE_DIR}\")
		set(SOURCE \"${header}\")
		set(NAME \"${installed}\")
		set(STAGE \"${CMAKE_CURRENT_BINARY_DIR}/headers\")
		set(DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")" COMPONENT dev)
	install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake COMPONENT dev)
endfunction()

# verbena_install_program(TARGET COMPONENT)
function(verbena_install_program target component)
	set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${VERBENA_BIN_TO_LIB}")
	install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
endfunction()

configure_file(cmake/verbena-config.cmake.in ${CMAKE_BINARY_DIR}/verbena-config.cmake @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/verbena-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/verbena-config.cmake ${CMAKE_BINARY_DIR}/verbena-config-version.cmake
	DESTINATION ${VERBENA_CONFIG_DIR} COMPONENT dev)
