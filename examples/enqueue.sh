#!/usr/bin/env bash
# Enqueues a job with curl and waits for its result.
#
#     make run                                      # in one terminal: a server with a plugin for demo.digest
#     examples/enqueue.sh                           # in another
#     examples/enqueue.sh '{"text": "some text"}'   # with a payload of your own
#
# The plugin computes the SHA-256 of a text and counts its lines and words.
#
# WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one, and
# WINDLASS_CA_FILE the authority behind its certificate (PEM) if that is your own.
# Needs bash and curl.
set -euo pipefail

url=${WINDLASS_URL:-http://127.0.0.1:7070}
if [ -n "${WINDLASS_CA_FILE:-}" ]; then export CURL_CA_BUNDLE=$WINDLASS_CA_FILE; fi
payload=${1:-'{"text": "hello"}'}

# call PATH CURL-ARGUMENTS...: prints the answer. When the request is refused, the answer says why.
call() {
    local path=$1
    shift
    curl --silent --show-error --fail-with-body "${url%/}$path" \
        ${WINDLASS_API_KEY:+--header "X-API-Key: $WINDLASS_API_KEY"} "$@"
}

# first NAME: the first string field of that name in the JSON on standard input; where jq is installed, use that.
first() { grep -o "\"$1\": *\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

curl --silent --output /dev/null "${url%/}/healthz" || {
    echo "There is no server at $url. Start one with \`make run\`, or set WINDLASS_URL." >&2
    exit 1
}

# Only `queue` is required. A job that fails runs up to three times; tags are there to find it by.
answer=$(call /api/v1/enqueue --data @- <<JSON
{"queue": "demo.digest", "payload": $payload, "priority": "high", "max_attempts": 3, "tags": {"example": "enqueue"}}
JSON
) || { echo "$answer" >&2; exit 1; }
echo "$answer"
id=$(first job_id <<<"$answer")

# Answered as soon as the job has ended, or after 30 seconds with the job as it is then.
job=$(call "/api/v1/jobs/$id/wait?timeout=30")
echo "$job"

state=$(first state <<<"$job")
echo "$id: $state"
[ "$state" = completed ]
