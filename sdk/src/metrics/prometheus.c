/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the counters of classes in the text format of Prometheus, using public functions alone. */
#include "mercury_ext.h"
#include "na_ext.h"
#include "util/text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_SIZE     256
#define NA_MAX         32
#define PATHS          2 /* the class's main transport, and shared memory with auto_sm */

#define LOG_ERROR(...) NA_Log_write(NA_LOG_LEVEL_ERROR, "hg", __func__, __LINE__, __VA_ARGS__)

struct hg_counters_sum {
    struct hg_diag_counters diag;
    struct hg_ext_counters ext;
};

/* A sample. Samples of one metric are adjacent in the table, and the first has the help. */
struct hg_metric {
    const char *name;
    const char *help; /* NULL: another sample of the previous metric */
    const char *type;
    const char *labels; /* beside class and transport, with a comma before them */
    size_t offset;      /* of the value in struct hg_counters_sum */
};

#define DIAG(field) offsetof(struct hg_counters_sum, diag.field)
#define EXT(field)  offsetof(struct hg_counters_sum, ext.field)
#define FIRST(name, help, o)                    \
    {                                           \
        "amalgam_" name, help, "counter", "", o \
    }
#define GROUP(name, help, label, value, o)                              \
    {                                                                   \
        "amalgam_" name, help, "counter", "," label "=\"" value "\"", o \
    }
#define GAUGE(name, help, o)                  \
    {                                         \
        "amalgam_" name, help, "gauge", "", o \
    }

static const struct hg_metric hg_metrics[] = {
    FIRST("rpc_requests_sent_total", "Requests sent", DIAG(rpc_req_sent_count)),
    FIRST("rpc_requests_received_total", "Requests received", DIAG(rpc_req_recv_count)),
    GAUGE("rpc_requests_active", "Received requests that are not destroyed yet",
          DIAG(rpc_req_recv_active_count)),
    FIRST("rpc_responses_sent_total", "Responses sent", DIAG(rpc_resp_sent_count)),
    FIRST("rpc_responses_received_total", "Responses received", DIAG(rpc_resp_recv_count)),
    GROUP("rpc_overflows_total", "Messages whose data did not fit", "message", "request",
          DIAG(rpc_req_extra_count)),
    GROUP("rpc_overflows_total", NULL, "message", "response", DIAG(rpc_resp_extra_count)),
    FIRST("rpc_overflows_queued_total", "Such data that had to wait for the overflow budget",
          EXT(overflow_queued_count)),
    FIRST("rpc_overflows_refused_total", "Such data that the overflow budget had no room for",
          EXT(overflow_refused_count)),
    GAUGE("rpc_overflows_waiting", "Such data that wait for the overflow budget",
          EXT(overflow_waiting_count)),
    GAUGE("rpc_overflow_bytes", "Bytes of such data that the overflow budget has in use",
          EXT(overflow_bytes)),
    GROUP("rpc_forwards_total", "Forwards that ended, by how they did", "result", "success",
          EXT(forward_done_count)),
    GROUP("rpc_forwards_total", NULL, "result", "canceled", EXT(forward_canceled_count)),
    GROUP("rpc_forwards_total", NULL, "result", "timeout", EXT(forward_timeout_count)),
    GROUP("rpc_forwards_total", NULL, "result", "error", EXT(forward_error_count)),
    GROUP("rpc_sent_bytes_total", "Bytes of messages sent", "message", "request",
          EXT(req_sent_bytes)),
    GROUP("rpc_sent_bytes_total", NULL, "message", "response", EXT(resp_sent_bytes)),
    GROUP("rpc_received_bytes_total", "Bytes of messages received", "message", "request",
          EXT(req_recv_bytes)),
    GROUP("rpc_received_bytes_total", NULL, "message", "response", EXT(resp_recv_bytes)),
    GROUP("refused_total", "Messages refused", "reason", "magic", EXT(refused_magic_count)),
    GROUP("refused_total", NULL, "reason", "version", EXT(refused_version_count)),
    GROUP("refused_total", NULL, "reason", "header", EXT(refused_header_count)),
    GROUP("refused_total", NULL, "reason", "checksum", EXT(refused_checksum_count)),
    GROUP("refused_total", NULL, "reason", "key", EXT(refused_key_count)),
    GROUP("refused_total", NULL, "reason", "unknown_rpc", EXT(unknown_rpc_count)),
    FIRST("late_responses_total", "Responses that nobody waited for any more",
          EXT(late_response_count)),
    FIRST("send_errors_total", "Messages that the transport could not send", EXT(send_error_count)),
    FIRST("retries_total", "Operations tried again after the transport had no resources for them",
          EXT(retry_count)),
    FIRST("rpc_queued_total", "Forwards that had to wait for a limit of RPCs in flight",
          EXT(queued_count)),
    GAUGE("rpc_waiting", "Forwards that wait for a limit of RPCs in flight", EXT(waiting_count)),
    FIRST("timeouts_total", "Operations that their deadline ended", EXT(timeout_count)),
    FIRST("parked_total", "Operations that ended before the transport let go of them",
          EXT(parked_count)),
    FIRST("bulk_transfers_total", "Bulk transfers started", DIAG(bulk_count)),
    GROUP("bulk_failures_total", "Bulk transfers that did not succeed", "result", "canceled",
          EXT(bulk_canceled_count)),
    GROUP("bulk_failures_total", NULL, "result", "timeout", EXT(bulk_timeout_count)),
    GROUP("bulk_failures_total", NULL, "result", "error", EXT(bulk_error_count)),
    FIRST("bulk_bytes_total", "Bytes of bulk transfers that succeeded", EXT(bulk_bytes)),
    GROUP("auto_sm_total", "What went through shared memory for auto_sm", "kind", "request_sent",
          EXT(sm_req_sent_count)),
    GROUP("auto_sm_total", NULL, "kind", "request_received", EXT(sm_req_recv_count)),
    GROUP("auto_sm_total", NULL, "kind", "bulk_transfer", EXT(sm_bulk_count)),
};

