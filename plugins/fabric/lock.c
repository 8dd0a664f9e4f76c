/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint's lock, for the plugin. */

#include "state.h"

void fabric_lock(struct fabric_endpoint *endpoint)
{
    kit_lock_take(&endpoint->state->lock);
}

void fabric_unlock(struct fabric_endpoint *endpoint)
{
    kit_lock_drop(&endpoint->state->lock);
}
