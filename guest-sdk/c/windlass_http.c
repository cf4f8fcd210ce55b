/* HTTP in a component, through wasi:http. In a test, windlass_fake.c takes its place. */
#ifdef __wasm__

#include "windlass_wasm.h"

static wasi_http_types_method_t method(const char *name) {
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    if (name == NULL) name = "GET";
    for (uint8_t tag = 0; tag < sizeof(names) / sizeof(names[0]); tag++) {
        if (strcmp(name, names[tag]) == 0) return (wasi_http_types_method_t){.tag = tag};
    }
    return (wasi_http_types_method_t){.tag = WASI_HTTP_TYPES_METHOD_OTHER, .val.other = string(name)};
}

/* The names of the errors, in the order of the interface. */
static const char *const http_errors[] = {
    "the name lookup took too long", "the name was not found", "the destination was not found",
    "the destination is unavailable", "the address is not allowed", "the address cannot be reached",
    "the connection was refused", "the connection was broken off", "connecting took too long",
    "the answer took too long", "sending took too long", "too many connections", "TLS failed",
    "the certificate is not valid", "TLS was refused", "the request was denied; the plugin needs a grant for this host",
};

static const char *http_error(const wasi_http_types_error_code_t *error) {
    if (error->tag < sizeof(http_errors) / sizeof(http_errors[0])) return http_errors[error->tag];
    if (error->tag == WASI_HTTP_TYPES_ERROR_CODE_INTERNAL_ERROR && error->val.internal_error.is_some) {
        windlass_wit_string_t text = error->val.internal_error.val;
        return wl_format("%.*s", (int)text.len, (const char *)text.ptr);
    }
    return wl_format("HTTP error %u of wasi:http", error->tag);
}

/* http://host/path → is it https, the host, the path. */
static bool split_url(const char *url, bool *secure, windlass_wit_string_t *authority, windlass_wit_string_t *path) {
    if (strncmp(url, "https://", 8) == 0) {
        *secure = true;
        url += 8;
    } else if (strncmp(url, "http://", 7) == 0) {
        *secure = false;
        url += 7;
    } else {
        return false;
    }
    size_t host = strcspn(url, "/?#");
    *authority = (windlass_wit_string_t){(uint8_t *)url, host};
    url += host;
    size_t rest = strcspn(url, "#");
    *path = *url == '/' ? (windlass_wit_string_t){(uint8_t *)url, rest}
                        : string(wl_format("/%.*s", (int)rest, url));
    return host > 0;
}

static bool send_body(wasi_http_types_own_outgoing_body_t outgoing, wl_bytes body) {
    bool sent = true;
    if (body.len > 0) {
        wasi_http_types_own_output_stream_t stream;
        if (!wasi_http_types_method_outgoing_body_write(wasi_http_types_borrow_outgoing_body(outgoing), &stream)) return false;
        for (size_t at = 0; at < body.len && sent; at += 4096) {
            windlass_wit_list_u8_t part = {(uint8_t *)body.ptr + at, body.len - at < 4096 ? body.len - at : 4096};
            wasi_io_streams_stream_error_t failed;
            sent = wasi_io_streams_method_output_stream_blocking_write_and_flush(
                wasi_io_streams_borrow_output_stream(stream), &part, &failed);
        }
        wasi_io_streams_output_stream_drop_own(stream);
    }
    wasi_http_types_error_code_t error;
    return wasi_http_types_static_outgoing_body_finish(outgoing, NULL, &error) && sent;
}

static bool read_body(wl_ctx *ctx, wasi_http_types_own_incoming_response_t answer, wl_bytes *body) {
    wasi_http_types_own_incoming_body_t incoming;
    wasi_http_types_own_input_stream_t stream;
    if (!wasi_http_types_method_incoming_response_consume(wasi_http_types_borrow_incoming_response(answer), &incoming) ||
        !wasi_http_types_method_incoming_body_stream(wasi_http_types_borrow_incoming_body(incoming), &stream)) {
        return refuse(ctx, wl_fail("the answer has no body to read"));
    }
    size_t len = 0, room = 64 * 1024;
    uint8_t *bytes = malloc(room);
    bool whole = bytes != NULL;
    while (whole) {
        windlass_wit_list_u8_t part;
        wasi_io_streams_stream_error_t end;
        if (!wasi_io_streams_method_input_stream_blocking_read(wasi_io_streams_borrow_input_stream(stream), 64 * 1024, &part, &end)) {
            whole = end.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED;
            if (!whole) wasi_io_streams_stream_error_free(&end);
            break;
        }
        while (room < len + part.len) room *= 2;
        uint8_t *larger = realloc(bytes, room);
        whole = larger != NULL;
        if (whole) {
            bytes = larger;
            memcpy(bytes + len, part.ptr, part.len);
            len += part.len;
        }
        windlass_wit_list_u8_free(&part);
    }
    wasi_io_streams_input_stream_drop_own(stream);
    wasi_http_types_incoming_body_drop_own(incoming);
    if (!whole) {
        free(bytes);
        return refuse(ctx, wl_fail("the answer broke off after %zu bytes", len));
    }
    *body = adopt(bytes, len);
    return true;
}

