# SPDX-License-Identifier: BSD-3-Clause
# A program of each release runs over pairs of a core and a plugin: the core as it was then, as it
# was with the plugin ABI 1.1, as it is, and as a later minor may be; plugins built with the headers of then, of a later minor, and
# today's transports.

# What a program of a release was linked against: the names and their versions, and no code.
function(abi_add_stub release name)
    set(symbols_file "${CMAKE_CURRENT_SOURCE_DIR}/${release}/${name}.symbols")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${symbols_file}")
    file(STRINGS "${symbols_file}" symbols)
    set(nodes)
    set(code)
    foreach(symbol ${symbols})
        string(REPLACE "@@" ";" parts "${symbol}")
        list(GET parts 0 function)
        list(GET parts 1 node)
        string(APPEND code "void ${function}(void);\nvoid ${function}(void)\n{\n}\n\n")
        string(APPEND functions_${node} "    ${function};\n")
        list(APPEND nodes ${node})
    endforeach()
    list(REMOVE_DUPLICATES nodes)
    set(map)
    foreach(node ${nodes})
        string(APPEND map "${node} {\nglobal:\n${functions_${node}}};\n")
    endforeach()
    set(stub "${CMAKE_CURRENT_BINARY_DIR}/${release}/${name}")
    set(target abi_${release}_stub_${name})
    file(CONFIGURE OUTPUT "${stub}.c" CONTENT "${code}" @ONLY)
    file(CONFIGURE OUTPUT "${stub}.map" CONTENT "${map}" @ONLY)

    add_library(${target} SHARED "${stub}.c")
    target_compile_options(${target} PRIVATE -fvisibility=default)
    target_link_options(${target} PRIVATE "-Wl,--version-script,${stub}.map")
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION 1.0.0 SOVERSION 1
        LINK_DEPENDS "${stub}.map" LIBRARY_OUTPUT_DIRECTORY "${ABI_BINARY_DIR}/${release}/stubs")
endfunction()

# Today's core with the tables of a later minor.
get_target_property(sources amalgam-na SOURCES)
add_library(abi_later_core SHARED ${sources})
target_include_directories(abi_later_core PRIVATE "${ABI_INCLUDE_later}"
    "${PROJECT_SOURCE_DIR}/sdk/include" "${PROJECT_SOURCE_DIR}/sdk/src")
target_compile_definitions(abi_later_core PRIVATE AMALGAM_PLUGIN_SUBDIR="${AMALGAM_PLUGIN_SUBDIR}")
target_link_libraries(abi_later_core PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(abi_later_core PRIVATE ${AMALGAM_SHARED_LINK_OPTIONS}
    "-Wl,--version-script,${PROJECT_SOURCE_DIR}/sdk/na.map")
set_target_properties(abi_later_core PROPERTIES OUTPUT_NAME amalgam-na SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY "${ABI_BINARY_DIR}/later/core")

# abi_add_pair(<release> <core> <folder of the core> <init string> <folder of the plugin>)
function(abi_add_pair release core core_dir init plugin_dir)
    set(name abi_${release}_program_over_${core}_core_with_${init})
    add_test(NAME ${name} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/pair.sh"
        "$<TARGET_FILE:abi_${release}_program>" "${init}" "${core_dir}" "${plugin_dir}"
        "${AMALGAM_BUILD_LIBDIR}")
    set_tests_properties(${name} PROPERTIES LABELS abi TIMEOUT 900 SKIP_RETURN_CODE 77)
    if(core STREQUAL "its")
        set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED abi_${release}_core)
    elseif(core STREQUAL "minor1")
        set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED abi_minor1_core)
    endif()
endfunction()

# abi_add_pairs(<release> <core> <folder of the core>)
function(abi_add_pairs release core core_dir)
    abi_add_pair(${release} ${core} "${core_dir}" loop+self "${ABI_BINARY_DIR}/${release}/loop")
    foreach(plugin truncated later)
        abi_add_pair(${release} ${core} "${core_dir}" ${plugin}+self "${ABI_BINARY_DIR}/results")
    endforeach()
    abi_add_pair(${release} ${core} "${core_dir}" na+sm "${AMALGAM_BUILD_PLUGINDIR}")
    foreach(plugin ofi ucx)
        if(TARGET na_${plugin})
            abi_add_pair(${release} ${core} "${core_dir}" ${plugin}+tcp
                "${AMALGAM_BUILD_PLUGINDIR}")
        endif()
    endforeach()
endfunction()

# abi_add_core(<folder with the file source> <where it is built>)
function(abi_add_core name core_dir)
    add_test(NAME abi_${name}_core_builds
        COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/old_core.sh" ${name} "${core_dir}")
    set_tests_properties(abi_${name}_core_builds PROPERTIES LABELS abi TIMEOUT 900
        SKIP_RETURN_CODE 77 FIXTURES_SETUP abi_${name}_core
        ENVIRONMENT "CC=${CMAKE_C_COMPILER};CMAKE=${CMAKE_COMMAND}")
endfunction()

# The program of a release, that release's core, built from its own sources, and all the pairs.
function(abi_add_release release)
    set(core_dir "${ABI_BINARY_DIR}/${release}/core")
    abi_add_stub(${release} amalgam-na)
    abi_add_stub(${release} amalgam-hg)
    add_executable(abi_${release}_program application.c)
    target_include_directories(abi_${release}_program PRIVATE "${ABI_INCLUDE_${release}}")
    target_link_libraries(abi_${release}_program PRIVATE
        abi_${release}_stub_amalgam-hg abi_${release}_stub_amalgam-na)
    set_target_properties(abi_${release}_program PROPERTIES SKIP_BUILD_RPATH ON
        RUNTIME_OUTPUT_DIRECTORY "${ABI_BINARY_DIR}/${release}")

    # The README's, in two processes of two releases over one plugin.
    add_executable(abi_${release}_sum "${PROJECT_BINARY_DIR}/tests/readme/sum.c")
    target_include_directories(abi_${release}_sum PRIVATE "${ABI_INCLUDE_${release}}")
    target_link_libraries(abi_${release}_sum PRIVATE
        abi_${release}_stub_amalgam-hg abi_${release}_stub_amalgam-na)
    set_target_properties(abi_${release}_sum PROPERTIES SKIP_BUILD_RPATH ON
        RUNTIME_OUTPUT_DIRECTORY "${ABI_BINARY_DIR}/${release}")
    add_test(NAME abi_${release}_and_todays_processes_talk
        COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/mixed.sh" "$<TARGET_FILE:abi_${release}_sum>" "${core_dir}/lib"
            "${AMALGAM_BUILD_LIBDIR}" "${AMALGAM_BUILD_PLUGINDIR}")
    set_tests_properties(abi_${release}_and_todays_processes_talk PROPERTIES LABELS abi TIMEOUT 900
        SKIP_RETURN_CODE 77 FIXTURES_REQUIRED abi_${release}_core)

    abi_add_core(${release} "${core_dir}")
    abi_add_pairs(${release} its "${core_dir}/lib")
    abi_add_pairs(${release} minor1 "${ABI_BINARY_DIR}/minor1/core/lib")
    abi_add_pairs(${release} todays "${AMALGAM_BUILD_LIBDIR}")
    abi_add_pairs(${release} later "${ABI_BINARY_DIR}/later/core")
endfunction()

# Between two releases: plugin ABI 1.1, whose table ends before cancel_trusted.
abi_add_core(minor1 "${ABI_BINARY_DIR}/minor1/core")
foreach(release ${ABI_RELEASES})
    abi_add_release(${release})
endforeach()
