#!/usr/bin/env bash
# Emits every built-in program and compiles it with all warnings: by the compiler that built loopgrad and by clang++, where
# there is one. Its own header for OpenMP may be missing: what is called is declared then.
#   compile_all.sh LOOPGRAD CXX CMAKE_FUNCTION FOLDER
set -euo pipefail
loopgrad=$1 cxx=$2 cmake_function=$3 folder=$4
rm -rf "$folder" && mkdir -p "$folder/omp"
printf 'extern "C" {\nint omp_get_max_threads(void);\nint omp_get_thread_num(void);\nvoid omp_set_num_threads(int);\n}\n' > "$folder/omp/omp.h"

compilers=("$cxx -Wno-restrict")
clang=$(compgen -c clang++ | grep -xE 'clang\+\+(-[0-9]+)?' | sort -V | tail -1 || true)
[ -n "$clang" ] && compilers+=("$clang -isystem $folder/omp")

one() {
  local loopgrad=$1 folder=$2 program=$3
  shift 3
  "$loopgrad" emit "$program" --target openmp --out "$folder" > /dev/null
  for compiler in "$@"; do
    $compiler -std=c++20 -fopenmp -Wall -Wextra -Werror -fsyntax-only "$folder/$program.cpp" \
      || { echo "$program: $compiler" >&2; exit 1; }
  done
}
export -f one
"$loopgrad" list --json "$folder/list.json" > /dev/null
grep -o '"name": "[^"]*"' "$folder/list.json" | cut -d'"' -f4 \
  | xargs -P 2 -I{} bash -c 'one "$@"' one "$loopgrad" "$folder" {} "${compilers[@]}"

# How vectors are passed is warned of, or noted, only where code is made, and only for machines without wide ones.
for compiler in "${compilers[@]}"; do
  text=$($compiler -std=c++20 -fopenmp -O1 -Wall -Wextra -c "$folder/heat2d.cpp" -o "$folder/heat2d.o" 2>&1) || true
  [ -z "$text" ] || { printf '%s\n%s\n' "$compiler" "$text" >&2; exit 1; }
done

# The CMake function has the flags that `emit` prints.
printed=$("$loopgrad" emit conv1d --out "$folder" | sed -n 's/^Build with: g++ -std=c++20 -fopenmp //p')
written=$(sed -n '/^set(LOOPGRAD_EMITTED_FLAGS /,/)/p' "$cmake_function" | tr -d '\n)' | sed 's/set(LOOPGRAD_EMITTED_FLAGS //; s/  */ /g')
[ "$printed" = "$written" ] || { printf 'emit:  %s\nCMake: %s\n' "$printed" "$written" >&2; exit 1; }
echo "compiled by: ${compilers[*]}"
