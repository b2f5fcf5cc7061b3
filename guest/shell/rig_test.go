//go:build linux

package shell_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/process/processtest"
	"osaurus-sandbox/guest/shell"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// rig is a manager of shells on this host.
type rig struct {
	*shell.Manager
	t       testing.TB
	home    string
	session string        // that commands run in
	starts  *atomic.Int32 // of shells
}

// in is the rig for another session.
func (r *rig) in(t testing.TB, session string) *rig {
	return &rig{r.Manager, t, r.home, session, r.starts}
}

// newRig returns a manager whose rooms are folders of this host. With bash false
// they have only /bin/sh, which is busybox's.
func newRig(t testing.TB, bash bool) *rig {
	t.Helper()
	signal.Notify(make(chan os.Signal, 1), unix.SIGCHLD) // the first use of signals starts a goroutine
	before := resources(t)
	processes, err := process.NewManager(process.Options{Cgroup: processtest.Cgroup(t)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, home: t.TempDir(), session: "test", starts: new(atomic.Int32)}
	desks := t.TempDir()
	room := room{home: r.home, path: os.Getenv("PATH"), desks: desks, inside: desks, starts: r.starts}
	if !bash {
		jail := withoutBash(t, processtest.Cgroup(t))
		room.place, room.home, room.path, room.desks, room.inside = jail, "/", "/bin", filepath.Join(jail.root, "desks"), "/desks"
	}
	r.Manager = shell.NewManager(processes, func(context.Context, string) (shell.Room, error) { return room, nil })
	t.Cleanup(func() {
		r.Close()
		processes.Close()
		if left, _ := os.ReadDir(desks); len(left) > 0 {
			t.Errorf("%d folders of shells are left", len(left))
		}
		timetest.Eventually(t, "files are closed and goroutines end", func() bool {
			after := resources(t)
			return after.files <= before.files && after.goroutines <= before.goroutines
		})
	})
	return r
}

// room is a room on this host.
type room struct {
	place                     process.Place
	home, path, desks, inside string
	starts                    *atomic.Int32
}

func (r room) Place(bool) process.Place { return r.place }
func (r room) Home() string             { return r.home }
func (r room) Environment(bool) []string {
	return []string{"PATH=" + r.path, "HOME=" + r.home, "USER=tester", "LANG=C.UTF-8", "SHELL=/bin/bash"}
}

func (r room) Spool() (*os.Root, string, error) {
	r.starts.Add(1)
	dir, err := os.OpenRoot(r.desks)
	return dir, r.inside, err
}

// patience is more than anything takes here on a busy host.
const patience = 30 * time.Second

type used struct{ files, goroutines int }

func resources(t testing.TB) used {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return used{len(files), runtime.NumGoroutine()}
}

// jail is a root with busybox in it and nothing else.
type jail struct{ root, group string }

func withoutBash(t testing.TB, group string) jail {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root and a static busybox (package busybox-static)")
	}
	root := t.TempDir()
	for _, dir := range []string{"bin", "dev", "tmp", "desks"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range [][]string{
		{"cp", busybox, root + "/bin/busybox"}, {"chroot", root, "/bin/busybox", "--install", "-s", "/bin"},
		{"mknod", "-m", "666", root + "/dev/null", "c", "1", "3"}, {"mknod", "-m", "666", root + "/dev/tty", "c", "5", "0"},
	} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", cmd, err, out)
		}
	}
	return jail{root, group}
}

func (j jail) Enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Chroot(j.root)
}

func (j jail) Credential() *syscall.Credential { return nil }
func (j jail) Cgroup() string                  { return j.group }
func (jail) Mark() string                      { return "" }

// run runs a command in the rig's session.
func (r *rig) run(command string) *guestpb.ShellRunResponse {
	r.t.Helper()
	return r.request(&guestpb.ShellRunRequest{Command: []byte(command)})
}

func (r *rig) request(q *guestpb.ShellRunRequest) *guestpb.ShellRunResponse {
	r.t.Helper()
	a, err := r.try(q)
	if err != nil {
		r.t.Fatalf("%q: %v", q.Command, err)
	}
	return a
}

func (r *rig) try(q *guestpb.ShellRunRequest) (*guestpb.ShellRunResponse, error) {
	if q.Shell == nil {
		q.Shell = &guestpb.Shell{Session: r.session}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.Run(ctx, q)
}

// tryFor runs a command that may take so long, or returns nil: the shell was too slow to
// begin it within that.
func (r *rig) tryFor(command string, timeout time.Duration) *guestpb.ShellRunResponse {
	r.t.Helper()
	a, err := r.try(within(command, timeout))
	if err != nil && fault.KindOf(err) != fault.Unavailable {
		r.t.Fatalf("%q: %v", command, err)
	}
	return a
}

// want runs a command and compares what it writes, and its code.
func (r *rig) want(command string, code int, out string) *guestpb.ShellRunResponse {
	r.t.Helper()
	a := r.run(command)
	if got := string(a.Stdout.Head) + string(a.Stderr.Head); got != out || int(a.Code) != code {
		r.t.Errorf("%q ended with %d and wrote %q, want %d and %q (%s)", command, a.Code, got, code, out, flags(a))
	}
	return a
}

func flags(a *guestpb.ShellRunResponse) string {
	return fmt.Sprintf("timed out %v, cancelled %v, exited %v, restarted %v %q, late %v", a.TimedOut, a.Cancelled, a.Exited, a.Restarted, a.RestartCause, a.Late)
}

func (r *rig) sessions() []*guestpb.Session {
	a, _ := r.Sessions(context.Background(), &guestpb.SessionsRequest{}) // never fails
	return a.Sessions
}

// cancel ends what runs in the session, or a certain call.
func (r *rig) cancel(call string) error {
	_, err := r.Cancel(context.Background(), &guestpb.ShellCancelRequest{Session: r.session, Call: call})
	return err
}

// transcript returns the session's, when it satisfies a condition.
func (r *rig) transcript(until func(string) bool) string {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		a, err := r.Transcript(context.Background(), &guestpb.ShellTranscriptRequest{Session: r.session})
		if err != nil {
			r.t.Fatal(err)
		}
		if until(a.Text) {
			return a.Text
		}
		if time.Now().After(end) {
			r.t.Fatalf("the transcript is %q", a.Text)
		}
	}
}

func has(word string) func(string) bool {
	return func(s string) bool { return strings.Contains(s, word) }
}
