package vm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

func TestConsoleRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	if err := os.WriteFile(path, []byte("the run before"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := vm.OpenConsole(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := os.ReadFile(path + ".1"); string(b) != "the run before" {
		t.Errorf("the log of the run before is %q, %v", b, err)
	}
	// Three times the bound, in writes that do not divide it.
	chunk := bytes.Repeat([]byte("0123456\n"), 12345)
	total := 0
	for total < 3*vm.MaxConsole {
		n, err := c.Write(chunk)
		if n != len(chunk) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
		total += n
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != vm.MaxConsole || len(now) != total%vm.MaxConsole {
		t.Errorf("after %d bytes there are %d and %d in the files", total, len(before), len(now))
	}
	if others, _ := os.ReadDir(filepath.Dir(path)); len(others) != 2 {
		t.Errorf("there are %d files", len(others))
	}
}

// Write must not fail when the log cannot be written any more.
func TestConsoleFolderRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := vm.OpenConsole(filepath.Join(dir, "console.log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := c.Write(make([]byte, vm.MaxConsole)); n != vm.MaxConsole || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := vm.OpenConsole(filepath.Join(dir, "console.log")); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Errorf("OpenConsole in a folder that is gone = %v", err)
	}
}

func TestConsoleTail(t *testing.T) {
	c, err := vm.OpenConsole("")
	if err != nil {
		t.Fatal(err)
	}
	say := func(s string) { _, _ = c.Write([]byte(s)) }
	say(strings.Repeat("an old line\r\n", 10000))
	say("\x1b[2J\x1b]0;title\x07plain \xff\n" + strings.Repeat("x", 1000) + "\nlast")
	lines := strings.Split(c.Tail(), "\n")
	if len(lines) != 12 || lines[11] != "last" || lines[9] != "[2J]0;titleplain �" || len(lines[10]) > 210 {
		t.Errorf("Tail = %q", lines)
	}
	if p := c.Panic(); p != "" {
		t.Errorf("Panic = %q", p)
	}
	say("\n[1.0] Kernel panic - not syncing: x\n" + strings.Repeat("frame\n", 30))
	if p := c.Panic(); !strings.HasPrefix(p, "[1.0] Kernel panic - not syncing: x\nframe\n") || strings.Count(p, "\n") != 11 {
		t.Errorf("Panic = %q", p)
	}
}

// Errors that quote the console must be short and printable.
func FuzzConsoleTail(f *testing.F) {
	f.Add([]byte("\x1b[31mred\r\n\xf0\x28\x8c\xbc Kernel panic - not syncing\x00\x9b2J\u202e"))
	f.Fuzz(func(t *testing.T, printed []byte) {
		c, err := vm.OpenConsole("")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(printed)
		for _, quoted := range []string{c.Tail(), c.Panic()} {
			if len(quoted) > 16<<10 || strings.Count(quoted, "\n") > 11 {
				t.Errorf("%d bytes are quoted", len(quoted))
			}
			for _, r := range quoted {
				if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
					t.Errorf("%U is quoted", r)
				}
			}
		}
	})
}

// The mark of a panic must be found in output that comes byte by byte.
func TestConsolePanicked(t *testing.T) {
	c, err := vm.OpenConsole("")
	if err != nil {
		t.Fatal(err)
	}
	heard := func() bool {
		select {
		case <-c.Panicked():
			return true
		default:
			return false
		}
	}
	for i, b := range []byte("no panic: Kernel panic - not synced. Kernel panic - not syncing") {
		if heard() {
			t.Fatalf("a panic is heard after %d bytes", i)
		}
		c.Write([]byte{b})
	}
	if !heard() {
		t.Error("the panic is not heard")
	}
}
