/* What windlass_imports.c and windlass_http.c share: between the types of the SDK and those of the generated bindings. */
#ifndef WINDLASS_WASM_H
#define WINDLASS_WASM_H

#include "bindings/windlass_wit.h"
#include "windlass_server.h"

#include <stdlib.h>
#include <string.h>

static inline windlass_wit_string_t string(const char *text) {
    return (windlass_wit_string_t){(uint8_t *)text, text == NULL ? 0 : strlen(text)};
}

/* Takes over what the host has allocated, and adds a terminating zero for use as a string. */
static inline wl_bytes adopt(uint8_t *ptr, size_t len) {
    uint8_t *copy = wl_alloc(len + 1);
    if (len > 0) memcpy(copy, ptr, len);
    copy[len] = 0;
    if (len > 0) free(ptr);
    return (wl_bytes){copy, len};
}

static inline bool refuse(wl_ctx *ctx, wl_result error) {
    ctx->error = error;
    return false;
}

#endif
