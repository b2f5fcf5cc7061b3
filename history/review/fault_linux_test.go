package review

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
)

// beforeKill has one of each step that Accept knows.
func beforeKill(t *testing.T, dir string) *world {
	t.Helper()
	w := worldIn(t, dir)
	if len(w.has()) > 0 { // after the kill
		return w
	}
	w.host("edited", "old\n", 0o644)
	w.host("gone", "old\n", 0o644)
	w.host("folder", "old\n", 0o644)
	w.host("file/x", "old\n", 0o644)
	w.agent("edited", "new\n", 0o755)
	w.agentRemove("gone")
	w.agentRemove("folder")
	w.agentFolder("folder")
	w.agent("folder/in", "new\n", 0o644)
	w.agentRemove("file")
	w.agent("file", "new\n", 0o644)
	must(t, w.Symlink(t.Context(), "edited", "link"))
	return w
}

// saved is an upper layer that survives a kill, as it does in the guest.
type saved struct {
	Entries map[string]Listed
	Data    map[string][]byte
	Real    map[string]string
	Want    map[string]string
}

const killAt = "OSAURUS_REVIEW_KILL"

// The daemon is killed at each step. Each file is old or new then, and accepting again finishes.
func TestKilledWhileAccepting(t *testing.T) {
	if at := os.Getenv(killAt); at != "" {
		where, dir, _ := strings.Cut(at, ":")
		n, err := strconv.Atoi(where)
		must(t, err)
		w := beforeKill(t, dir)
		s := saved{map[string]Listed{}, map[string][]byte{}, w.has(), w.seen()}
		for name, e := range w.entries {
			s.Entries[name], s.Data[name] = e.Listed, e.data
		}
		f, err := os.Create(filepath.Join(dir, "saved"))
		must(t, err)
		must(t, gob.NewEncoder(f).Encode(s))
		w.reached = func(string) {
			if n--; n == 0 {
				must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
			}
		}
		w.accept()
		return
	}
	program, err := os.Executable()
	must(t, err)
	for n := 1; ; n++ {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(n)+":"+dir)
		out, err := cmd.CombinedOutput()
		if err == nil {
			if n < 9 {
				t.Errorf("there are only %d steps", n-1)
			}
			return
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("step %d: %v\n%s", n, err, out)
		}
		f, err := os.Open(filepath.Join(dir, "saved"))
		must(t, err)
		var s saved
		must(t, gob.NewDecoder(f).Decode(&s))
		f.Close()
		w := beforeKill(t, dir)
		for name, e := range s.Entries {
			w.entries[name] = &node{Listed: e, data: s.Data[name]}
		}
		pending, err := w.History.Pending()
		must(t, err)
		for _, key := range pending {
			_, err := w.History.Resume(t.Context(), key, w.Real)
			must(t, err)
		}
		for name, now := range w.has() {
			if now != s.Real[name] && now != s.Want[name] || strings.HasPrefix(name, ".osaurus") {
				t.Errorf("step %d: %q is %q, neither old nor new", n, name, now)
			}
		}
		for _, name := range []string{"edited", "folder", "file"} { // are on both sides
			if w.has()[name] == "" {
				t.Errorf("step %d: %q is gone", n, name)
			}
		}
		w.accept()
		equalMaps(t, "step "+strconv.Itoa(n), w.has(), s.Want)
	}
}

func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, "1m", func(d *smalldisk.Disk) {
		w := worldIn(t, d.Dir)
		w.History = anyHistory(t)
		w.host("b", "old\n", 0o644)
		w.agent("a", "new\n", 0o644)
		w.agent("b", strings.Repeat("x", 2<<20), 0o644)
		w.agent("c", "new\n", 0o644)
		report, err := w.Accept(t.Context(), Selection{})
		if !errors.Is(err, syscall.ENOSPC) || fault.AdviceOf(err) == "" || len(report.Done) != 0 {
			t.Fatalf("%v %+v", err, report)
		}
		equalMaps(t, "real", w.has(), map[string]string{"b": show(File, 0o644, "old\n")})
		w.agent("b", "fits\n", 0o644)
		w.accept()
		equalMaps(t, "real", w.has(), w.seen())
	})
}

func TestManyChanges(t *testing.T) {
	smalldisk.Run(t, "64m", func(d *smalldisk.Disk) {
		w := worldIn(t, d.Dir)
		must(t, w.Mkdir(t.Context(), "many", 0o755))
		for i := range 10_000 {
			name := fmt.Sprintf("many/%d", i)
			w.entries[name] = &node{Listed: Listed{Path: name, Entry: entry(File, 0o644, "")}, data: []byte("x\n")}
		}
		var picks []Pick // each by name
		for _, c := range w.compute().Changes {
			picks = append(picks, Pick{Path: c.Path, ID: c.ID})
		}
		if report := w.try(Selection{Picks: picks}); len(report.Done) != 10_001 || len(tree(t, w.dir)) != 10_001 {
			t.Errorf("%d are done", len(report.Done))
		}
	})
}
