# SPDX-License-Identifier: BSD-3-Clause
# Builds transport plugins, in this repository and in projects that find the package.
# Needs AMALGAM_INSTALL_PLUGINDIR, and optionally AMALGAM_BUILD_PLUGINDIR and
# AMALGAM_SHARED_LINK_OPTIONS.

set(AMALGAM_PLUGIN_MAP "${CMAKE_CURRENT_LIST_DIR}/plugin.map")

# amalgam_add_plugin(<name> SOURCES <file>... [LIBS <lib>...] [DEFINITIONS <def>...]
#                    [TARGET <target>] [OUTPUT_DIR <dir>] [NO_INSTALL])
#
# Adds a transport plugin na_<name>.so. It sees the SDK's headers, links no library of the SDK and exports only
# the ABI's entry symbol. TARGET (default na_<name>) and OUTPUT_DIR are for tests that need several plugins of
# one name; these plugins are also NO_INSTALL.
function(amalgam_add_plugin name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "TARGET;OUTPUT_DIR"
        "SOURCES;LIBS;DEFINITIONS")
    amalgam_check_arguments(amalgam_add_plugin "${arg_SOURCES}" "${arg_UNPARSED_ARGUMENTS}")
    if(NOT arg_TARGET)
        set(arg_TARGET na_${name})
    endif()
    if(NOT arg_OUTPUT_DIR AND AMALGAM_BUILD_PLUGINDIR)
        set(arg_OUTPUT_DIR "${AMALGAM_BUILD_PLUGINDIR}")
    endif()

    add_library(${arg_TARGET} MODULE ${arg_SOURCES})
    target_link_libraries(${arg_TARGET} PRIVATE amalgam::plugin Threads::Threads ${arg_LIBS})
    target_compile_definitions(${arg_TARGET} PRIVATE ${arg_DEFINITIONS})
    target_link_options(${arg_TARGET} PRIVATE ${AMALGAM_SHARED_LINK_OPTIONS}
        "-Wl,--version-script,${AMALGAM_PLUGIN_MAP}")
    set_target_properties(${arg_TARGET} PROPERTIES PREFIX "" OUTPUT_NAME na_${name}
        C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
        LINK_DEPENDS "${AMALGAM_PLUGIN_MAP}")
    if(arg_OUTPUT_DIR)
        set_target_properties(${arg_TARGET} PROPERTIES LIBRARY_OUTPUT_DIRECTORY
            "${arg_OUTPUT_DIR}")
    endif()
    if(NOT arg_NO_INSTALL)
        install(TARGETS ${arg_TARGET} LIBRARY DESTINATION "${AMALGAM_INSTALL_PLUGINDIR}")
    endif()
endfunction()

function(amalgam_check_arguments function sources unparsed)
    if(NOT sources)
        message(FATAL_ERROR "${function}: SOURCES is missing")
    endif()
    if(unparsed)
        message(FATAL_ERROR "${function}: unknown arguments: ${unparsed}")
    endif()
endfunction()
