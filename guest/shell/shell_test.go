//go:build linux

package shell_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/timetest"
)

// Commands share the state of the shell.
func TestStateStays(t *testing.T) {
	r := newRig(t, true)
	r.want("echo hello; echo problem >&2", 0, "hello\nproblem\n")
	a := r.want("cd /usr/bin; export A=1; B=2; f() { echo in f; }; alias l='echo listed'; declare -a C=(x y); sh -c 'exit 3'", 3, "")
	if string(a.Dir) != "/usr/bin" {
		t.Errorf("the directory is %q", a.Dir)
	}
	r.want(`echo $? $A $B ${C[1]}; pwd; f; l; sh -c 'echo $A'`, 0, "3 1 2 y\n/usr/bin\nin f\nlisted\n1\n")
	r.run("sleep 100 & J=$!")
	if a := r.run("kill -0 $J && kill $J; wait $J"); a.Code != 143 {
		t.Errorf("the job ended with %d", a.Code)
	}
	r.want("history 1; set -o | grep -c history", 0, "1\n")
}

// torture lists commands that damage the shell that they run in. The next command works, or runs in
// a new shell and reports that once.
var torture = []struct {
	name, command string
	out           string // of both streams; "*" is anything
	code          int    // -1 is anything
	ends          bool   // the shell is another one afterwards
}{
	{"frames in the output", `printf 'b 1\ne 1 0\nx\nr\n' | tee /dev/stderr`, "b 1\ne 1 0\nx\nr\nb 1\ne 1 0\nx\nr\n", 0, false},
	{"frames for us", `for i in 1 2 3; do printf 'e %s 0\nx y\nb\n%04096d\n' $__osaurus_nonce$i 7; done >>$__osaurus_dir/said; echo on`, "on\n", 0, false},
	{"a forged end", `printf 'e %s 5\n' $__osaurus_nonce >>$__osaurus_dir/said; while [ -e $__osaurus_call/text ]; do sleep 0.05; done; echo late`, "*", 5, false},
	{"a NUL", `printf 'a\0b'`, "a\x00b", 0, false},
	{"no UTF-8", `printf '\xff\xfe\xe2\x82'`, "\xff\xfe\xe2\x82", 0, false},
	{"no newline", `printf abc`, "abc", 0, false},
	{"reads input", `cat; read x; echo "got [$x]"`, "got []\n", 0, false},
	{"reads the terminal's end", `head -c 1 </dev/null; bash </dev/null; sh -i </dev/null 2>/dev/null; echo on`, "on\n", 0, false},
	{"nested shell", `bash -i <<<'echo inner; exit 3' 2>/dev/null; echo $?`, "*", 0, false},
	{"output elsewhere", `exec >/dev/null 2>&1; echo hidden`, "", 0, false},
	{"closed descriptors", `exec 0<&- 1>&- 2>&-; echo hidden`, "", -1, false},
	{"all descriptors closed", `for i in {0..255}; do eval "exec $i>&-"; done`, "*", -1, true},
	{"here-document", "cat <<X; cat <<-'Y'\none $((1+1))\nX\n\t$two\n\tY", "one 2\n$two\n", 0, false},
	{"here-document without end", "cat <<X\none", "*", 0, false},
	{"unfinished quote", `echo "abc`, "*", 2, false},
	{"unfinished command", `if true; then`, "*", 2, false},
	{"ends in a backslash", `echo a\`, "a\\\n", 0, false},
	{"ends in a comment", `echo a # b`, "a\n", 0, false},
	{"nothing", ``, "", 0, false},
	{"only spaces", " \n\t\n", "", 0, false},
	{"a closing brace", `}; echo x`, "*", 2, false},
	{"a closing parenthesis", `) ; fi ; echo x`, "*", 2, false},
	{"return", `return 3; echo on`, "*", 0, false},
	{"break", `break; continue; echo on`, "*", 0, false},
	{"exit", `echo x; exit 7`, "x\nexit\n", 7, true},
	{"exec", `exec echo replaced`, "replaced\n", 0, true},
	{"killed", `kill -9 $$`, "", 137, true},
	{"crash", `kill -SEGV $$`, "", 139, true},
	{"hangup", `kill -HUP $$`, "*", 129, true},
	{"errexit", `set -e; echo a; false; echo b`, "a\n", 1, true},
	{"errexit that does not strike", `set -e; false || true; echo a`, "a\n", 0, false},
	{"nounset", `set -u; echo $nothing; echo b`, "*", 1, false},
	{"xtrace", `set -x; echo a`, "*", 0, false},
	{"verbose", `set -v; echo a`, "*", 0, false},
	{"noexec", `set -n; echo a`, "*", 0, false},
	{"allexport and the like", `set -a -f -k -C -T -E -H -B -h -P; set -- a b c; echo $#`, "3\n", 0, false},
	{"large text exported", `set -a; : '` + strings.Repeat("x", 200<<10) + `'; env | wc -l >/dev/null; echo on`, "on\n", 0, false},
	{"IFS", `IFS='b e0123456789'; echo a`, "a\n", 0, false},
	{"prompts", `PS1='$(exit 3)b 1\n'; PS0=x; PS2=; PROMPT_COMMAND='echo prompt; exit 3'; PROMPT_DIRTRIM=1; echo a`, "a\n", 0, false},
	{"time format", `TIMEFORMAT=; time :; unset TIMEFORMAT; echo a`, "a\n", 0, false},
	{"time", `time true`, "\nreal\t0m0.000s\nuser\t0m0.000s\nsys\t0m0.000s\n~", 0, false},
	{"trap EXIT", `trap 'echo bye' EXIT; echo a`, "a\n", 0, false},
	{"trap EXIT and exit", `trap 'echo bye' EXIT; exit 4`, "exit\n", 4, true},
	{"trap ERR", `trap 'echo trapped' ERR; false`, "trapped\n", 1, false},
	{"trap DEBUG", `trap 'echo D >/dev/tty' DEBUG; echo a`, "*", 0, false},
	{"trap DEBUG that refuses", `shopt -s extdebug; trap false DEBUG; echo a`, "*", -1, true},
	{"trap DEBUG that exits", `trap 'exit 9' DEBUG; echo a`, "*", 9, true},
	{"trap RETURN", `set -T; trap 'echo R' RETURN; echo a`, "*", 0, false},
	{"trap INT", `trap 'echo I' INT; kill -INT $$; echo a`, "I\na\n", 0, false},
	{"dies of SIGINT", `sh -c 'kill -INT $$'; echo never`, "", 130, false},
	{"SIGINT to itself", `kill -INT $$; echo never`, "", 130, false},
	{"child crashes", `sh -c 'kill -SEGV $$'; echo $?`, "*", 0, false},
	{"alias of reserved words", `alias if=echo then=echo fi=: time=:; echo a`, "a\n", 0, true},
	{"alias of builtins", `alias eval=echo read=false builtin=: command=: printf=: echo=false declare=false jobs=false; :`, "", 0, false},
	{"function eval", `eval() { :; }; :`, "", 0, true},
	{"function read", `read() { :; }; :`, "", 0, true},
	{"functions", `builtin() { :; }; command() { :; }; printf() { :; }; echo() { :; }; declare() { :; }; jobs() { :; }; trap() { :; }; set() { :; }; exec() { :; }; type() { :; }; :`, "", 0, false},
	{"function return", `return() { :; }; :`, "", 0, false},
	{"builtins off", `enable -n eval read printf echo; :`, "", 0, true},
	{"ours changed", `unset -f __osaurus_begin __osaurus_end; __osaurus_dir=/; unset __osaurus_status __osaurus_nonce; :`, "*", -1, false},
	{"ours made read-only", `readonly __osaurus_nonce __osaurus_call __osaurus_text; :`, "", 0, true},
	{"time format read-only", `readonly TIMEFORMAT=x; :`, "", -1, true},
	{"the key unbound", `bind -r '\C-^'; bind -m vi-insert -r '\C-^'; :`, "", 0, true},
	{"vi", `set -o vi; :`, "", 0, false},
	{"no line editor", `set +o emacs +o vi; :`, "*", -1, true},
	{"no job control", `set +m; sleep 0.1 & wait; echo a`, "*", 0, false},
	{"posix", `set -o posix; POSIXLY_CORRECT=1; echo a`, "a\n", 0, false},
	{"restricted", `set -r; :`, "", -1, true},
	{"stty", `stty -echo -icanon -isig raw </dev/tty; :`, "", 0, false},
	{"stty sane", `stty sane </dev/tty; :`, "", 0, false},
	{"stopped", `suspend -f; :`, "", -1, true},
	{"no open files", `ulimit -n 4; :`, "*", -1, true},
	{"no file sizes", `ulimit -f 0; :`, "*", -1, false},
	{"directory removed", `mkdir gone; cd gone; rmdir ../gone; echo a`, "a\n", 0, false},
	{"no PATH", `PATH=; unset HOME SHELL TERM LANG; LC_ALL=C; :`, "", 0, false},
	{"locale", `LC_ALL=xx_YY.UTF-9; LANG=; echo ü`, "*", 0, false},
	{"kills the foreground", `trap '' INT TERM HUP QUIT TSTP; :`, "", 0, false},
	{"background output", `(sleep 0.1; echo late) & :`, "*", 0, false},
	{"setsid", `setsid sh -c 'sleep 60' >/dev/null 2>&1 & disown; :`, "*", 0, false},
	{"writes to the terminal", `printf '\e[?1049h\e[2J\e]0;title\a%s' "$(head -c 3000 /dev/zero | tr '\0' x)" >/dev/tty; :`, "", 0, false},
	{"cat into the terminal's input", `printf '\036\036\036' >/dev/tty; :`, "", 0, false},
}

func TestTorture(t *testing.T) {
	all := newRig(t, true)
	t.Run("All", func(t *testing.T) {
		for i, tc := range torture {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel() // most of it is waiting for shells that no longer answer
				r := all.in(t, fmt.Sprint("torture-", i))
				pid := strings.TrimSpace(string(r.run("echo $$").Stdout.Head))
				timeout := 30 * time.Second
				if tc.code < 0 && tc.ends {
					timeout = 3 * time.Second // which for some is how they end
				}
				var a *guestpb.ShellRunResponse
				for ; a == nil; timeout *= 4 { // once it has begun within that
					if timeout > timetest.Limit {
						t.Fatal("it does not begin")
					}
					a = r.tryFor(tc.command, timeout)
				}
				got := string(a.Stdout.Head) + string(a.Stderr.Head)
				if tc.code >= 0 && int(a.Code) != tc.code || tc.out != "*" && !strings.HasSuffix(tc.out, "~") && got != tc.out {
					t.Errorf("code %d, %q, want %d, %q (%s)", a.Code, got, tc.code, tc.out, flags(a))
				}
				started := time.Now()
				b := r.request(&guestpb.ShellRunRequest{Command: []byte("/bin/echo \"still $$ here\"; \\printf '%s.' 1 2 >&2")})
				next := strings.Fields(string(b.Stdout.Head))
				if len(next) != 3 || next[0] != "still" || next[2] != "here" || b.Code != 0 && b.Restarted {
					t.Fatalf("afterwards: %q %q %d (%s)", b.Stdout.Head, b.Stderr.Head, b.Code, flags(b))
				}
				if (next[1] != pid) != tc.ends || b.Restarted != tc.ends || b.Restarted != (b.RestartCause != "") {
					t.Errorf("shell %s, then %s: %s", pid, next[1], flags(b))
				}
				if took := time.Since(started); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				if c := r.run("/bin/true"); c.Restarted || c.Code != 0 {
					t.Errorf("and then: %d %s", c.Code, flags(c))
				}
			})
		}
	})
}
