# SPDX-License-Identifier: BSD-3-Clause
# The options of the build, and the layout of the build tree and of the prefix.

include(GNUInstallDirs)

option(AMALGAM_BUILD_STATIC "Also build libamalgam-na.a and libamalgam-hg.a" OFF)
option(AMALGAM_BUILD_MERCURY
    "Build what lets programs find us as Mercury: utilities, mercury.pc, CMake package mercury" OFF)
option(AMALGAM_BUILD_TESTS "Build the tests (needs cmocka)" ${PROJECT_IS_TOP_LEVEL})
option(AMALGAM_BUILD_TOOLS "Build hg_info, hg_perf, hg_cp and na_conformance" ON)
option(AMALGAM_BUILD_COMPARE "Build what scripts/compare.sh measures beside hg_perf; needs gRPC, ZeroMQ, nng, Cap'n Proto, UCX, Open MPI" OFF)
option(AMALGAM_WERROR "Turn warnings into errors" OFF)
set(AMALGAM_SANITIZE "" CACHE STRING
    "Sanitizers for everything, e.g. 'address,undefined' or 'thread'; empty for none")
option(AMALGAM_FUZZ "Instrument everything for libFuzzer and build the fuzz targets (clang)" OFF)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

# The ABI's version moves by its own rules; the header states it.
set(_abi_header "${PROJECT_SOURCE_DIR}/sdk/include/na_plugin.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_abi_header}")
foreach(_part MAJOR MINOR)
    file(STRINGS "${_abi_header}" _line REGEX "define NA_PLUGIN_ABI_${_part} +[0-9]+")
    string(REGEX REPLACE ".*_${_part} +([0-9]+).*" "\\1" AMALGAM_ABI_${_part} "${_line}")
endforeach()
set(AMALGAM_ABI_VERSION "${AMALGAM_ABI_MAJOR}.${AMALGAM_ABI_MINOR}")

# The core looks for plugins in amalgam/abi-<major>/ beside its own file. The build tree has the same layout as
# the prefix, so the core of the build tree finds the plugins of the build tree.
set(AMALGAM_PLUGIN_SUBDIR "amalgam/abi-${AMALGAM_ABI_MAJOR}")
set(AMALGAM_BUILD_LIBDIR "${PROJECT_BINARY_DIR}/lib")
set(AMALGAM_BUILD_BINDIR "${PROJECT_BINARY_DIR}/bin")
set(AMALGAM_BUILD_PLUGINDIR "${AMALGAM_BUILD_LIBDIR}/${AMALGAM_PLUGIN_SUBDIR}")
set(AMALGAM_INSTALL_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}/amalgam")
set(AMALGAM_INSTALL_PLUGINDIR "${CMAKE_INSTALL_LIBDIR}/${AMALGAM_PLUGIN_SUBDIR}")
set(AMALGAM_INSTALL_CMAKEDIR "${CMAKE_INSTALL_LIBDIR}/cmake/amalgam")
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
