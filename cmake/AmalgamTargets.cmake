# SPDX-License-Identifier: BSD-3-Clause
# The functions by which the folders of this repository declare their targets.

# amalgam_add_tool(<name> SOURCES <file>... [LIBS <lib>...])
#
# A program that is installed to bin, with a manual page. Without LIBS it links amalgam::hg. It sees tools/, so that
# shared parts read "common/x.h".
function(amalgam_add_tool name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
    amalgam_check_arguments(amalgam_add_tool "${arg_SOURCES}" "${arg_UNPARSED_ARGUMENTS}")
    if(NOT arg_LIBS)
        set(arg_LIBS amalgam::hg)
    endif()

    add_executable(${name} ${arg_SOURCES})
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tools")
    target_link_libraries(${name} PRIVATE ${arg_LIBS} Threads::Threads)
    file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${AMALGAM_BUILD_BINDIR}"
        INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    if(NOT AMALGAM_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
        amalgam_add_manual(${name})
    endif()
endfunction()

# Makes the manual page of a tool from its --help.
function(amalgam_add_manual name)
    set(page "${PROJECT_BINARY_DIR}/man/${name}.1")
    add_custom_command(OUTPUT "${page}"
        COMMAND "${CMAKE_COMMAND}" "-DTOOL=$<TARGET_FILE:${name}>" "-DVERSION=${PROJECT_VERSION}"
            "-DOUTPUT=${page}" -P "${PROJECT_SOURCE_DIR}/cmake/AmalgamManual.cmake"
        DEPENDS ${name} "${PROJECT_SOURCE_DIR}/cmake/AmalgamManual.cmake" VERBATIM)
    add_custom_target(${name}-manual ALL DEPENDS "${page}")
    install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endfunction()

# amalgam_add_network_plugin(<name> SOURCES <file>... [LIBS <lib>...] [DEFINITIONS <def>...])
#
# A plugin on top of the kit's message layer. Its modules are also the target
# amalgam-plugin-<name>, for the tests of what it keeps inside.
function(amalgam_add_network_plugin name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS;DEFINITIONS")
    amalgam_check_arguments(amalgam_add_network_plugin "${arg_SOURCES}"
        "${arg_UNPARSED_ARGUMENTS}")

    set(rooms amalgam-plugin-${name})
    add_library(${rooms} OBJECT ${arg_SOURCES})
    target_link_libraries(${rooms} PUBLIC amalgam::kit ${arg_LIBS})
    target_compile_definitions(${rooms} PRIVATE ${arg_DEFINITIONS})
    target_include_directories(${rooms} INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}")
    set_target_properties(${rooms} PROPERTIES POSITION_INDEPENDENT_CODE ON
        C_VISIBILITY_PRESET hidden)
    amalgam_add_plugin(${name} SOURCES $<TARGET_OBJECTS:${rooms}> LIBS ${rooms})
endfunction()

# amalgam_add_test(NAME <name> SOURCES <file>... [LIBS <lib>...] [LABELS <label>...]
#                  [TIMEOUT <seconds>] [ARGS <arg>...] [ENV <NAME=value>...] [DEPENDS <target>...]
#                  [DEFINITIONS <def>...] [INTERNAL] [PROCESSORS <n>] [LOOP] [EACH_TRANSPORT]
#                  [TRANSPORTS <init string>...] [RANKS <count>]
#                  [WITHOUT <init string> <reason>...])
#
# A cmocka program (target test_<name>) and its ctest entry <name>. Without LIBS it links
# amalgam::hg (and amalgam::na through it); a test of na alone says LIBS amalgam::na. INTERNAL
# replaces both by their static variants and adds sdk/src, to reach functions that are not
# exported. DEPENDS: plugins or tools that have to be built before. PROCESSORS: the number of other
# tests that this one replaces in a parallel run, for tests that keep the machine busy.
#
# TRANSPORTS: an entry for each of the named ones that was built, <name> for na+sm and
# <name>.<transport> for others, with AMALGAM_TEST_INIT saying which; na+sm when left out.
# EACH_TRANSPORT: all of AMALGAM_TEST_TRANSPORTS. LOOP: also an entry <name>.loop over a test plugin that
# differs from shared memory in all its limits and capabilities.
#
# RANKS: where peers have to be ranks of one MPI job, mpiexec also starts this number of transport_peer.
# WITHOUT: the entry of that transport only prints the reason why the test is left out. COST: the
# longest tests begin first.
function(amalgam_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "INTERNAL;LOOP;EACH_TRANSPORT"
        "NAME;TIMEOUT;PROCESSORS;RANKS;COST"
        "SOURCES;LIBS;LABELS;ARGS;ENV;DEPENDS;DEFINITIONS;TRANSPORTS;WITHOUT")
    amalgam_check_arguments(amalgam_add_test "${arg_SOURCES}" "${arg_UNPARSED_ARGUMENTS}")
    if(NOT arg_LIBS)
        set(arg_LIBS amalgam::hg)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 900)
    endif()
    if(arg_INTERNAL)
        list(TRANSFORM arg_LIBS REPLACE "^amalgam::(na|hg)$" "amalgam-\\1-testing")
    endif()

    set(target test_${arg_NAME})
    add_executable(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE ${arg_LIBS} PkgConfig::CMOCKA Threads::Threads)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
    if(arg_INTERNAL)
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/sdk/src"
            "${PROJECT_SOURCE_DIR}/sdk/kit/auth")
    endif()
    if(arg_DEPENDS)
        add_dependencies(${target} ${arg_DEPENDS})
    endif()
    if(arg_EACH_TRANSPORT)
        set(arg_TRANSPORTS ${AMALGAM_TEST_TRANSPORTS})
    elseif(NOT arg_TRANSPORTS)
        set(arg_TRANSPORTS na+sm)
    endif()
    set(transports)
    foreach(transport ${arg_TRANSPORTS})
        if(transport STREQUAL "na+sm" OR transport IN_LIST AMALGAM_TEST_TRANSPORTS)
            list(APPEND transports ${transport})
        endif()
    endforeach()
    if(AMALGAM_SANITIZE MATCHES "thread" AND NOT "tools" IN_LIST arg_LABELS)
        amalgam_has_threads(has_threads ${arg_SOURCES})
        if(NOT has_threads)
            list(SUBLIST transports 0 1 transports)
            set(arg_LOOP OFF)
        endif()
    endif()
    foreach(transport ${transports})
        if(transport STREQUAL "na+sm")
            amalgam_add_test_entry(${arg_NAME} "${arg_LABELS}" "${arg_ENV}")
        else()
            amalgam_add_test_entry(${arg_NAME}.${transport} "${arg_LABELS};${transport}"
                "${arg_ENV};AMALGAM_TEST_INIT=${transport}")
        endif()
    endforeach()
    if(arg_LOOP)
        add_dependencies(${target} test_plugin_loopfd)
        amalgam_add_test_entry(${arg_NAME}.loop "${arg_LABELS};loop"
            "${arg_ENV};${AMALGAM_TEST_LOOP_ENVIRONMENT}")
    endif()
endfunction()

# Sets whether one of the sources begins a thread. ThreadSanitizer finds nothing in a program with a single
# thread, so such a test runs over one transport there.
function(amalgam_has_threads result)
    set(${result} OFF PARENT_SCOPE)
    foreach(source ${ARGN})
        cmake_path(ABSOLUTE_PATH source)
        file(STRINGS "${source}" found REGEX "(pthread|thrd)_create" LIMIT_COUNT 1)
        if(found)
            set(${result} ON PARENT_SCOPE)
        endif()
    endforeach()
endfunction()

# Adds one entry of ctest from the arguments that amalgam_add_test parsed.
macro(amalgam_add_test_entry entry labels environment)
    amalgam_test_command(command ${entry} "${arg_RANKS}" ${arg_WITHOUT})
    add_test(NAME ${entry} COMMAND ${command} ${arg_ARGS})
    set_tests_properties(${entry} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT "${AMALGAM_TEST_ENVIRONMENT};${environment}" SKIP_RETURN_CODE 77)
    if(arg_PROCESSORS)
        set_tests_properties(${entry} PROPERTIES PROCESSORS ${arg_PROCESSORS})
    endif()
    if(arg_COST)
        set_tests_properties(${entry} PROPERTIES COST ${arg_COST})
    endif()
    if("${labels}" MATCHES "mpi[+]dynamic")
        amalgam_with_ompi_server(${entry} "${AMALGAM_TEST_ENVIRONMENT};${environment}")
    endif()
endmacro()

# Adds an entry whose processes find each other by the server that tests/mpi starts. Jobs communicate by
# sockets only.
function(amalgam_with_ompi_server entry environment)
    list(APPEND environment "OMPI_MCA_pmix_server_uri=file:${AMALGAM_OMPI_SERVER_FILE}"
        "OMPI_MCA_btl=self,tcp")
    set_tests_properties(${entry} PROPERTIES FIXTURES_REQUIRED ompi_server
        ENVIRONMENT "${environment}")
endfunction()

# Sets the command that starts the program of the caller's `target` over the transport in the entry's name: with
# ranks for peers, or, if <without> begins with that transport, only to print the reason.
function(amalgam_test_command result entry ranks)
    set(command ${target})
    if(entry MATCHES "[.](mpi|mpich)[+]static$" AND ranks)
        set(mpiexec "${AMALGAM_MPIEXEC_OPENMPI}")
        if(CMAKE_MATCH_1 STREQUAL "mpich")
            set(mpiexec "${AMALGAM_MPIEXEC_MPICH}")
        endif()
        set(command "${PROJECT_SOURCE_DIR}/tests/mpi/run_agents.sh" "${mpiexec}"
            ${CMAKE_MATCH_1}+static ${ranks} $<TARGET_FILE:transport_peer> $<TARGET_FILE:${target}>)
    endif()
    while(ARGN)
        list(POP_FRONT ARGN transport reason)
        if(entry MATCHES "[.]([^.]+)$" AND CMAKE_MATCH_1 STREQUAL transport)
            set(command sh -c "echo 'left out: ${reason}' && exit 77")
        endif()
    endwhile()
    set(${result} ${command} PARENT_SCOPE)
endfunction()

# Adds a second library of the objects of an existing one: no source is compiled twice, and the tests use the
# shipped objects.
function(amalgam_add_static_variant target of)
    add_library(${target} STATIC $<TARGET_OBJECTS:${of}>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C
        ARCHIVE_OUTPUT_DIRECTORY "${AMALGAM_BUILD_LIBDIR}")
    target_include_directories(${target} INTERFACE
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/sdk/include>"
        "$<INSTALL_INTERFACE:${AMALGAM_INSTALL_INCLUDEDIR}>")
endfunction()

# A library that is installed and exported to the CMake package. Out-of-tree users link static
# libraries by the names amalgam::na-static and amalgam::hg-static.
function(amalgam_install_library target)
    install(TARGETS ${target} EXPORT amalgam
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()
