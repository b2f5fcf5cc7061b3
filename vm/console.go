package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"osaurus-sandbox/internal/fault"
)

const (
	// MaxConsole bounds a console's file. With the one rotated file beside it
	// a guest that prints for ever costs the host twice this: enough for days
	// of an ordinary guest's messages.
	MaxConsole = 4 << 20
	// consoleTail is what is kept in memory for errors: a kernel's panic
	// report with its stack and registers is about 4 KiB.
	consoleTail = 16 << 10
	// consoleLines and consoleLine bound what an error quotes of it.
	consoleLines = 12
	consoleLine  = 200
)

// Console keeps what a guest prints: bounded on disk, and the end of it in
// memory. Write never fails and never waits for anything but the disk, so that
// a full disk or a flood costs log lines and not the guest.
type Console struct {
	path string

	mu   sync.Mutex
	file *os.File // nil if nothing is kept, or after a failure
	size int64
	tail []byte

	panicked chan struct{}
	once     sync.Once
}

// OpenConsole begins the log of a new run at path; that of the run before is
// kept as path.1. With an empty path only the end is kept, in memory.
func OpenConsole(path string) (*Console, error) {
	c := &Console{path: path, panicked: make(chan struct{})}
	if path == "" {
		return c, nil
	}
	if err := c.rotate(); err != nil {
		return nil, fault.New(fault.Unavailable, "open console log", path, err).
			Advise("Make the folder " + filepath.Dir(path) + " writable, or make room on its disk.")
	}
	return c, nil
}

// rotate moves the present file, if any, out of the way and begins a new one.
func (c *Console) rotate() error {
	if c.file != nil {
		c.file.Close()
		c.file = nil
	}
	if st, err := os.Lstat(c.path); err == nil && st.Size() > 0 {
		if err := os.Rename(c.path, c.path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.file, c.size = f, 0
	return nil
}

// Write implements io.Writer.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := len(p)
	if before := c.tail[max(0, len(c.tail)-len(panicMark)):]; bytes.Contains(slices.Concat(before, p), []byte(panicMark)) {
		c.once.Do(func() { close(c.panicked) })
	}
	c.tail = append(c.tail, p[max(0, len(p)-consoleTail):]...)
	if extra := len(c.tail) - consoleTail; extra > 0 {
		c.tail = append(c.tail[:0], c.tail[extra:]...)
	}
	for len(p) > 0 && c.file != nil {
		if c.size == MaxConsole && c.rotate() != nil {
			break
		}
		n, err := c.file.Write(p[:min(int64(len(p)), MaxConsole-c.size)])
		c.size += int64(n)
		if err != nil {
			break // a full disk: this output is lost, the next may fit
		}
		p = p[n:]
	}
	return all, nil
}

// panicMark begins the first line of a Linux kernel's panic report.
const panicMark = "Kernel panic - not syncing"

// Tail returns the last lines as a person may see them: bounded, and without
// the control characters that could play with a terminal.
func (c *Console) Tail() string {
	lines := c.lines()
	return strings.Join(lines[max(0, len(lines)-consoleLines):], "\n")
}

// Panic returns the beginning of the kernel's panic report as Tail does, or ""
// if there is none. A guest may lie about that, to its own harm.
func (c *Console) Panic() string {
	lines := c.lines()
	i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, panicMark) })
	if i < 0 {
		return ""
	}
	return strings.Join(lines[i:min(len(lines), i+consoleLines)], "\n")
}

// Panicked is closed when a panic report begins. A driver whose machines
// outlive their kernel ends them then; the report is complete a moment later.
func (c *Console) Panicked() <-chan struct{} { return c.panicked }

func (c *Console) lines() []string {
	c.mu.Lock()
	text := strings.ToValidUTF8(string(c.tail), "�")
	c.mu.Unlock()
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		l = strings.Map(func(r rune) rune {
			if r != '\t' && !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, l)
		if r := []rune(l); len(r) > consoleLine {
			l = string(r[:consoleLine]) + "…"
		}
		lines[i] = l
	}
	return lines
}

// Close closes the file.
func (c *Console) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}
