#!/bin/sh
# Starts a container as head or node. Both share the folder /run/weir, which holds the cluster's token and nothing else:
# nodes never see the head's data directory.
set -eu
umask 077
shared=/run/weir/token
port=${WEIR_HTTP_PORT:-8265}  # where the head serves its API; the same number inside and outside, so that links hold
name=${WEIR_NODE_NAME:-$(hostname)}

case ${1:-} in
  head)
    shift
    if [ ! -s "$shared" ]; then
      od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$shared.new"
      mv "$shared.new" "$shared"
    fi
    cp "$shared" "$WEIR_DATA_DIR/token"
    # --insecure: the compose network is private to these containers, and only the HTTP port is published, on the
    # host's loopback. Every link still proves that it knows the token.
    exec weir head --insecure --listen 0.0.0.0:6380 --http "0.0.0.0:$port" "$@" ;;
  node)
    shift
    trap 'exit 0' TERM INT                        # process 1 has no default action for them
    while [ ! -s "$shared" ]; do sleep 0.2; done  # containers may start in any order
    trap - TERM INT
    WEIR_TOKEN=$(cat "$shared")
    export WEIR_TOKEN
    exec weir node --head "${WEIR_HEAD:-head:6380}" --name "$name" "$@" ;;
  healthy)
    # A head answers; a node is alive in the head's list.
    case ${2:-} in
      head) exec curl -fsS -o /dev/null --max-time 3 "http://127.0.0.1:$port/readyz" ;;
      node) curl -fsS --max-time 3 -H "Authorization: Bearer $(cat "$shared")" \
              "http://${WEIR_HEAD_HTTP:-head:$port}/api/v1/nodes/$name" |
              grep -q '"state": *"\(alive\|draining\)"' ;;
      *) echo "usage: weir-entry healthy head|node" >&2; exit 2 ;;
    esac ;;
  *) exec weir "$@" ;;
esac
