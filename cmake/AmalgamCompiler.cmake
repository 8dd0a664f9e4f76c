# SPDX-License-Identifier: BSD-3-Clause
# Compiler and linker flags of every target of this project.

if(AMALGAM_BUILD_TESTS)
    enable_language(CXX) # only tests are C++: they hold the public headers to it
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 14)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Wconversion -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>)
if(AMALGAM_WERROR)
    add_compile_options(-Werror)
endif()

# Our own calls are bound at link time: calls inside a library are direct, calls between the
# libraries are one indirect call through the GOT.
add_compile_options(-fno-plt -fno-semantic-interposition)

if(AMALGAM_SANITIZE)
    set(_sanitize -fsanitize=${AMALGAM_SANITIZE} -fno-sanitize-recover=all
        -fno-omit-frame-pointer -fno-optimize-sibling-calls)
    add_compile_options(${_sanitize})
    add_link_options(${_sanitize})
endif()

if(AMALGAM_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR NOT AMALGAM_BUILD_TESTS OR NOT AMALGAM_SANITIZE)
        message(FATAL_ERROR "AMALGAM_FUZZ needs clang, AMALGAM_BUILD_TESTS and AMALGAM_SANITIZE")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Flags for shared objects. clang's sanitizer runtime lives in the program, so shared objects
# then have undefined symbols by design.
set(AMALGAM_SHARED_LINK_OPTIONS -Wl,-Bsymbolic-functions -Wl,-z,now -Wl,-z,relro)
if(NOT AMALGAM_SANITIZE)
    list(APPEND AMALGAM_SHARED_LINK_OPTIONS -Wl,-z,defs)
endif()

# The environment of the tests.
# - halt_on_error: a finding fails the test.
# - allocator_may_return_null: tests ask for absurd sizes and expect an error code.
# - intercept_tls_get_addr: the runtimes of GCC 12 and LLVM 14 mistake some thread-local blocks of loaded
#   libraries for blocks of an old C library, and their leak check then reads unmapped memory.
# - OMPI_MCA_pml: Open MPI's own choice, without half a second for the search for devices at each start.
# - the directory: Open MPI leaves files of killed processes there.
# - OMPI_MCA_mpi_yield_when_idle: with more ranks than processors Open MPI yields in each call that finds
#   nothing, and gets the processor back some ten milliseconds later on a busy machine.
set(AMALGAM_TEST_ENVIRONMENT "NA_PLUGIN_PATH=${AMALGAM_BUILD_PLUGINDIR}" "OMPI_MCA_pml=ob1"
    "OMPI_MCA_mpi_yield_when_idle=0"
    "OMPI_MCA_btl_vader_backing_directory=${PROJECT_BINARY_DIR}/open-mpi")
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/open-mpi")
if(AMALGAM_SANITIZE MATCHES "address")
    list(APPEND AMALGAM_TEST_ENVIRONMENT
        "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:halt_on_error=1:allocator_may_return_null=1:intercept_tls_get_addr=0")
endif()
if(AMALGAM_SANITIZE MATCHES "undefined")
    list(APPEND AMALGAM_TEST_ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
endif()
if(AMALGAM_SANITIZE MATCHES "thread")
    list(APPEND AMALGAM_TEST_ENVIRONMENT
        "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:allocator_may_return_null=1")
endif()
