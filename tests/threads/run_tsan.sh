#!/bin/sh
# Runs a test built with ThreadSanitizer; exits 77, which ctest shows as skipped, where that cannot work here.
test=$1
shift
skip() {
  echo "skipped: $1"
  exit 77
}
[ -x "$test" ] || skip "the compiler cannot link -fsanitize=thread, or the build has another sanitizer"
# Where addresses are spread further than it expects it ends at once, unless they are not spread at all.
run=
if ! "$test" --gtest_list_tests > /dev/null 2>&1; then
  run="setarch $(uname -m) -R"
  $run "$test" --gtest_list_tests > /dev/null 2>&1 || skip "ThreadSanitizer cannot map its memory"
fi
export TSAN_OPTIONS="suppressions=$(dirname "$0")/suppressions.txt halt_on_error=1 second_deadlock_stack=1 $TSAN_OPTIONS"
exec $run "$test" "$@"
