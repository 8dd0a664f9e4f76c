# SPDX-License-Identifier: BSD-3-Clause
# Installs headers, pkg-config files, the CMake package, the pages, and the templates for writers of plugins. No
# installed file names the prefix, so that it can be moved. Plugins and tools are installed where they are declared.

include(CMakePackageConfigHelpers)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/sdk/include/"
    DESTINATION "${AMALGAM_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
# All pages and the files that they link to, in the same folders as here, so that the links work.
foreach(name README CHANGELOG CONTRIBUTING SECURITY)
    install(FILES "${PROJECT_SOURCE_DIR}/${name}.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.json")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/kubernetes" DESTINATION "${CMAKE_INSTALL_DOCDIR}/packaging")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/plugin-template"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/amalgam" USE_SOURCE_PERMISSIONS)

# pkg-config: every path is relative to the folder of the .pc file.
file(RELATIVE_PATH AMALGAM_PC_TO_PREFIX
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH AMALGAM_PC_TO_INCLUDEDIR
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_FULL_INCLUDEDIR}/amalgam")
string(REGEX REPLACE "/$" "" AMALGAM_PC_TO_PREFIX "${AMALGAM_PC_TO_PREFIX}")
foreach(name na hg plugin kit)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/amalgam-${name}.pc.in"
        "${PROJECT_BINARY_DIR}/pkgconfig/amalgam-${name}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/pkgconfig/amalgam-${name}.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/amalgam-config.cmake.in"
    "${PROJECT_BINARY_DIR}/package/amalgam-config.cmake"
    INSTALL_DESTINATION "${AMALGAM_INSTALL_CMAKEDIR}"
    PATH_VARS AMALGAM_INSTALL_PLUGINDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/amalgam-config-version.cmake"
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/package/amalgam-config.cmake"
    "${PROJECT_BINARY_DIR}/package/amalgam-config-version.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/AmalgamPlugin.cmake"
    "${PROJECT_SOURCE_DIR}/cmake/plugin.map"
    DESTINATION "${AMALGAM_INSTALL_CMAKEDIR}")
install(EXPORT amalgam NAMESPACE amalgam:: FILE amalgam-targets.cmake
    DESTINATION "${AMALGAM_INSTALL_CMAKEDIR}")
