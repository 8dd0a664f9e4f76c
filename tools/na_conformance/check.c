/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of checks, and the promises that are watched during all checks. */

#include "na_conformance/check.h"

#include "na_conformance/shared.h"

const struct conf_check conf_checks_watch[] = {
    [CONF_WATCH_ONCE] = {1, "op.once", "An accepted operation is completed once and not twice",
                         NULL, 0},
    [CONF_WATCH_ACCEPTED] = {2, "op.accepted",
                             "Nothing is completed but what was accepted and is outstanding", NULL,
                             0},
    [CONF_WATCH_COMPLETES] =
        {3, "op.completes", "Every accepted operation is completed, by context_stop at the latest",
         NULL, 0},
    [CONF_WATCH_FORM] = {4, "op.form",
                         "Completions have the form of their operation: status, size, source", NULL,
                         0},
    [CONF_WATCH_BOUNDS] = {5, "mem.bounds",
                           "No byte outside of what was given is written: buffers, operations, "
                           "memory of the host",
                           NULL, 0},
    [CONF_WATCH_FREE] = {6, "mem.free",
                         "mem_free gets what mem_alloc gave, once; alignments are powers of two",
                         NULL, 0},
    [CONF_WATCH_LEAK] = {7, "mem.leak",
                         "After finalize and cleanup all memory of the host was given back", NULL,
                         0},
    [CONF_WATCH_BLOCKS] = {8, "call.blocks", "What may not block does not", NULL, 0},
    [CONF_WATCH_POLL] = {9, "call.poll", "A poll never fails because of a peer", NULL, 0},
    [CONF_WATCH_DESCRIPTOR] = {10, "table.unchanged",
                               "The descriptor stays as it is for as long as the process lives",
                               NULL, 0},
    [CONF_WATCH_PEER] = {11, "peer.survives", "No process ends because of what another one does",
                         NULL, 0},
    [CONF_WATCH_AFTER] = {12, "op.after",
                          "The private part of an operation is left alone once its completion was "
                          "reported",
                          NULL, 0},
    [CONF_WATCHES] = {0, NULL, NULL, NULL, 0},
};

const struct conf_check *conf_check_at(size_t i)
{
    static const struct conf_check *const lists[] = {
        conf_checks_watch, conf_checks_table,   conf_checks_class,   conf_checks_context,
        conf_checks_stop,  conf_checks_address, conf_checks_message, conf_checks_receive,
        conf_checks_rma,   conf_checks_cancel,  conf_checks_wait,    conf_checks_thread,
        conf_checks_death,
    };

    for (size_t list = 0; list < sizeof(lists) / sizeof(lists[0]); list++)
        for (const struct conf_check *check = lists[list]; check->number != 0; check++)
            if (i-- == 0)
                return check;
    return NULL;
}