#define HG_METRIC_COUNT (sizeof(hg_metrics) / sizeof(hg_metrics[0]))

/* The values of one class at the time of the call. */
struct hg_scrape {
    struct hg_counters_sum sum;
    struct na_counter na[PATHS][NA_MAX];
    size_t na_count[PATHS];
    char name[LABEL_SIZE];
    char transport[PATHS][LABEL_SIZE];
};

static hg_return_t hg_prometheus_check(hg_class_t *const *classes, size_t count,
                                       const hg_size_t *buf_size_p);
static hg_return_t hg_scrape_take(struct hg_scrape *scrape, const hg_class_t *hg_class,
                                  const char *name);
static hg_return_t hg_scrapes_check(const struct hg_scrape *scrapes, size_t count);
static void hg_metrics_print(const struct hg_scrape *scrapes, size_t count, struct text *text);
static void hg_metrics_print_na(const struct hg_scrape *scrapes, size_t count, struct text *text);
static void hg_metrics_print_na_all(const struct hg_scrape *scrapes, size_t count,
                                    const char *counter, struct text *text);
static const struct na_counter *hg_scrape_find(const struct hg_scrape *scrape, int path,
                                               size_t count, const char *counter);
static bool hg_scrapes_have(const struct hg_scrape *scrapes, size_t class_end, int path_end,
                            const char *counter);
static hg_return_t hg_text_give(const struct text *text, char *buf, hg_size_t *buf_size_p);
static void hg_label_escape(char *out, size_t size, const char *in);
static size_t hg_utf8_length(const char *in);

hg_return_t HG_Class_get_prometheus(const hg_class_t *hg_class, const char *name, char *buf,
                                    hg_size_t *buf_size_p)
{
    hg_class_t *const classes[] = {(hg_class_t *) (uintptr_t) hg_class};

    return HG_Classes_get_prometheus(classes, &name, 1, buf, buf_size_p);
}

hg_return_t HG_Classes_get_prometheus(hg_class_t *const *classes, const char *const *names,
                                      size_t count, char *buf, hg_size_t *buf_size_p)
{
    struct text text = TEXT_INITIALIZER;
    struct hg_scrape *scrapes;
    hg_return_t ret;
    size_t i;

    ret = hg_prometheus_check(classes, count, buf_size_p);
    if (ret != HG_SUCCESS)
        return ret;
    scrapes = calloc(count, sizeof(*scrapes));
    if (scrapes == NULL) {
        LOG_ERROR("cannot print the counters of %zu classes: out of memory", count);
        return HG_NOMEM;
    }
    for (i = 0; i < count && ret == HG_SUCCESS; i++)
        ret = hg_scrape_take(&scrapes[i], classes[i], names != NULL ? names[i] : NULL);
    if (ret == HG_SUCCESS)
        ret = hg_scrapes_check(scrapes, count);
    if (ret != HG_SUCCESS)
        goto out;
    hg_metrics_print(scrapes, count, &text);
    hg_metrics_print_na(scrapes, count, &text);
    ret = hg_text_give(&text, buf, buf_size_p);

out:
    text_free(&text);
    free(scrapes);
    return ret;
}

