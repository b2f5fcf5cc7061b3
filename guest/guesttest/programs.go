package guesttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

// ordinary are programs that ask for more of /proc and of the kernel than most. Those that
// a distribution has must work in its rooms.
func ordinary() map[string]string {
	return map[string]string{
		"ps":      `ps | grep -q ps`,
		"top":     `top -b -n 1 | grep -q PID`,
		"free":    `free | grep -q '^Mem: *[1-9]'`,
		"uptime":  `uptime | grep -q 'load average'`,
		"nproc":   `[ "$(nproc)" -ge 1 ]`,
		"df":      `df . /tmp >/dev/null`,
		"node":    `[ "$(node -p 'os.totalmem() > 0 && os.cpus().length > 0 && new Intl.NumberFormat("en").format(1e3)')" = 1,000 ]`,
		"python3": `[ "$(python3 -c 'import multiprocessing, os, ssl, sqlite3, subprocess; print(multiprocessing.Pool(2).map(abs, [-1])[0], os.cpu_count() > 0)')" = "1 True" ]`,
		"java":    `java -version`,
	}
}

// ordinaryPrograms: what people and runtimes of languages use finds what it needs.
func ordinaryPrograms(ctx context.Context, t *testing.T, alice, _ *agent) {
	for name, works := range ordinary() {
		out, exit := alice.run(ctx, t, "command -v "+name+" >/dev/null || { echo none; exit 0; }; { "+works+"; } 2>&1")
		if exit.Status() != 0 {
			t.Errorf("%s: %+v %s", name, exit, out)
		}
		if out == "none" {
			t.Logf("this distribution has no %s", name)
		}
	}
	// The package tool, as the room's root, as far as it goes without a network.
	out, exit := alice.asRoot(ctx, t, `if command -v apt-get; then apt-get install --simulate bash && dpkg --audit; elif command -v apk; then apk info && apk audit --system; fi 2>&1`)
	if exit.Status() != 0 {
		t.Errorf("packages: %+v %s", exit, out)
	}
}

// seenWithin is how long something may take to be painted, on a host that is busy with
// other guests.
const seenWithin = 2 * time.Minute

// fullScreen: programs that paint, in a session that a person attaches to.
func fullScreen(ctx context.Context, t *testing.T, alice, _ *agent) {
	alice.shell(ctx, t, "seq 300 >/tmp/long; PS1='> '")
	seen := newWaiter("")
	a, err := alice.room().AttachShell(ctx, alice.session(), engine.TerminalSize{Rows: 24, Cols: 80}, seen)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	// shows types, and waits for what is painted then.
	shows := func(keys, words string) {
		t.Helper()
		from := len(seen.String())
		if _, err := a.Write([]byte(keys)); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(seenWithin); !strings.Contains(seen.String()[from:], words); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("after %q there is no %q in %q", keys, words, seen.String()[from:])
			}
		}
	}
	resize := func(rows, cols uint16) {
		t.Helper()
		if err := a.Resize(engine.TerminalSize{Rows: rows, Cols: cols}); err != nil {
			t.Fatal(err)
		}
	}
	shows("less /tmp/long\r", "22\r")
	shows(" ", "44\r")
	resize(40, 100)
	shows("g", "37\r")
	shows("G", "300")
	shows("q", "> ")
	shows("echo ba''ck from less; stty size\r", "back from less\r\n40 100")
	shows("top\r", "PID")
	resize(24, 80)
	shows("q", "> ")
	shows("vi /tmp/long\r", "300")
	shows(":1s/1/first line/\r", "first line")
	shows(":wq\r", "> ")
	shows("head -n 1 /tmp/long; echo ba''ck from vi\r", "first line\r\nback from vi")
}
