/* Prelude of the source that cffi writes. */
#include "batch.h"
#include "libibumad.h"
