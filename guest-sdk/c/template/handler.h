#ifndef HANDLER_H
#define HANDLER_H

#include "windlass.h"

wl_result count(wl_ctx *ctx, wl_bytes payload);

#endif
