#!/usr/bin/env bash
# Programs may be compiled before main, by constructors of global objects: the given static libraries have none that such
# a compilation could come before. (Sanitizers have constructors of their own.)
set -euo pipefail
found=$(nm "$@" 2>/dev/null | grep -F _GLOBAL__sub_I | grep -vF _sub_I_00099 || true)
[ -z "$found" ] && exit 0
echo "objects that are made when the program starts; make them constexpr, or let a function return them:"
echo "$found"
exit 1
