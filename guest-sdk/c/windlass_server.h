/* The interface between the SDK and whoever runs a handler: the server in a component (windlass_imports.c and windlass_http.c), a fake
 * in a test (windlass_fake.c). Handlers do not include it. */
#ifndef WINDLASS_SERVER_H
#define WINDLASS_SERVER_H

#include "windlass.h"

struct wl_ctx {
    wl_job job;
    wl_bytes saved;        /* state of an earlier attempt; ptr is NULL if there is none */
    uint32_t saved_schema; /* 0 if there is none */
    uint32_t schema;
    uint64_t last_save_ms;
    wl_result error;       /* why the last call returned false */
    void *server;          /* the fake, in a test */
};

/* A page of children, in memory that wl_release frees. */
typedef struct wl_page {
    wl_child_job *children;
    size_t count;
    bool last;
    uint32_t next;
    void *memory;
} wl_page;

/* Runs the handler of the job's queue. */
wl_result wl_dispatch(wl_ctx *ctx);
/* Frees everything that wl_alloc returned. */
void wl_free_all(void);
/* Frees one allocation of wl_alloc before the attempt ends. NULL is ignored. */
void wl_release(void *memory);
uint64_t wl_now_ms(void);

/* The server implements these functions, and of those in windlass.h: wl_report, wl_cancelled, wl_spawn, wl_joined, wl_put_record,
 * wl_get_record, wl_mark, wl_config, wl_secret and wl_http. */
bool wl_server_checkpoint(wl_ctx *ctx, wl_bytes state);
bool wl_server_wait(wl_ctx *ctx, wl_on_failure on_failure, const wl_bytes *state);
bool wl_server_children(wl_ctx *ctx, uint32_t start, wl_page *page);
/* The result is memory from wl_alloc, or NULL. */
bool wl_server_child_result(wl_ctx *ctx, uint32_t ordinal, wl_bytes *result);
void wl_server_log(wl_ctx *ctx, wl_level level, const char *message);
_Noreturn void wl_server_panic(const char *message);

#endif
