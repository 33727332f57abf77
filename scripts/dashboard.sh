#!/bin/sh
# Brings dashboard/node_modules in line with the lockfile and dashboard/dist with the sources, each only if it is not.
# usage: scripts/dashboard.sh modules|build
set -eu
cd "$(dirname "$0")/../dashboard"
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1  # the tests drive Debian's chromium

digest=$(cat package.json package-lock.json | sha256sum | cut -d ' ' -f 1)
if [ "$(cat node_modules/.installed 2>/dev/null || true)" != "$digest" ]; then
  npm ci --no-audit --no-fund
  echo "$digest" > node_modules/.installed
fi
[ "$1" = build ] || exit 0

# The API's documents are sources too: the dashboard's types are made from them.
changed() {
  find . \( -name node_modules -o -name dist -o -name test-results -o -name playwright-report \
    -o -name screenshots-output \) -prune \
    -o -type f -newer dist/index.html -print -quit
  find ../api -name '*.json' -newer dist/index.html -print -quit
}
if [ ! -f dist/index.html ] || [ -n "$(changed)" ]; then
  npm run build
fi
