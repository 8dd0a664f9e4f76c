/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generators of argument structures and of the routines that encode and decode them, and the
 * registration of an RPC that uses them:
 *
 *     MERCURY_GEN_PROC(open_in_t, ((hg_string_t)(path))((int32_t)(flags)))
 *     MERCURY_GEN_PROC(open_out_t, ((int32_t)(result)))
 *     id = MERCURY_REGISTER(hg_class, "open", open_in_t, open_out_t, open_cb);
 *
 * A field is ((type)(name)); there may be any number of them. `type` is any name for which a
 * routine hg_proc_<type> exists, one generated here included. Those of strings are in
 * mercury_proc_string.h; floating-point numbers have none. Needs no Boost; its preprocessor
 * header is included where HG_HAS_BOOST is defined, for programs that count on its names.
 */
#ifndef MERCURY_MACROS_H
#define MERCURY_MACROS_H

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"

#ifdef HG_HAS_BOOST
#    include <boost/preprocessor.hpp>
#endif

/* Joins two names after expanding them. */
#define HG_GEN_JOIN(a, b)     HG_GEN_JOIN_NOW(a, b)
#define HG_GEN_JOIN_NOW(a, b) a##b

/* Type and name of a field (type)(name): the first macro of each pair takes the type. */
#define HG_GEN_GET_TYPE(field) HG_GEN_KEEP_TYPE field
#define HG_GEN_KEEP_TYPE(type) type HG_GEN_DROP_NAME
#define HG_GEN_DROP_NAME(name)
#define HG_GEN_GET_NAME(field) HG_GEN_DROP_TYPE field
#define HG_GEN_DROP_TYPE(type) HG_GEN_KEEP_NAME
#define HG_GEN_KEEP_NAME(name) name

/* One field of a structure, the call that processes it, and the call that frees it after a failure.
 */
#define HG_GEN_STRUCT_FIELD(r, data, field) HG_GEN_GET_TYPE(field) HG_GEN_GET_NAME(field);
#define HG_GEN_CALL(struct_name, field)           \
    HG_GEN_JOIN(hg_proc_, HG_GEN_GET_TYPE(field)) \
    (proc, &struct_name->HG_GEN_GET_NAME(field))
#define HG_GEN_PROC(r, struct_name, field) \
    ret = HG_GEN_CALL(struct_name, field); \
    if (unlikely(ret != HG_SUCCESS))       \
        goto hg_gen_undo;                  \
    done++;
#define HG_GEN_UNDO(r, struct_name, field)      \
    if (done > 0) {                             \
        done--;                                 \
        (void) HG_GEN_CALL(struct_name, field); \
    }

/*
 * Walk along a sequence (field)(field)...: each of two macros handles one field and leaves the name
 * of the other in front of the rest, so neither expands inside itself and there is no limit.
 * Joining _END to the rest after the last field makes it expand to nothing.
 */
#define HG_GEN_FIELDS(fields) HG_GEN_JOIN(HG_GEN_FIELD_A fields, _END)
#define HG_GEN_FIELD_A(field) HG_GEN_STRUCT_FIELD(, , field) HG_GEN_FIELD_B
#define HG_GEN_FIELD_B(field) HG_GEN_STRUCT_FIELD(, , field) HG_GEN_FIELD_A
#define HG_GEN_FIELD_A_END
#define HG_GEN_FIELD_B_END
#define HG_GEN_PROCS(fields) HG_GEN_JOIN(HG_GEN_PROC_A fields, _END)
#define HG_GEN_PROC_A(field) HG_GEN_PROC(, struct_data, field) HG_GEN_PROC_B
#define HG_GEN_PROC_B(field) HG_GEN_PROC(, struct_data, field) HG_GEN_PROC_A
#define HG_GEN_PROC_A_END
#define HG_GEN_PROC_B_END
#define HG_GEN_UNDOS(fields) HG_GEN_JOIN(HG_GEN_UNDO_A fields, _END)
#define HG_GEN_UNDO_A(field) HG_GEN_UNDO(, struct_data, field) HG_GEN_UNDO_B
#define HG_GEN_UNDO_B(field) HG_GEN_UNDO(, struct_data, field) HG_GEN_UNDO_A
#define HG_GEN_UNDO_A_END
#define HG_GEN_UNDO_B_END

/* The structure, and its routine. If a field fails, those decoded before it are freed. */
#define HG_GEN_STRUCT(struct_type_name, fields) \
    typedef struct {                            \
        HG_GEN_FIELDS(fields)                   \
    } struct_type_name;
#define HG_GEN_STRUCT_PROC(struct_type_name, fields)                                     \
    static HG_INLINE HG_ATTR_UNUSED hg_return_t HG_GEN_JOIN(hg_proc_, struct_type_name)( \
        hg_proc_t proc, void *data)                                                      \
    {                                                                                    \
        struct_type_name *struct_data = HG_CAST(struct_type_name *, data);               \
        hg_return_t ret = HG_SUCCESS;                                                    \
        unsigned int done = 0;                                                           \
                                                                                         \
        HG_GEN_PROCS(fields)                                                             \
        return HG_SUCCESS;                                                               \
                                                                                         \
hg_gen_undo:                                                                             \
        if (hg_proc_undo_begin(proc)) {                                                  \
            HG_GEN_UNDOS(fields)                                                         \
            hg_proc_undo_end(proc);                                                      \
        }                                                                                \
        return ret;                                                                      \
    }

/**
 * Define a structure type and its processing routine hg_proc_<struct_type_name>, static in the file
 * that uses it.
 *
 * \param struct_type_name  name of the type
 * \param fields            ((type)(name))((type)(name))...
 *
 * Any thread may call the routine, each with a proc of its own. \since 1.0
 */
#define MERCURY_GEN_PROC(struct_type_name, fields) \
    HG_GEN_STRUCT(struct_type_name, fields)        \
    HG_GEN_STRUCT_PROC(struct_type_name, fields)

/**
 * Define the processing routine of an existing structure type; fields that are not named are not
 * sent.
 *
 * \param struct_type_name  name of the type
 * \param fields            ((type)(name))((type)(name))...
 *
 * Any thread may call the routine, each with a proc of its own. \since 1.0
 */
#define MERCURY_GEN_STRUCT_PROC(struct_type_name, fields) \
    HG_GEN_STRUCT_PROC(struct_type_name, fields)

/**
 * Register an RPC with the routines of its input and output structures.
 *
 * \param hg_class              class
 * \param func_name             name of the RPC, a string
 * \param in_struct_type_name   type of the input, void for none
 * \param out_struct_type_name  type of the output, void for none
 * \param rpc_cb handler at a target; NULL if the RPC is only sent
 *
 * \return id of the RPC, 0 on failure
 *
 * Any thread. \since 1.0
 */
#define MERCURY_REGISTER(hg_class, func_name, in_struct_type_name, out_struct_type_name, rpc_cb) \
    HG_Register_name(hg_class, func_name, HG_GEN_JOIN(hg_proc_, in_struct_type_name),            \
                     HG_GEN_JOIN(hg_proc_, out_struct_type_name), rpc_cb)

/* The routine of "no structure". */
#define hg_proc_void NULL

#endif /* MERCURY_MACROS_H */