static bool read_answer(wl_ctx *ctx, wasi_http_types_own_incoming_response_t answer, wl_response *response) {
    wasi_http_types_borrow_incoming_response_t borrowed = wasi_http_types_borrow_incoming_response(answer);
    response->status = wasi_http_types_method_incoming_response_status(borrowed);
    wasi_http_types_own_fields_t fields = wasi_http_types_method_incoming_response_headers(borrowed);
    wasi_http_types_list_tuple2_field_name_field_value_t entries;
    wasi_http_types_method_fields_entries(wasi_http_types_borrow_fields(fields), &entries);
    response->header_count = entries.len;
    response->headers = wl_alloc(entries.len * sizeof(wl_tag));
    for (size_t n = 0; n < entries.len; n++) {
        response->headers[n].name = adopt(entries.ptr[n].f0.ptr, entries.ptr[n].f0.len);
        response->headers[n].value = adopt(entries.ptr[n].f1.ptr, entries.ptr[n].f1.len);
    }
    if (entries.len > 0) free(entries.ptr);
    wasi_http_types_fields_drop_own(fields);
    bool read = read_body(ctx, answer, &response->body);
    wasi_http_types_incoming_response_drop_own(answer);
    return read;
}

static bool make_request(wl_ctx *ctx, const wl_request *request, wasi_http_types_own_outgoing_request_t *made) {
    wasi_http_types_scheme_t scheme = {0};
    windlass_wit_string_t authority, path;
    bool secure;
    if (request->url == NULL || !split_url(request->url, &secure, &authority, &path)) {
        return refuse(ctx, wl_fatal("`%s` is no http:// or https:// address", request->url == NULL ? "" : request->url));
    }
    scheme.tag = secure ? WASI_HTTP_TYPES_SCHEME_HTTPS : WASI_HTTP_TYPES_SCHEME_HTTP;
    wasi_http_types_list_tuple2_field_name_field_value_t headers = {NULL, request->header_count};
    if (headers.len > 0) headers.ptr = wl_alloc(headers.len * sizeof(*headers.ptr));
    for (size_t n = 0; n < headers.len; n++) {
        wl_tag header = request->headers[n];
        headers.ptr[n].f0 = (windlass_wit_string_t){(uint8_t *)header.name.ptr, header.name.len};
        headers.ptr[n].f1 = (wasi_http_types_field_value_t){(uint8_t *)header.value.ptr, header.value.len};
    }
    wasi_http_types_own_fields_t fields;
    wasi_http_types_header_error_t wrong;
    if (!wasi_http_types_static_fields_from_list(&headers, &fields, &wrong)) {
        return refuse(ctx, wl_fatal("a header of the request cannot be sent"));
    }
    *made = wasi_http_types_constructor_outgoing_request(fields);
    wasi_http_types_borrow_outgoing_request_t borrowed = wasi_http_types_borrow_outgoing_request(*made);
    wasi_http_types_method_t verb = method(request->method);
    if (!wasi_http_types_method_outgoing_request_set_method(borrowed, &verb) ||
        !wasi_http_types_method_outgoing_request_set_scheme(borrowed, &scheme) ||
        !wasi_http_types_method_outgoing_request_set_authority(borrowed, &authority) ||
        !wasi_http_types_method_outgoing_request_set_path_with_query(borrowed, &path)) {
        return refuse(ctx, wl_fatal("`%s` cannot be requested", request->url));
    }
    return true;
}

bool wl_http(wl_ctx *ctx, const wl_request *request, wl_response *response) {
    wasi_http_types_own_outgoing_request_t made;
    if (!make_request(ctx, request, &made)) return false;
    wasi_http_outgoing_handler_own_request_options_t options, *chosen = NULL;
    if (request->timeout_ms != 0) {
        options = wasi_http_types_constructor_request_options();
        wasi_http_types_borrow_request_options_t borrowed = wasi_http_types_borrow_request_options(options);
        uint64_t ns = request->timeout_ms * 1000000;
        wasi_http_types_method_request_options_set_connect_timeout(borrowed, &ns);
        wasi_http_types_method_request_options_set_first_byte_timeout(borrowed, &ns);
        wasi_http_types_method_request_options_set_between_bytes_timeout(borrowed, &ns);
        chosen = &options;
    }
    wasi_http_outgoing_handler_own_future_incoming_response_t future;
    wasi_http_outgoing_handler_error_code_t error;
    /* The body is taken before the request is given away, and filled after. */
    wasi_http_types_own_outgoing_body_t outgoing;
    bool has_body = wasi_http_types_method_outgoing_request_body(wasi_http_types_borrow_outgoing_request(made), &outgoing);
    if (!wasi_http_outgoing_handler_handle(made, chosen, &future, &error)) {
        return refuse(ctx, wl_fail("%s: %s", request->url, http_error(&error)));
    }
    if (has_body && !send_body(outgoing, request->body)) {
        return refuse(ctx, wl_fail("%s: the request could not be sent whole", request->url));
    }
    wasi_http_types_borrow_future_incoming_response_t waiting = wasi_http_types_borrow_future_incoming_response(future);
    wasi_io_poll_own_pollable_t ready = wasi_http_types_method_future_incoming_response_subscribe(waiting);
    wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
    wasi_io_poll_pollable_drop_own(ready);
    wasi_http_types_result_result_own_incoming_response_error_code_void_t got;
    bool there = wasi_http_types_method_future_incoming_response_get(waiting, &got);
    wasi_http_types_future_incoming_response_drop_own(future);
    if (!there || got.is_err) return refuse(ctx, wl_fail("%s: no answer", request->url));
    if (got.val.ok.is_err) return refuse(ctx, wl_fail("%s: %s", request->url, http_error(&got.val.ok.val.err)));
    return read_answer(ctx, got.val.ok.val.ok, response);
}

#endif /* __wasm__ */
