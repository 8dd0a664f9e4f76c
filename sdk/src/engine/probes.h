/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes for tracers (USDT, provider amalgam), listed in docs/probes.md: each is one nop, and notes
 * in the library say where it and its arguments are. Pass values that exist anyway: nothing is
 * computed for a probe that may not be traced. Without <sys/sdt.h> the macros expand to nothing.
 */
#ifndef HG_ENGINE_PROBES_H
#define HG_ENGINE_PROBES_H

#ifdef AMALGAM_HAS_USDT

#    include <sys/sdt.h>

#    define HG_PROBE1(name, a)       DTRACE_PROBE1(amalgam, name, a)
#    define HG_PROBE2(name, a, b)    DTRACE_PROBE2(amalgam, name, a, b)
#    define HG_PROBE3(name, a, b, c) DTRACE_PROBE3(amalgam, name, a, b, c)

#else

#    define HG_PROBE1(name, a)       ((void) 0)
#    define HG_PROBE2(name, a, b)    ((void) 0)
#    define HG_PROBE3(name, a, b, c) ((void) 0)

#endif

#endif /* HG_ENGINE_PROBES_H */
