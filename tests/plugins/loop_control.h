/* SPDX-License-Identifier: BSD-3-Clause */
/* The struct by which tests make the loop plugin misbehave; a vendor's extension returns it. */

#ifndef LOOP_CONTROL_H
#define LOOP_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#define LOOP_CONTROL_ID "org.amalgam.test.loop/1"

struct loop_control {
    uint32_t size;
    uint32_t reserved;
    const char *fail;           /* name of the function that fails, or NULL */
    int32_t fail_status;        /* the status that it returns */
    uint32_t complete_twice;    /* report each completion two times */
    uint32_t complete_now;      /* complete inside the call that posts */
    uint32_t hold;              /* sends stay outstanding */
    uint32_t leave_on_stop;     /* context_stop leaves everything outstanding */
    uint32_t lie_about_size;    /* report more bytes than the buffer has */
    uint32_t lie_no_source;     /* report unexpected messages without a sender */
    uint32_t refuse_after;      /* complete a send, then refuse it */
    uint32_t odd_offers;        /* offer unusable names: 1: of protocols; 2: also of a device */
    uint32_t odd_strings;       /* 1: addresses without a terminating NUL; 2: an absurd length */
    uint32_t expected_header;   /* bytes at the front of expected messages */
    uint64_t more_capabilities; /* capabilities of classes besides RMA */
    uint64_t max_unexpected;    /* max_unexpected_size of classes; 0: the default */
    uint64_t max_rma;           /* max_rma_size of classes; 0: the default */
    void (*hook)(const char *function); /* called at the start of each function; NULL: none */
    atomic_uint trusted;                /* calls of cancel_trusted */
    uint32_t more_counters;             /* counters besides `wakes`; if not 0, also wrong names */
    char address[64];                   /* address that the last class was opened with */
    char options[64];                   /* options that the last class was opened with */
    atomic_uint objects; /* classes, contexts, addresses and memory handles that exist */
    atomic_uint wakes;   /* calls of wake */
};

#endif /* LOOP_CONTROL_H */
