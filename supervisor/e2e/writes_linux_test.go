//go:build linux

package e2e

import (
	"bufio"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/supervisor/machine"
)

// writes appends a number to a file, syncs it and says so, again and again.
const writes = `i=$(wc -l < /root/log 2>/dev/null || echo 0); while :; do echo $i >> /root/log; sync; echo $i; i=$((i+1)); done`

// TestKilledWhileWriting kills a machine while its guest writes. All writes that the
// guest reported as synced must survive, and the file system must be intact.
func TestKilledWhileWriting(t *testing.T) {
	rounds := 1
	if everything() {
		rounds = 50
	}
	home := newHome(t)
	if err := config.Edit(home, func(f *config.File) error { return f.Set("autoRestart", "false") }); err != nil {
		t.Fatal(err)
	}
	s := newSandbox(t, home)
	synced := -1
	for range rounds {
		s.must(s.Start(t.Context(), by))
		s.wantSynced(synced)
		out, in := io.Pipe()
		p, err := s.Exec(t.Context(), engine.Command{Args: []string{"sh", "-c", writes}, Stdout: in})
		s.must(err)
		lines := bufio.NewScanner(out)
		for range 20 + rand.IntN(40) {
			if !lines.Scan() {
				t.Fatal("the guest stopped writing")
			}
			if synced, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		send(t, qemuPID(t, os.Getpid()), syscall.SIGKILL)
		go func() {
			for lines.Scan() { // until the killed guest's output ends
			}
		}()
		if _, err := p.Wait(); err == nil {
			t.Error("the command ended well")
		}
		in.Close()
		s.becomes(machine.Failed)
		wantClean(t, home.DataDisk())
	}
	s.must(s.Start(t.Context(), by))
	s.wantSynced(synced)
	s.must(s.Stop(t.Context(), by))
	if out, err := exec.Command("e2fsck", "-fn", home.DataDisk()).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}

// wantClean fails the test unless the file system of a killed machine is intact after
// its journal is replayed, as a mount does. It checks a copy.
func wantClean(t *testing.T, disk string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "disk")
	for _, command := range [][]string{{"cp", "--sparse=always", disk, copied}, {"e2fsck", "-p", "-E", "journal_only", copied}, {"e2fsck", "-fn", copied}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if err := os.Remove(copied); err != nil {
		t.Error(err)
	}
}

// wantSynced fails the test unless the file has every number up to the last one that
// was synced, in order.
func (s *sandbox) wantSynced(last int) {
	s.t.Helper()
	if last < 0 {
		return
	}
	numbers := strings.Fields(s.run("cat /root/log"))
	if len(numbers) <= last {
		s.t.Fatalf("%d writes are there, %d were synced", len(numbers), last+1)
	}
	for i, n := range numbers[:last+1] {
		if n != strconv.Itoa(i) {
			s.t.Fatalf("write %d is %q", i, n)
		}
	}
}
