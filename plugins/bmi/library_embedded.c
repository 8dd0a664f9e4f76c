/* SPDX-License-Identifier: BSD-3-Clause */
/* The BMI in bmi-tcp/: an instance for each class, a descriptor to wait on, a clean cancel. */

#include "bmi_na.h"

#include <stdio.h>

static void library_log(int level, const char *message);

const int library_test_ms = BMI_TEST_ONLY;
const bool library_answers_source = false;
const char library_name[] = "embedded";

int32_t library_open(struct library *library, struct sockaddr_storage *place)
{
    char host[128], name[160];
    int port, classes = 1, drops = 1;
    int ret;

    library->instance = BMI_instance_create(library_log);
    if (library->instance == NULL)
        return NA_PLUGIN_NOMEM;
    library_use(library);
    kit_location_format(place, host, sizeof(host));
    (void) snprintf(name, sizeof(name), BMI_NA_PREFIX "%s", host);
    ret = BMI_initialize("bmi_tcp", name, BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC);
    if (ret != 0) {
        BMI_NA_LOG_ERROR("cannot listen at '%s': %s", host, bmi_na_reason(ret));
        return bmi_na_status(ret);
    }
    library->is_open = true;
    (void) BMI_set_info(0, BMI_CLASSES, &classes);
    /* Receives are posted before their pieces are sent, so others belong to ended transfers. */
    (void) BMI_set_info(0, BMI_DROP_UNWANTED, &drops);
    ret = BMI_get_info(0, BMI_TCP_GET_PORT, &port);
    if (ret != 0)
        return bmi_na_status(ret);
    bmi_na_set_port(place, (uint16_t) port);
    return NA_PLUGIN_SUCCESS;
}

void library_close(struct library *library)
{
    if (library->instance == NULL)
        return;
    library_use(library);
    if (library->is_open)
        (void) BMI_finalize();
    BMI_instance_destroy(library->instance);
    library->instance = NULL;
    library->is_open = false;
}

void library_use(const struct library *library)
{
    BMI_instance_use(library->instance);
}

int library_progress(void)
{
    return BMI_progress(0);
}

int library_wait_fd(void)
{
    return BMI_get_wait_fd();
}

bool library_may_wait(void)
{
    return BMI_may_wait() != 0;
}

void library_wake_in(int ms)
{
    (void) BMI_wake_in(ms);
}

int library_may_send(BMI_addr_t address)
{
    return BMI_may_send(address);
}

void library_dial(BMI_addr_t address)
{
    (void) BMI_set_info(address, BMI_DIAL, NULL);
}

bool library_leave(bmi_op_id_t id)
{
    return BMI_leave(id) == 0;
}

bool library_detach(bmi_op_id_t id)
{
    return BMI_detach(id) == 0;
}

static void library_log(int level, const char *message)
{
    na_plugin_log(kit_host, (uint32_t) level, BMI_NA_NAME, "bmi", 0, "%s", message);
}
