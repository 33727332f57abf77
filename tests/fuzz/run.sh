#!/bin/sh
# Fuzzes every target for a bounded time, starting from its corpus; new inputs stay in the build tree.
# usage: tests/fuzz/run.sh FOLDER_OF_TARGETS SECONDS_EACH
set -eu
targets=$1
seconds=$2
corpus=$(cd "$(dirname "$0")" && pwd)/corpus
count=0
for target in "$targets"/*_fuzz; do
  [ -x "$target" ] || continue
  name=$(basename "$target")
  found=$targets/found/$name
  mkdir -p "$found"
  log=$targets/$name.log
  "$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=65536 \
    -artifact_prefix="$targets/crash-$name-" -print_final_stats=1 "$found" "$corpus/$name" > "$log" 2>&1 ||
    { tail -n 60 "$log"; echo "$name failed; the input is in $targets"; exit 1; }
  echo "$name: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs in $seconds s"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no fuzz target was built" >&2; exit 1; }
echo "$count fuzz targets, no crash, leak or timeout"
