# SPDX-License-Identifier: BSD-3-Clause
# How the tests of this folder declare plugins, tests and checks. A plugin is built with the headers
# of a version: v1.0 and such, the frozen ones, or later, today's as a later minor would have them.
# Its sources are those of tests/plugins, which therefore compile with every frozen header.

set(ABI_BINARY_DIR "${PROJECT_BINARY_DIR}/abi-tests")
set(ABI_PLUGIN_SOURCES "${PROJECT_SOURCE_DIR}/tests/plugins")
file(GLOB ABI_RELEASES CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" v*)
foreach(release ${ABI_RELEASES})
    set(ABI_INCLUDE_${release} "${CMAKE_CURRENT_SOURCE_DIR}/${release}/include")
endforeach()
set(ABI_INCLUDE_todays "${PROJECT_SOURCE_DIR}/sdk/include")
set(ABI_INCLUDE_later "${CMAKE_CURRENT_BINARY_DIR}/later/include")

# A later minor: each table that may grow is longer.
file(GLOB today CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/sdk/include/na_plugin*.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${today} "${CMAKE_CURRENT_SOURCE_DIR}/later_header.awk")
file(MAKE_DIRECTORY "${ABI_INCLUDE_later}")
execute_process(COMMAND awk -v "dir=${ABI_INCLUDE_later}" -f "${CMAKE_CURRENT_SOURCE_DIR}/later_header.awk"
    ${today} RESULT_VARIABLE result)
if(result)
    message(FATAL_ERROR "later_header.awk does not know the headers of the plugin ABI any more")
endif()

add_custom_target(abi_test_plugins)

# abi_add_plugin(<version> <name> FOLDER <folder> SOURCES <file>... [DEFINITIONS <def>...])
function(abi_add_plugin version name)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "FOLDER" "SOURCES;DEFINITIONS")
    string(MAKE_C_IDENTIFIER "abi_${arg_FOLDER}_${name}" target)
    amalgam_add_plugin(${name} SOURCES ${arg_SOURCES} NO_INSTALL TARGET ${target}
        OUTPUT_DIR "${ABI_BINARY_DIR}/${arg_FOLDER}" DEFINITIONS ${arg_DEFINITIONS})
    # Before all others, so that it is this na_plugin.h that is found.
    target_include_directories(${target} BEFORE PRIVATE "${ABI_INCLUDE_${version}}")
    target_include_directories(${target} PRIVATE "${ABI_PLUGIN_SOURCES}")
    # The sources name no members that a later minor adds.
    target_compile_options(${target} PRIVATE -Wno-missing-field-initializers)
    add_dependencies(abi_test_plugins ${target})
endfunction()

# A transport within one process, which works.
function(abi_add_loop version name)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "FOLDER" "SOURCES;DEFINITIONS")
    abi_add_plugin(${version} ${name} FOLDER ${arg_FOLDER}
        SOURCES "${ABI_PLUGIN_SOURCES}/loop.c" "${ABI_PLUGIN_SOURCES}/loop_memory.c"
                "${ABI_PLUGIN_SOURCES}/loop_message.c" ${arg_SOURCES}
        DEFINITIONS LOOP_NAME="${name}" ${arg_DEFINITIONS})
endfunction()

# A transport that can do nothing, and is wrong in one way or another.
function(abi_add_variant version file)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "FOLDER;NAME" "DEFINITIONS")
    if(NOT arg_NAME)
        set(arg_NAME ${file})
    endif()
    abi_add_plugin(${version} ${file} FOLDER ${arg_FOLDER}
        SOURCES "${ABI_PLUGIN_SOURCES}/variant.c"
        DEFINITIONS VARIANT_NAME="${arg_NAME}" ${arg_DEFINITIONS})
endfunction()

# A shared object with a plugin's file name that does not export what a plugin does.
function(abi_add_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER" "SOURCES;DEFINITIONS;LIBS")
    set(target abi_module_${name})
    add_library(${target} MODULE ${arg_SOURCES})
    target_include_directories(${target} PRIVATE "${ABI_INCLUDE_v1.0}")
    target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
    target_link_libraries(${target} PRIVATE ${arg_LIBS})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME na_${name}
        LIBRARY_OUTPUT_DIRECTORY "${ABI_BINARY_DIR}/${arg_FOLDER}")
    add_dependencies(abi_test_plugins ${target})
endfunction()

# A cmocka program, as amalgam_add_test declares it.
function(abi_add_test name)
    amalgam_add_test(NAME abi_${name} ${ARGN} LABELS abi DEPENDS abi_test_plugins)
endfunction()

# A script of this folder as a test.
function(abi_add_check name script)
    add_test(NAME abi_${name} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${ARGN})
    set(environment "CC=${CMAKE_C_COMPILER}" "CXX=${CMAKE_CXX_COMPILER}" "CMAKE=${CMAKE_COMMAND}"
        "NM=${CMAKE_NM}" "READELF=${CMAKE_READELF}")
    set_tests_properties(abi_${name} PROPERTIES LABELS abi TIMEOUT 900 SKIP_RETURN_CODE 77
        ENVIRONMENT "${environment}")
endfunction()
