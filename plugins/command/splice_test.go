package command_test

import (
	"fmt"
	"testing"

	"osaurus-sandbox/plugins/command"
)

func TestSplices(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`cat "$PARAM_FILE"`, `[]`},
		{`cat $PARAM_FILE`, `[{PARAM_FILE false}]`},
		{`cat ${PARAM_FILE} "$PARAM_FILE"`, `[{PARAM_FILE false}]`},
		{`F=$PARAM_FILE; cat "$F" > "$PARAM_OUT"`, `[]`},
		{`[[ $PARAM_A == x ]] && case $PARAM_B in x) echo hi ;; esac`, `[]`},
		{`python3 run.py "$PARAM_A"`, `[]`},
		{`cd $HOME/p && python3 -c "pd.read_csv('$PARAM_FILE')"`, `[{PARAM_FILE true}]`},
		{`python3 -c 'import os; print(os.environ["PARAM_FILE"])'`, `[]`},
		{`python3 -c 'import sys; print(sys.argv[1])' "$PARAM_FILE"`, `[]`},
		{"python3 - <<END\nprint('$PARAM_A')\nEND", `[{PARAM_A true}]`},
		{"python3 - <<'END'\nprint('$PARAM_A')\nEND", `[]`},
		{"cat <<END\n$PARAM_A\nEND", `[]`},
		{`sh -c "ls $PARAM_DIR"`, `[{PARAM_DIR true}]`},
		{`timeout 5 bash -ec "ls $PARAM_DIR"`, `[{PARAM_DIR true}]`},
		{`eval "$PARAM_CODE"`, `[{PARAM_CODE true}]`},
		{`echo $((PARAM_N + $PARAM_M))`, `[{PARAM_M true}]`},
		{`awk -v n="$PARAM_N" '$1 > n' x.csv`, `[]`},
		{`awk "\$1 > $PARAM_N" x.csv`, `[{PARAM_N true}]`},
		{`node -e "f('$PARAM_A')"`, `[{PARAM_A true}]`},
		{`x=$(cat $PARAM_A) && echo "$(wc -l "$PARAM_B")"`, `[{PARAM_A false}]`},
		{`for f in $PARAM_LIST; do cat "$f"; done`, `[{PARAM_LIST false}]`},
		{`if [ -n "$PARAM_A" ]; then cat $PARAM_A; fi`, `[{PARAM_A false}]`},
		{`echo ${#PARAM_A}`, `[]`},
		{`cat $HOME "unfinished`, `[]`},
	} {
		if got := fmt.Sprint(command.Splices(tc.text, "PARAM_")); got != tc.want {
			t.Errorf("%s has %s, not %s", tc.text, got, tc.want)
		}
	}
}
