//go:build linux

package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process/processtest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// A session whose shell is starting, for a call or a person, is not closed to make room.
func TestSessionThatStartsIsNotSpare(t *testing.T) {
	for who, use := range map[string]func(*rig, *guestpb.Shell) error{
		"call": func(r *rig, slow *guestpb.Shell) error {
			q := within("echo up", 0)
			q.Shell = slow
			a, err := r.try(q)
			if err == nil && string(a.Stdout.Head) != "up\n" {
				err = fmt.Errorf("%q, %s", a.Stdout.Head, flags(a))
			}
			return err
		},
		"person": func(r *rig, slow *guestpb.Shell) error {
			v, err := r.Attach(t.Context(), &guestpb.ShellOpen{Shell: slow})
			if err == nil {
				v.Close()
			}
			return err
		},
	} {
		t.Run(who, func(t *testing.T) { sessionThatStarts(t, use) })
	}
}

func sessionThatStarts(t *testing.T, use func(*rig, *guestpb.Shell) error) {
	r, dir := newRig(t, true), t.TempDir()
	begun, gate := filepath.Join(dir, "begun"), filepath.Join(dir, "open")
	profile := "while [ -n \"$SLOW\" ] && [ ! -e '" + gate + "' ]; do : >'" + begun + "'; sleep 0.05; done\n"
	if err := os.WriteFile(filepath.Join(r.home, ".bash_profile"), []byte(profile), 0o644); err != nil {
		t.Fatal(err)
	}
	up := make(chan error, 1)
	go func() { up <- use(r, &guestpb.Shell{Session: "slow", Env: [][]byte{[]byte("SLOW=1")}}) }()
	timetest.Eventually(t, "the profile runs", func() bool { return exists(begun) })
	for i := range 16 {
		r.in(t, fmt.Sprint("s", i)).run("true")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-up; err != nil {
		t.Error(err)
	}
}

// A profile that ends the shell does not lock its user out.
func TestProfiles(t *testing.T) {
	for name, profile := range map[string]string{"exits": "exit 3", "is another shell": "exec sleep 0", "breaks": "if then fi ((", "is fine": "export FROM=profile"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true)
			if err := os.WriteFile(filepath.Join(r.home, ".bash_profile"), []byte(profile+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			q := within("echo [$FROM] $GIVEN", 0)
			q.Shell = &guestpb.Shell{Session: r.session, Env: [][]byte{[]byte("GIVEN=it's a \"test\" $HOME")}, Dir: []byte("/usr")}
			a := r.request(q)
			want := "[] it's a \"test\" $HOME\n"
			if name == "is fine" {
				want = "[profile] it's a \"test\" $HOME\n"
			}
			if string(a.Stdout.Head) != want || string(a.Dir) != "/usr" {
				t.Errorf("%q in %q", a.Stdout.Head, a.Dir)
			}
		})
	}
}

// Closing a session ends its starting shell, which is not started again without the profile.
func TestClosedWhileItStarts(t *testing.T) {
	for cause, end := range map[string]func(*rig) error{
		"it was closed": func(r *rig) error {
			_, err := r.CloseSession(t.Context(), &guestpb.CloseSessionRequest{Session: r.session})
			return err
		},
		"its room was closed": func(r *rig) error {
			r.Forget("")
			return nil
		},
	} {
		t.Run(cause, func(t *testing.T) {
			r := newRig(t, true)
			begun, mark := filepath.Join(t.TempDir(), "begun"), fmt.Sprint("32", os.Getpid())
			profile := ": >'" + begun + "'; sleep " + mark + "\n"
			if err := os.WriteFile(filepath.Join(r.home, ".bash_profile"), []byte(profile), 0o644); err != nil {
				t.Fatal(err)
			}
			answer := make(chan error, 1)
			go func() {
				_, err := r.try(within("true", 0))
				answer <- err
			}()
			timetest.Eventually(t, "the profile runs", func() bool { return exists(begun) })
			asked := time.Now()
			if err := end(r); err != nil {
				t.Error(err)
			}
			err := <-answer
			took := time.Since(asked)
			if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "it has just ended: "+cause) || fault.AdviceOf(err) == "" {
				t.Errorf("the call: %v", err)
			}
			// A shell may take 20 seconds to come up.
			if took > 15*time.Second || r.starts.Load() != 1 {
				t.Errorf("it ended after %v and %d shells", took, r.starts.Load())
			}
			if processtest.Cgroup(t) != "" {
				timetest.Eventually(t, "no process is left", func() bool { return running("sleep\x00"+mark) == 0 })
			}
		})
	}
}

// Rooms without bash use /bin/sh.
func TestWithoutBash(t *testing.T) {
	r := newRig(t, false)
	r.want("echo hello; echo problem >&2; A=1; cd /tmp; f() { echo f; }; false", 1, "hello\nproblem\n")
	a := r.want("echo $A; f; pwd; sh -c 'exit 5'", 5, "1\nf\n/tmp\n")
	if a.Restarted {
		t.Error(flags(a))
	}
	for command, code := range map[string]int{
		"if true; then": 2, "echo 'x": 2, "return 3": 3, "cat": 0, "x=$(yes | head -c 100 | wc -c); [ $x = 100 ]": 0,
		"printf 'e 1 0\\n'": 0, "exit 7": 7, "kill -9 $$": 137, "exec true": 0,
	} {
		if a := r.run(command); int(a.Code) != code {
			t.Errorf("%q ended with %d, want %d (%q, %s)", command, a.Code, code, a.Stderr.Head, flags(a))
		}
		r.want("echo on", 0, "on\n")
	}
	for _, command := range []string{"sleep 60", "while :; do :; done", "cat </dev/tty"} {
		var a *guestpb.ShellRunResponse
		for timeout := 300 * time.Millisecond; a == nil; timeout *= 4 {
			a = r.tryFor(command, timeout)
		}
		if !a.TimedOut {
			t.Errorf("%q: code %d, %s", command, a.Code, flags(a))
		}
		r.want("echo on", 0, "on\n")
	}
}
