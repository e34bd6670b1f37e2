# For the scripts beside it, which source it with the name of their program:
#
#   here, binary, python, out   see the scripts
#   gpu                         the GPU's name as part of a file's; empty where there is none
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=${BINARY:-$root/build/release/bench/$1}
python=${PYTHON:-$root/build/peers/bin/python}
[ -x "$(command -v "$python")" ] || python=python3
out=${OUT:-$root/bench/results}
[ -x "$binary" ] || { echo "build first: bash tools/run.sh, or set BINARY" >&2; exit 2; }
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 | tr 'A-Z ' 'a-z_' || true)
mkdir -p "$out"
