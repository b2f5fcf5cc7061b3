package e2e

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/vm/qemu/fs"
)

func TestFS(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	write := func(p, s string) {
		t.Helper()
		if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "hello"), "from the host")
	write(filepath.Join(outside, "secret"), "secret")
	if err := os.Symlink(outside, filepath.Join(root, "escape")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	dev, err := fs.New(root, fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The same directory as an ordinary cache would do it, to show what a
	// timeout does to "the owner is the one who asks".
	cached, err := fs.New(root, fs.Options{AttrTimeout: time.Minute, EntryTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	namesOnly, err := fs.New(root, fs.Options{EntryTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	vm := Start(t, Options{Trace: testing.Verbose(), Devices: []Device{
		{Backend: dev, QEMU: "vhost-user-fs-pci,queue-size=1024,tag=work"},
		{Backend: cached, QEMU: "vhost-user-fs-pci,queue-size=1024,tag=cached"},
		{Backend: namesOnly, QEMU: "vhost-user-fs-pci,queue-size=1024,tag=names"},
	}})
	for _, tag := range []string{"work", "cached", "names"} {
		vm.MustRun("mount", tag, "/mnt/"+tag)
	}
	expect := func(want string, words ...any) {
		t.Helper()
		v, err := vm.Run(words...)
		got := strings.Trim(string(v), `"`)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", words, got, want)
		}
	}

	t.Run("basic", func(t *testing.T) {
		expect("from the host", "read", "/mnt/work/hello")
		vm.MustRun("write", "/mnt/work/new", "from", "the", "guest")
		if b, err := os.ReadFile(filepath.Join(root, "new")); string(b) != "from the guest" {
			t.Errorf("host reads %q, %v", b, err)
		}
		vm.MustRun("mkdir", "/mnt/work/dir")
		vm.MustRun("mv", "/mnt/work/new", "/mnt/work/dir/new")
		vm.MustRun("ln", "new", "/mnt/work/dir/sym")
		expect("from the guest", "read", "/mnt/work/dir/sym")
		vm.MustRun("link", "/mnt/work/dir/new", "/mnt/work/dir/hard")
		vm.MustRun("link", "/mnt/work/dir/sym", "/mnt/work/dir/hardsym")
		vm.MustRun("mkfifo", "/mnt/work/dir/fifo")
		expect("operation not permitted", "mknod", "/mnt/work/dir/null")
		for _, n := range []string{"new", "sym", "hard", "hardsym", "fifo"} {
			expect(n, "ls", "/mnt/work/dir")
		}
		vm.MustRun("openunlinked", "/mnt/work/unlinked")
		vm.MustRun("rm", "/mnt/work/dir")
		if _, err := os.Stat(filepath.Join(root, "dir")); !os.IsNotExist(err) {
			t.Errorf("dir is still there: %v", err)
		}
	})
	t.Run("confined", func(t *testing.T) {
		expect("no such file", "read", "/mnt/work/escape/secret") // the guest's own path
		expect("no such file", "read", "/mnt/work/../../.."+outside+"/secret")
	})
	t.Run("host changes", func(t *testing.T) {
		write(filepath.Join(root, "hello"), "changed by the host")
		expect("changed by the host", "read", "/mnt/work/hello")
		if err := os.Remove(filepath.Join(root, "hello")); err != nil {
			t.Fatal(err)
		}
		expect("no such file", "read", "/mnt/work/hello")
	})
	t.Run("owner", func(t *testing.T) {
		write(filepath.Join(root, "own"), "x")
		p := "/mnt/work/own"
		expect("0:0", "stat", p)
		expect("1000:1000", "as", 1000, "stat", p)
		expect("0:0", "stat", p)
		vm.MustRun("as", 1000, "chmod", p, "600")
		vm.MustRun("stat", p)
		vm.MustRun("as", 1000, "chmod", p, "640")
		vm.MustRun("as", 1000, "write", p, "mine")
		vm.MustRun("chown", p, "4711")
		expect("0:0", "stat", p)
		var st os.FileInfo
		st, err := os.Stat(filepath.Join(root, "own"))
		if err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("host: %v %v", st, err)
		}
	})
	t.Run("stale owners", func(t *testing.T) { // informative
		write(filepath.Join(root, "stale"), "x")
		for _, m := range []string{"work", "names", "cached"} {
			p := "/mnt/" + m + "/stale"
			vm.MustRun("stat", p)
			a, err1 := vm.Run("as", 1000, "stat", p)
			vm.MustRun("stat", p)
			b, err2 := vm.Run("as", 1000, "chmod", p, "600")
			// fchmod after another user's stat: the guest kernel checks the
			// owner it has seen last.
			done := make(chan string, 1)
			go func() {
				v, err := vm.Run("as", 1000, "fchmodafter", p)
				done <- string(v) + " " + errString(err)
			}()
			time.Sleep(500 * time.Millisecond)
			vm.MustRun("stat", p)
			t.Logf("%-7s: uid 1000 after root: stat %s %s; chmod: %s %s; fchmod: %s", m, a, errString(err1), b, errString(err2), <-done)
		}
	})
	t.Run("remount", func(t *testing.T) {
		vm.MustRun("umount", "/mnt/work")
		vm.MustRun("mount", "work", "/mnt/work")
		vm.MustRun("stat", "/mnt/work/own")
	})
	t.Run("big", func(t *testing.T) {
		data := make([]byte, 8<<20)
		_, _ = rand.Read(data)
		if err := os.WriteFile(filepath.Join(root, "big"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := vm.Run("fsbench", "/mnt/work", "16", "500"); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(filepath.Join(root, "big")); err == nil && !bytes.Equal(b, data) {
			t.Log("big was rewritten")
		}
	})
	t.Run("reboot", func(t *testing.T) {
		_, _ = vm.Run("reboot")
		vm.MustRun("mount", "work", "/mnt/work")
		expect("0:0", "stat", "/mnt/work/own")
	})
	t.Run("backend dies", func(t *testing.T) { // informative
		vm.Servers[1].Stop()
		<-vm.Servers[1].Done
		done := make(chan string, 1)
		go func() {
			v, err := vm.Run("stat", "/mnt/work/own")
			done <- string(v) + " " + errString(err)
		}()
		select {
		case s := <-done:
			t.Logf("stat: %s", s)
		case <-time.After(3 * time.Second):
			t.Log("stat hangs in the guest")
		}
		_, _ = vm.Run("reboot")
		t.Logf("guest again: %s", vm.MustRun("uname"))
		done = make(chan string, 1)
		go func() {
			v, err := vm.Run("mount", "work", "/mnt/work")
			done <- string(v) + " " + errString(err)
		}()
		select {
		case s := <-done:
			t.Logf("mount: %s", s)
		case <-time.After(5 * time.Second):
			t.Log("mount hangs in the guest")
		}
		_, _ = vm.Run("reboot") // poweroff would end QEMU below
		t.Logf("guest again: %s", vm.MustRun("uname"))
		_, _ = vm.Run("poweroff")
		select {
		case <-vm.Exited():
			t.Logf("QEMU exited: %v", vm.Cmd.ProcessState)
		case <-time.After(20 * time.Second):
			t.Error("QEMU did not exit after poweroff")
		}
		for line := range strings.Lines(vm.Console.String()) {
			if strings.Contains(line, "qemu-system") {
				t.Log(line)
			}
		}
	})
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return "(" + err.Error() + ")"
}
