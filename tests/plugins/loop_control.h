/* SPDX-License-Identifier: BSD-3-Clause */
/* How tests make the loop plugin misbehave: a vendor's extension that gives this struct. */

#ifndef LOOP_CONTROL_H
#define LOOP_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#define LOOP_CONTROL_ID "org.amalgam.test.loop/1"

struct loop_control {
    uint32_t size;
    uint32_t reserved;
    const char *fail;           /* name of the function that fails, or NULL */
    int32_t fail_status;        /* and how */
    uint32_t complete_twice;    /* report each completion two times */
    uint32_t complete_now;      /* complete inside of the call that posts */
    uint32_t hold;              /* sends stay outstanding */
    uint32_t leave_on_stop;     /* context_stop leaves everything outstanding */
    uint32_t lie_about_size;    /* report more bytes than the buffer has */
    uint32_t lie_no_source;     /* report unexpected messages without a sender */
    uint32_t refuse_after;      /* complete a send, then refuse it */
    uint32_t odd_offers;        /* offer names that no init string has */
    uint32_t odd_strings;       /* write addresses 1: without an end, 2: that are too long */
    uint32_t expected_header;   /* bytes at the front of expected messages */
    uint64_t more_capabilities; /* of classes, beyond the plugin's */
    uint64_t max_unexpected;    /* the limit of classes; 0 for a good one */
    uint64_t max_rma;           /* likewise */
    void (*hook)(const char *function); /* called when a function begins; NULL: nothing */
    atomic_uint trusted;                /* calls of cancel_trusted */
    uint32_t more_counters;             /* counters beside the one, some of them with wrong names */
    char address[64];                   /* what the last class was opened with */
    char options[64];                   /* likewise */
    atomic_uint objects; /* classes, contexts, addresses and memory handles that exist */
    atomic_uint wakes;   /* calls of wake */
};

#endif /* LOOP_CONTROL_H */
