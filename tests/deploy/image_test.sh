#!/usr/bin/env bash
# Builds the image and runs it as it should be run: read-only, no capabilities, 256 MB. Prints a line a check.
#
#   tests/deploy/image_test.sh
#
# Uses the Docker engine that is there; with none, and as root, starts one of its own on a private socket and ends
# it again. With no python:3.13-slim at hand and no registry to pull it from, one is made with debootstrap (Debian
# trixie has Python 3.13). BUILD_ARGS passes more to docker build, e.g. "--network host".
set -euo pipefail
cd "$(dirname "$0")/../.."

work="$(mktemp -d)"
DOCKER="${DOCKER:-$(PATH="/usr/bin:$PATH" command -v docker)}"
engine=""
image="trimtab:image-test"
names=(trimtab-image-test trimtab-image-test-upstream)
network="trimtab-image-test"

docker() { "$DOCKER" "$@"; }
say() { printf 'ok    %-14s %s\n' "$1" "$2"; }
fail() {
    printf 'WRONG %-14s %s\n' "$1" "$2" >&2
    docker logs "${names[0]}" 2>&1 | tail -20 >&2 || true
    exit 1
}

clean() {
    docker rm --force "${names[@]}" >/dev/null 2>&1 || true
    docker network rm "$network" >/dev/null 2>&1 || true
    if [ -n "$engine" ]; then kill "$engine" && wait "$engine" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap clean EXIT

have_engine() {
    if docker info >/dev/null 2>&1; then return; fi
    export DOCKER_HOST="unix://$work/docker.sock"
    dockerd --storage-driver overlay2 --host "$DOCKER_HOST" --pidfile "$work/docker.pid" \
        --data-root "${DOCKER_DATA:-/var/lib/trimtab-image-test}" --exec-root "$work/exec" >"$work/dockerd.log" 2>&1 &
    engine=$!
    for _ in $(seq 60); do
        if docker info >/dev/null 2>&1; then return; fi
        sleep 0.5
    done
    tail -5 "$work/dockerd.log" >&2
    fail engine "no Docker engine, and none could be started"
}

have_base() {
    local base="python:3.13-slim"
    if docker image inspect "$base" >/dev/null 2>&1; then return; fi
    if timeout 60 "$DOCKER" pull --quiet "$base" >/dev/null 2>&1; then return; fi
    local mirror
    mirror="$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -1 || true)"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip \
        trixie "$work/root" ${mirror:+"$mirror"} >"$work/debootstrap.log"
    cp /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/ca-certificates.crt"
    tar -C "$work/root" -c . | docker import --change 'CMD ["python3"]' - "$base" >/dev/null
}

megabytes() { echo $(($1 / 1000000)); }
size_of() { docker image inspect --format '{{.Size}}' "$1"; }
field() { docker inspect --format "$1" "${names[0]}"; }

have_engine
have_base

began=$(date +%s)
# shellcheck disable=SC2086
DOCKER_BUILDKIT=1 docker build --quiet ${BUILD_ARGS:-} --tag "$image" \
    --build-arg REVISION="$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" . >/dev/null
say build "$(($(date +%s) - began)) s"
own=$(($(size_of "$image") - $(size_of python:3.13-slim)))
say size "$(megabytes "$own") MB of our own on a base of $(megabytes "$(size_of python:3.13-slim)") MB"
say labels "$(docker image inspect --format '{{index .Config.Labels "org.opencontainers.image.title"}} {{index .Config.Labels "org.opencontainers.image.version"}} {{index .Config.Labels "org.opencontainers.image.revision"}}' "$image")"
if [ "$(docker image inspect --format '{{.Config.User}}' "$image")" != "10001:10001" ]; then fail user "it runs as root"; fi
say user 10001:10001

docker network create "$network" >/dev/null
docker run --detach --name "${names[1]}" --network "$network" --entrypoint /opt/trimtab/bin/python \
    --volume "$PWD/tests/deploy/upstream.py:/upstream.py:ro" "$image" /upstream.py 9000 >/dev/null

began=$(date +%s%N)
docker run --detach --name "${names[0]}" --network "$network" --publish 127.0.0.1::8080 \
    --read-only --cap-drop ALL --security-opt no-new-privileges --memory 256m --pids-limit 100 --tmpfs /tmp \
    "$image" serve --host 0.0.0.0 --upstream "http://${names[1]}:9000/v1" >/dev/null
url="http://$(docker port "${names[0]}" 8080/tcp | head -1)"
for _ in $(seq 300); do
    if curl --silent --fail --max-time 1 "$url/healthz/ready" >/dev/null; then break; fi
    sleep 0.05
done
curl --silent --fail --max-time 2 "$url/healthz/ready" >/dev/null || fail start "it is not ready after 15 s"
say start "ready after $((($(date +%s%N) - began) / 1000000)) ms, container start included"

answer="$(curl --silent --fail --include --max-time 10 "$url/v1/chat/completions" \
    --data '{"model": "model-8k", "messages": [{"role": "user", "content": "hello"}]}')" || fail request "no answer"
tokens="$(grep -i '^x-trimtab-tokens' <<<"$answer" | tr -d '\r')" || fail request "no x-trimtab-tokens"
say request "$tokens"

long="$(python3 - <<'EOF'
import json
messages = [{"role": "system", "content": "You look for faults."}, {"role": "user", "content": "Find it."}]
for n in range(60):
    call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n} of a file\n" * 100})
print(json.dumps({"model": "model-8k", "messages": messages}))
EOF
)"
edits="$(curl --silent --fail --include --max-time 20 "$url/v1/chat/completions" --data @- <<<"$long" |
    grep -i '^x-trimtab-edits' | tr -d '\r')" || fail shaping "a long conversation was not answered"
say shaping "$edits"

for _ in $(seq 40); do
    if [ "$(field '{{.State.Health.Status}}')" = healthy ]; then break; fi
    sleep 0.5
done
if [ "$(field '{{.State.Health.Status}}')" != healthy ]; then fail health "its own health check does not pass"; fi
say health "healthy by the image's own check"

if docker exec "${names[0]}" /opt/trimtab/bin/python -c 'open("/opt/trimtab/x", "w")' 2>/dev/null; then
    fail read-only "its own files can be written"
fi
say read-only "its own files cannot be written"

for _ in $(seq 200); do
    curl --silent --output /dev/null --max-time 20 "$url/v1/chat/completions" --data @- <<<"$long"
done
docker stats --no-stream --format '{{.MemUsage}}' "${names[0]}" >"$work/memory"
if [ "$(field '{{.State.OOMKilled}}')" = true ]; then fail memory "killed for memory"; fi
say memory "$(cat "$work/memory") after 200 long conversations"

curl --silent --no-buffer --max-time 30 "$url/v1/chat/completions" \
    --data '{"model": "model-slow", "stream": true, "messages": [{"role": "user", "content": "hello"}]}' >"$work/stream" &
stream=$!
sleep 1.5
began=$(date +%s%N)
docker stop --time 40 "${names[0]}" >/dev/null
took=$((($(date +%s%N) - began) / 1000000))
wait "$stream" || true
grep -q '^data: \[DONE\]' "$work/stream" || fail SIGTERM "an open stream was cut off"
if [ "$(field '{{.State.ExitCode}}')" != 0 ]; then fail SIGTERM "exit code $(field '{{.State.ExitCode}}')"; fi
say SIGTERM "the open stream ended whole, exit code 0, after $took ms"

lines="$(docker logs "${names[0]}" 2>/dev/null | grep -c '"event":"exchange"')" || fail log "no JSON lines"
say log "$lines lines of JSON, one a request"
