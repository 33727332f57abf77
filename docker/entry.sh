#!/bin/sh
# Starts a container as head or node. Both share the folder /run/weir, which holds what nodes prove to join and nothing
# else: nodes see neither the head's data directory nor the token of its API.
set -eu
umask 077
shared=/run/weir/node_secret
port=${WEIR_HTTP_PORT:-8265}  # where the head serves its API; the same number inside and outside, so that links hold
head=${WEIR_HEAD:-head:6380}  # where nodes find the head
name=${WEIR_NODE_NAME:-$(hostname)}

case ${1:-} in
  head)
    shift
    if [ ! -s "$shared" ]; then
      od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$shared.new"
      mv "$shared.new" "$shared"
    fi
    own=$WEIR_DATA_DIR/node_secret
    # Written only if it must be, and whole or not at all: the disk may be full.
    cmp -s "$shared" "$own" || { cp "$shared" "$own.new" && mv "$own.new" "$own"; }
    # --insecure: the compose network is private to these containers, and only the HTTP port is published, on the
    # host's loopback. Every link still proves that it knows a secret.
    exec weir head --insecure --listen 0.0.0.0:6380 --http "0.0.0.0:$port" "$@" ;;
  node)
    shift
    trap 'exit 0' TERM INT                        # process 1 has no default action for them
    while [ ! -s "$shared" ]; do sleep 0.2; done  # containers may start in any order
    trap - TERM INT
    exec weir node --secret-file "$shared" --head "$head" --name "$name" "$@" ;;
  healthy)
    # A head answers; a node, which may not ask the head's API, has its link to the head's control port.
    case ${2:-} in
      head) exec curl -fsS -o /dev/null --max-time 3 "http://127.0.0.1:$port/readyz" ;;
      node)
        control=$(printf '%04X' "${head##*:}")
        exec grep -qsE "^ *[0-9]+: [0-9A-F]+:[0-9A-F]+ [0-9A-F]+:$control 01 " /proc/net/tcp /proc/net/tcp6 ;;
      *) echo "usage: weir-entry healthy head|node" >&2; exit 2 ;;
    esac ;;
  *) exec weir "$@" ;;
esac
