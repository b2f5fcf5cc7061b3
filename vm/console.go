package vm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const (
	// MaxConsole bounds a console log in bytes. With the rotated log beside it, a
	// guest that prints for ever takes twice this. It holds days of usual messages.
	MaxConsole = 4 << 20
	// consoleTail is how many bytes are kept in memory for errors. A kernel's panic
	// report has about 4 KiB.
	consoleTail = 16 << 10
	// consoleLines and consoleLine bound what an error quotes: lines, and characters of each.
	consoleLines = 12
	consoleLine  = 200
)

// Console logs what a guest prints to a bounded file and keeps the last of it in
// memory. Write never fails: on a full disk, lines are lost and the guest runs on.
type Console struct {
	file *config.LogFile // nil without a log

	mu   sync.Mutex
	tail []byte

	panicked chan struct{}
	once     sync.Once
}

// OpenConsole starts a new log at path and keeps the previous one as path.1. If path
// is empty, there is no log.
func OpenConsole(path string) (*Console, error) {
	c := &Console{panicked: make(chan struct{})}
	if path == "" {
		return c, nil
	}
	var err error
	if st, missing := os.Lstat(path); missing == nil && st.Size() > 0 {
		err = os.Rename(path, path+config.OldLog)
	}
	if err == nil {
		c.file, err = config.OpenLog(path, MaxConsole)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "open console log", path, err).
			Advise("Make the folder " + filepath.Dir(path) + " writable and free space on its disk.")
	}
	return c, nil
}

// Write implements io.Writer.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.tail[max(0, len(c.tail)-len(panicMark)):]; bytes.Contains(slices.Concat(before, p), []byte(panicMark)) {
		c.once.Do(func() { close(c.panicked) })
	}
	c.tail = append(c.tail, p[max(0, len(p)-consoleTail):]...)
	if extra := len(c.tail) - consoleTail; extra > 0 {
		c.tail = append(c.tail[:0], c.tail[extra:]...)
	}
	if c.file != nil {
		_, _ = c.file.Write(p) // never fails
	}
	return len(p), nil
}

// panicMark begins the first line of a Linux kernel's panic report.
const panicMark = "Kernel panic - not syncing"

// Tail returns the last lines, shortened and without control characters, so that
// they are safe to show on a terminal.
func (c *Console) Tail() string {
	lines := c.lines()
	return strings.Join(lines[max(0, len(lines)-consoleLines):], "\n")
}

// Panic returns the first lines of the kernel's panic report in the form of Tail, or
// "" without one. A guest can fake a report, and then its machine ends.
func (c *Console) Panic() string {
	lines := c.lines()
	i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, panicMark) })
	if i < 0 {
		return ""
	}
	return strings.Join(lines[i:min(len(lines), i+consoleLines)], "\n")
}

// Panicked returns a channel that is closed when a panic report begins. The rest of
// the report takes a moment longer.
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
		lines[i] = printable.Chars(l, consoleLine)
	}
	return lines
}

// Close closes the file.
func (c *Console) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
