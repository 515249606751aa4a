#!/usr/bin/env bash
# test.sh BUILD OUT [KIND]: the programs in BUILD/device_tests.txt on 1 to 4 ranks, with their tensors on devices of KIND (cuda), which ranks share
# where there are fewer. OUT/test.jsonl gets a line of the machine, one of each run, and one of them all; OUT/logs what they printed. A run may take
# 100 s, all together 9 minutes; what does not run says why. Succeeds when all ran and nothing failed; 77: there is no device.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) out=$2 kind=${3:-cuda}
machine=$("$here/machine.sh" "$build" "$kind")
rm -rf "$out/logs" && mkdir -p "$out/logs"
TEST_TMPDIR=$(mktemp -d)
export TEST_TMPDIR
trap 'rm -rf "$TEST_TMPDIR"' EXIT
results=$out/test.jsonl
echo "$machine" | tee "$results"

count() { grep -c "^\[ *$1 *\]" "$log" || true; }
names() { sed -nE "s/^\[ *$1 *\] ([^;]*).*/\"\1\"/p" "$log" | paste -sd,; }

deadline=$((SECONDS + 540)) runs=0 bad=0 passed=0 failed=0 skipped=0
while read -r program; do
  for ranks in 1 2 3 4; do
    log=$out/logs/$program.$ranks.log code=0 began=$SECONDS left=$((deadline - SECONDS))
    if [ $left -le 0 ]; then
      outcome='not run: no time left'
      : >"$log"
    else
      timeout -k 10 $((left < 100 ? left : 100)) "$build/mpirun" -n $ranks "$build/bin/$program" "--device=$kind" >"$log" 2>&1 </dev/null || code=$?
      case $code in
        0) outcome=passed ;;
        124 | 137) outcome='took too long' ;;
        *) outcome=failed ;;
      esac
      if [ $code -eq 0 ] && [ "$(count OK)$(count SKIPPED)" = 00 ]; then outcome='nothing to run'; fi
    fi
    case $outcome in passed | nothing*) ;; *) bad=$((bad + 1)) ;; esac
    runs=$((runs + 1)) passed=$((passed + $(count OK))) failed=$((failed + $(count FAILED))) skipped=$((skipped + $(count SKIPPED)))
    printf '{"program":"%s","ranks":%d,"outcome":"%s","seconds":%d,"passed":%d,"failed":[%s],"skipped":[%s]}\n' "$program" $ranks "$outcome" \
      $((SECONDS - began)) "$(count OK)" "$(names FAILED)" "$(names SKIPPED)" | tee -a "$results"
  done
done <"$build/device_tests.txt"
printf '{"runs":%d,"bad_runs":%d,"passed":%d,"failed":%d,"skipped":%d,"seconds":%d}\n' $runs $bad $passed $failed $skipped \
  $((SECONDS + 540 - deadline)) | tee -a "$results"
echo "written to $results"
[ $bad -eq 0 ] && [ $passed -gt 0 ]
