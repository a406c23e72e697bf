#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs the test rings (unit golden live kernels; all of them by default) and ends with the count over
# all of them. Exit status 0 only if nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1

# The system's python has the packages that install-deps.sh installs; one found earlier in PATH may not.
python=$(command -v /usr/bin/python3 || echo python3)

rings=${*:-unit golden live kernels}
work=build/check
passed=0
failed=0
skipped=0

has()	# ring
{
	case " $rings " in
	*" $1 "*) return 0 ;;
	*) return 1 ;;
	esac
}

add()	# ring passed failed skipped seconds
{
	passed=$((passed + $2))
	failed=$((failed + $3))
	skipped=$((skipped + $4))
	# A ring that ran nothing is a failure of the runner, not a success.
	if [ $(($2 + $3 + $4)) = 0 ]; then
		echo "$1: no test ran"
		failed=$((failed + 1))
	fi
	printf '%-8s %4d passed, %d failed, %d skipped  (%d s)\n' "$1" "$2" "$3" "$4" "$5" >>$work/rings
	tail -n 1 $work/rings
}

now()
{
	date +%s
}

# Adds up TAP from cmocka; a program that dies without its plan fulfilled counts as one failure.
run_tap()	# ring directory
{
	begin=$(now)
	p=0 f=0 s=0
	for test in build/san/tests/"$2"/test_*; do
		[ -x "$test" ] && [ -f "$test" ] || continue
		case $test in *.d) continue ;; esac
		CMOCKA_MESSAGE_OUTPUT=TAP ASAN_OPTIONS=detect_leaks=${LEAKS:-1} \
			timeout -k 5 ${TEST_LIMIT:-120} "$test" >$work/tap 2>&1
		status=$?
		[ $status = 124 ] && echo "# not done within ${TEST_LIMIT:-120} s" >>$work/tap
		ok=$(grep -c '^ok [0-9]' $work/tap)
		skip=$(grep -c '^not ok [0-9]* # SKIP' $work/tap)
		bad=$(grep '^not ok [0-9]' $work/tap | grep -vc '# SKIP')
		if [ "$status" != 0 ] && [ "$bad" = 0 ]; then
			bad=1
			echo "$test: exit status $status" >>$work/tap
		fi
		if [ $((ok + skip + bad)) = 0 ]; then
			bad=1
			echo "$test: ran no test" >>$work/tap
		fi
		if [ "$bad" != 0 ]; then
			echo "--- $test"
			grep -v '^ok ' $work/tap
		fi
		p=$((p + ok)) f=$((f + bad)) s=$((s + skip))
	done
	# Each line of a ring's own script that begins with PASS, FAIL or SKIP is a test.
	if [ -x "tests/$2/run.sh" ]; then
		run_script "tests/$2/run.sh"
	fi
	add "$1" $p $f $s $(($(now) - begin))
}

run_script()	# script
{
	"$1" 2>&1 | tee $work/script | grep -v '^PASS'
	p=$((p + $(grep -c '^PASS' $work/script)))
	s=$((s + $(grep -c '^SKIP' $work/script)))
	bad=$(grep -c '^FAIL' $work/script)
	grep -q '^DONE$' $work/script || bad=$((bad + 1))
	f=$((f + bad))
}

run_live()
{
	begin=$(now)
	rm -f $work/live.xml
	$python -m pytest tests/live -q -p no:cacheprovider --junitxml=$work/live.xml \
		-o junit_family=xunit2 --durations=8 ${PYTEST_ARGS:-}
	set -- $($python - <<'EOF'
import xml.etree.ElementTree as tree
try:
    suite = tree.parse("build/check/live.xml").getroot().find("testsuite")
    n, failed, errors, skipped = (int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped"))
    print(n - failed - errors - skipped, failed + errors, skipped)
except Exception:
    print(0, 1, 0)
EOF
	)
	add live "$1" "$2" "$3" $(($(now) - begin))
}

run_kernels()
{
	begin=$(now)
	p=0 f=0 s=0
	run_script tests/kernels/run.sh
	grep '^PASS' $work/script
	add kernels $p $f $s $(($(now) - begin))
}

fail()	# message
{
	echo "$1"
	echo "$passed passed, $((failed + 1)) failed, $skipped skipped"
	exit 1
}

groups="build check"
has kernels && groups="$groups static kernels"
scripts/install-deps.sh $groups || fail "the packages that tests need are not all there"

begin=$(now)
mkdir -p $work
: >$work/rings
jobs=-j$(nproc)
make -s $jobs WERROR=1 all targets || fail "the build failed"
if has unit || has golden; then
	make -s $jobs WERROR=1 SAN=1 units || fail "the build of the unit tests failed"
fi
echo "build    ($(($(now) - begin)) s)"

has unit && run_tap unit unit
has golden && run_tap golden golden
has live && run_live
has kernels && run_kernels

echo
cat $work/rings
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