static hg_return_t hg_prometheus_check(hg_class_t *const *classes, size_t count,
                                       const hg_size_t *buf_size_p)
{
    size_t i;

    for (i = 0; classes != NULL && i < count && classes[i] != NULL; i++)
        ;
    if (classes != NULL && count > 0 && i == count && buf_size_p != NULL)
        return HG_SUCCESS;
    LOG_ERROR("cannot print counters: class %zu of %zu is NULL, size %p; pass all of them", i,
              count, (const void *) buf_size_p);
    return HG_INVALID_ARG;
}

static hg_return_t hg_scrape_take(struct hg_scrape *scrape, const hg_class_t *hg_class,
                                  const char *name)
{
    na_class_t *const na_classes[PATHS] = {HG_Class_get_na(hg_class), HG_Class_get_na_sm(hg_class)};
    hg_return_t ret;
    int path;

    ret = HG_Class_get_counters(hg_class, &scrape->sum.diag);
    if (ret == HG_SUCCESS)
        ret = HG_Class_get_ext_counters(hg_class, &scrape->sum.ext, sizeof(scrape->sum.ext));
    if (ret != HG_SUCCESS)
        return ret;
    if (name != NULL)
        hg_label_escape(scrape->name, sizeof(scrape->name), name);
    else
        (void) snprintf(scrape->name, sizeof(scrape->name), "%" PRIu32,
                        HG_Class_get_number(hg_class));
    for (path = 0; path < PATHS; path++) {
        if (na_classes[path] == NULL)
            continue;
        (void) snprintf(scrape->transport[path], LABEL_SIZE, "%s+%s",
                        NA_Get_class_name(na_classes[path]),
                        NA_Get_class_protocol(na_classes[path]));
        scrape->na_count[path] = NA_MAX;
        (void) NA_Class_get_counters(na_classes[path], scrape->na[path], &scrape->na_count[path]);
        if (scrape->na_count[path] > NA_MAX)
            scrape->na_count[path] = NA_MAX;
    }
    return HG_SUCCESS;
}

/* Refuses classes whose samples would have equal labels, which Prometheus rejects. */
static hg_return_t hg_scrapes_check(const struct hg_scrape *scrapes, size_t count)
{
    size_t i, j;

    for (i = 0; i < count; i++)
        for (j = 0; j < i; j++)
            if (strcmp(scrapes[i].name, scrapes[j].name) == 0 &&
                strcmp(scrapes[i].transport[0], scrapes[j].transport[0]) == 0) {
                LOG_ERROR("cannot print counters: classes %zu and %zu are both \"%s\" over %s; "
                          "give them other names",
                          j, i, scrapes[i].name, scrapes[i].transport[0]);
                return HG_INVALID_ARG;
            }
    return HG_SUCCESS;
}

/* The format demands that all samples of a metric are adjacent, after one line each of help and
 * type. */
static void hg_metrics_print(const struct hg_scrape *scrapes, size_t count, struct text *text)
{
    size_t first, end, i, j;

    for (first = 0; first < HG_METRIC_COUNT; first = end) {
        text_append(text, "# HELP %s %s\n# TYPE %s %s\n", hg_metrics[first].name,
                    hg_metrics[first].help, hg_metrics[first].name, hg_metrics[first].type);
        for (end = first + 1; end < HG_METRIC_COUNT && hg_metrics[end].help == NULL; end++)
            ;
        for (i = 0; i < count; i++) {
            for (j = first; j < end; j++) {
                uint64_t value;

                memcpy(&value, (const char *) &scrapes[i].sum + hg_metrics[j].offset,
                       sizeof(value));
                text_append(text, "%s{class=\"%s\",transport=\"%s\"%s} %" PRIu64 "\n",
                            hg_metrics[j].name, scrapes[i].name, scrapes[i].transport[0],
                            hg_metrics[j].labels, value);
            }
        }
    }
}

