/* Digest of the sources of this library; `loader` compares it before any other call. */
#include "common.h"

#ifndef JM_SOURCES
#define JM_SOURCES "unknown"
#endif

EXPORT const char *jm_sources(void) { return JM_SOURCES; }
