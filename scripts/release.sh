# What the supported releases name differently, to be read by other scripts: versions of Boost and LLVM, the packages of
# LibTorch (nothing: it comes from elsewhere, through CMAKE_PREFIX_PATH) and of shared libraries, and Fashion-MNIST's.
# shellcheck shell=sh disable=SC2034
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
fashion_mnist=dataset-fashion-mnist
case $codename in
  bookworm) boost=1.81 llvm=16 torch=libtorch-dev torch_library=libtorch1.13
            libraries="libsqlite3-0 libssl3 libxxhash0 zlib1g libspdlog1.10 libfmt9" ;;
  trixie)   boost=1.83 llvm=19 torch=libtorch-dev torch_library=libtorch2.6
            libraries="libsqlite3-0 libssl3t64 libxxhash0 zlib1g libspdlog1.15 libfmt10" ;;
  noble)    boost=1.83 llvm=18 torch="" torch_library="" fashion_mnist=""
            libraries="libsqlite3-0 libssl3t64 libxxhash0 zlib1g libspdlog1.12 libfmt9" ;;
  *) echo "release.sh: '$codename' is not known: Debian 12 and 13 and Ubuntu 24.04 are (scripts/release.sh)" >&2
     exit 2 ;;
esac