/* Prints the counters of the transports. Not every transport has the same counters. */
static void hg_metrics_print_na(const struct hg_scrape *scrapes, size_t count, struct text *text)
{
    size_t i, j;
    int path;

    for (i = 0; i < count; i++)
        for (path = 0; path < PATHS; path++)
            for (j = 0; j < scrapes[i].na_count[path]; j++)
                if (!hg_scrapes_have(scrapes, i, path, scrapes[i].na[path][j].name))
                    hg_metrics_print_na_all(scrapes, count, scrapes[i].na[path][j].name, text);
}

static void hg_metrics_print_na_all(const struct hg_scrape *scrapes, size_t count,
                                    const char *counter, struct text *text)
{
    size_t i;
    int path;

    text_append(text, "# HELP amalgam_%s_total Of the transport: %s\n", counter, counter);
    text_append(text, "# TYPE amalgam_%s_total counter\n", counter);
    for (i = 0; i < count; i++) {
        for (path = 0; path < PATHS; path++) {
            const struct na_counter *found =
                hg_scrape_find(&scrapes[i], path, scrapes[i].na_count[path], counter);

            if (found != NULL)
                text_append(text, "amalgam_%s_total{class=\"%s\",transport=\"%s\"} %" PRIu64 "\n",
                            counter, scrapes[i].name, scrapes[i].transport[path], found->value);
        }
    }
}

/* Searches the first `count` counters of a path. */
static const struct na_counter *hg_scrape_find(const struct hg_scrape *scrape, int path,
                                               size_t count, const char *counter)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (strcmp(scrape->na[path][i].name, counter) == 0)
            return &scrape->na[path][i];
    return NULL;
}

/* Returns whether a path before this one has the counter, so that it was printed already. */
static bool hg_scrapes_have(const struct hg_scrape *scrapes, size_t class_end, int path_end,
                            const char *counter)
{
    size_t i;
    int path;

    for (i = 0; i <= class_end; i++)
        for (path = 0; path < (i < class_end ? PATHS : path_end); path++)
            if (hg_scrape_find(&scrapes[i], path, scrapes[i].na_count[path], counter) != NULL)
                return true;
    return false;
}

static hg_return_t hg_text_give(const struct text *text, char *buf, hg_size_t *buf_size_p)
{
    const hg_size_t size = text->length + 1;
    hg_return_t ret = HG_SUCCESS;

    if (text->is_cut)
        ret = HG_NOMEM;
    else if (buf != NULL && size > *buf_size_p)
        ret = HG_OVERFLOW;
    if (buf != NULL && ret == HG_SUCCESS)
        memcpy(buf, text_get(text), size);
    else if (buf != NULL && *buf_size_p > 0)
        buf[0] = '\0';
    *buf_size_p = size;
    return ret;
}

/*
 * Escapes a label as the format demands. A byte that is not valid UTF-8 becomes '?', because it
 * would invalidate the whole text. Truncates to `size`, but not inside an escape or a character.
 */
static void hg_label_escape(char *out, size_t size, const char *in)
{
    size_t length = 0, part;

    for (; *in != '\0'; in += part) {
        const size_t valid = hg_utf8_length(in);
        const bool is_escaped = *in == '\\' || *in == '"' || *in == '\n';

        part = valid > 0 ? valid : 1;
        if (length + part + (is_escaped ? 1 : 0) + 1 > size)
            break;
        if (is_escaped)
            out[length++] = '\\';
        memcpy(out + length, in, part);
        if (valid == 0)
            out[length] = '?';
        else if (*in == '\n')
            out[length] = 'n';
        length += part;
    }
    out[length] = '\0';
}

/* Returns the bytes of the character at the start of a string, which is not empty, or 0 if it is
 * not valid UTF-8. */
static size_t hg_utf8_length(const char *in)
{
    const unsigned char *c = (const unsigned char *) in;
    const size_t length = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    size_t i;

    if (length == 1)
        return 1;
    if (c[0] < 0xc2 || c[0] > 0xf4)
        return 0;
    for (i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong encodings, surrogates, and code points beyond U+10FFFF. */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return length;
}
