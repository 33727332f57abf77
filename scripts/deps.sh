#!/bin/sh
# Installs the Debian packages that a make target needs; quick and silent when they are all there.
# usage: scripts/deps.sh GROUP...     groups: build dashboard test lint fuzz docker; run, run-worker: what programs
#                                     need; dataset, pip, openmp: for images
set -eu
. "$(dirname "$0")/release.sh"

# What compiles and runs weir. OpenBLAS matters: with the reference BLAS that libtorch-dev pulls in alone, a matrix
# product is some fifteen times slower.
build="g++ cmake ninja-build ccache mold make git ca-certificates python3
  libboost$boost-dev libsqlite3-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libxxhash-dev libssl-dev
  zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev $torch libopenblas0-pthread $fashion_mnist"
test="chromium fonts-dejavu-core iproute2 nftables sqlite3 curl procps"
lint="clang-format-$llvm clang-tidy-$llvm libomp-$llvm-dev"
fuzz="clang-$llvm lld-$llvm llvm-$llvm libclang-rt-$llvm-dev"
docker="python3"
run="curl $libraries"
run_worker="$torch_library libopenblas0-pthread $fashion_mnist"
podman="podman buildah podman-compose runc netavark aardvark-dns debootstrap iptables"

wanted=""
for group in "$@"; do
  case $group in
    build) wanted="$wanted $build" ;;
    dashboard)
      # Debian's own Node serves where there is none, or too old a one.
      major=$( (node -p 'process.versions.node.split(".")[0]' && command -v npm >/dev/null) 2>/dev/null || echo 0)
      [ "$major" -ge 18 ] 2>/dev/null || wanted="$wanted nodejs npm" ;;
    test) wanted="$wanted $test" ;;
    run) wanted="$wanted $run" ;;
    run-worker) wanted="$wanted $run_worker" ;;
    lint) wanted="$wanted $lint" ;;
    fuzz) wanted="$wanted $fuzz" ;;
    dataset) wanted="$wanted $fashion_mnist" ;;
    pip) wanted="$wanted python3-venv" ;;
    openmp) wanted="$wanted libgomp1" ;;
    docker) wanted="$wanted $docker"
      docker info >/dev/null 2>&1 || wanted="$wanted $podman" ;;
    *) echo "deps.sh: no group '$group' (build dashboard test lint fuzz docker run run-worker dataset pip openmp)" >&2
       exit 2 ;;
  esac
done

missing=""
for package in $wanted; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "deps.sh: run as root: apt-get install$missing" >&2; exit 1; }
  as_root="sudo"
fi
echo "Installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
