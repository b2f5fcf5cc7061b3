package guesttest

import (
	"context"
	"testing"
)

// ordinary are programs that need more of /proc and the kernel than most. Those that a distribution
// has must work in its rooms.
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

// ordinaryPrograms runs common tools and language runtimes.
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
	// The package manager, as far as it works without a network.
	out, exit := alice.asRoot(ctx, t, `if command -v apt-get; then apt-get install --simulate bash && dpkg --audit; elif command -v apk; then apk info && apk audit --system; fi 2>&1`)
	if exit.Status() != 0 {
		t.Errorf("packages: %+v %s", exit, out)
	}
}
