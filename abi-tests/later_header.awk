# SPDX-License-Identifier: BSD-3-Clause
# Makes of na_plugin.h and the headers of its extensions those of a later minor: every table that may grow has
# more at its end:
#     awk -v dir=<folder of the later ones> -f later_header.awk <header>...

BEGIN {
    more["na_host"] = "void *(*later_service)(uint64_t size);"
    more["na_plugin_init"] = "uint64_t later_hint;"
    more["na_plugin_class_info"] = "uint64_t later_limit;"
    more["na_plugin"] = "int32_t (*later_function)(struct na_plugin_context *context);"
    more["na_plugin_mem_segments"] = "void (*later_function)(void);"
    more["na_plugin_multi_recv"] = "void (*later_function)(void);"
    more["na_plugin_addr_serialize"] = "void (*later_function)(void);"
    more["na_plugin_counters"] = "void (*later_function)(void);"
    more["na_plugin_offer_details"] = "void (*later_function)(void);"
    more["na_plugin_peer_events"] = "void (*later_function)(void);"
    more["na_plugin_mem_grant"] = "void (*later_function)(void);"
    more["na_plugin_mem_alloc"] = "void (*later_function)(void);"
    more["na_plugin_wrap"] = "void (*later_function)(void);"
    for (name in more)
        missing++
}

FNR == 1 {
    later = FILENAME
    sub(/.*\//, dir "/", later)
    printf "" >later
}

/^#define NA_PLUGIN_ABI_MINOR / {
    sub(/[0-9]+u/, "99u")
    minors++
}

/^struct [a-z_]+ \{$/ { table = $2 }

/^};$/ {
    if (table in more) {
        print "    " more[table] >later
        missing--
    }
    table = ""
}

{ print >later }

END { exit missing == 0 && minors == 1 ? 0 : 1 }
