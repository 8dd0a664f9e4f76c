# SPDX-License-Identifier: BSD-3-Clause
# Writes a manual page from a tool's --help, which has the sections of a manual page:
#     cmake -DTOOL=<program> -DVERSION=<release> -DOUTPUT=<file> -P AmalgamManual.cmake

get_filename_component(name "${TOOL}" NAME)
execute_process(COMMAND "${TOOL}" --help OUTPUT_VARIABLE help RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR NOT help MATCHES "^NAME\n    ${name} - ")
    message(FATAL_ERROR "${TOOL} --help ended with ${result}, or does not begin as a manual page does")
endif()

string(REPLACE "\\" "\\e" help "${help}")
string(REPLACE "-" "\\-" help "${help}")
string(REGEX REPLACE "\n    " "\n" help "\n${help}")
string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" help "${help}")
# Lines are not filled, so that tables of options keep their layout.
string(REGEX REPLACE "\n+([A-Z][A-Z ]+)\n" "\n.fi\n.SH \\1\n.nf\n" help "\n${help}")
string(REGEX REPLACE "^\n*\\.fi\n.SH NAME\n.nf\n([^ ]+) \\\\- " "\n.SH NAME\n\\1 \\\\- " help "${help}")
string(REGEX REPLACE "^(\n.SH NAME\n[^\n]*\n)\n*.fi\n" "\\1" help "${help}")
string(TOUPPER "${name}" title)
file(WRITE "${OUTPUT}" ".TH ${title} 1 \"\" \"Amalgam ${VERSION}\" \"Amalgam\"${help}")
