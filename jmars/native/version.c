/* Which sources this library was made from; `loader` asks before it asks anything else. */
#include "common.h"

#ifndef JM_SOURCES
#define JM_SOURCES "unknown"
#endif

EXPORT const char *jm_sources(void) { return JM_SOURCES; }
