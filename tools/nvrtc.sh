#!/usr/bin/env bash
# Prints where NVRTC is, for LOOPGRAD_NVRTC: nothing when a CUDA toolkit is installed, where loopgrad finds it itself; else the
# one in the folder of the first argument (by default build/nvrtc), which is fetched with pip when it is not there yet (about
# 90 MB). NVRTC needs no GPU: with it the tests compile all generated CUDA. Fails, with the reason, when it cannot be had.
set -euo pipefail
folder=${1:-build/nvrtc}

for place in "${CUDA_HOME:-/usr/local/cuda}/lib64" "${CUDA_PATH:-/usr/local/cuda}/lib64"; do
  compgen -G "$place/libnvrtc.so*" > /dev/null && exit 0
done
PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so' && exit 0

found() { find "$folder" -name 'libnvrtc.so.1*' 2>/dev/null | head -1; }
if [ -z "$(found)" ]; then
  if ! python3 -m pip --version > /dev/null 2>&1; then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq >&2  # lists that were never read, or are old, name no package that can be had
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >&2
  fi
  mkdir -p "$folder"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$folder" nvidia-cuda-nvrtc==13.0.88 >&2
  python3 -m zipfile -e "$folder"/nvidia_cuda_nvrtc-*.whl "$folder"
  rm "$folder"/nvidia_cuda_nvrtc-*.whl
fi
realpath "$(found)"
