//go:build linux

package shell_test

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/guest/process"
)

// A command in a persistent shell beside the same typed into a bare bash on a
// terminal, in turns: the medians and their ratio.
func BenchmarkCommand(b *testing.B) {
	r := newRig(b, true)
	r.run("true")
	bare := startBare(b)
	var ours, theirs []time.Duration
	for b.Loop() {
		start := time.Now()
		r.run("/bin/true")
		ours = append(ours, time.Since(start))
		start = time.Now()
		bare.run("/bin/true")
		theirs = append(theirs, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	a, c := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(a.Microseconds()), "µs/shell")
	b.ReportMetric(float64(c.Microseconds()), "µs/pty")
	b.ReportMetric(float64(a)/float64(c), "ratio")
}

// bare is a bash on a terminal, as an expect script would drive it.
type bare struct {
	b   *testing.B
	pty *os.File
	buf []byte
}

const prompt = "@ready@"

func startBare(b *testing.B) *bare {
	b.Helper()
	manager, err := process.NewManager(process.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ours, theirs, err := process.OpenTerminal(nil, process.Size{Rows: 24, Cols: 80})
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(theirs)
	fd := uintptr(theirs)
	child, err := manager.Start(process.Spec{
		Args: []string{"bash", "--norc", "--noprofile", "-i"}, Dir: "/", Files: [3]uintptr{fd, fd, fd}, TTY: true,
		Env: append(os.Environ(), "PS1="+prompt, "TERM=xterm-256color"),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		child.Release()
		_ = ours.Close()
		manager.Close()
	})
	p := &bare{b: b, pty: ours, buf: make([]byte, 4096)}
	p.await()
	return p
}

func (p *bare) run(command string) {
	if _, err := p.pty.WriteString(command + "\r"); err != nil {
		p.b.Fatal(err)
	}
	p.await()
}

// await reads up to the next prompt.
func (p *bare) await() {
	var seen []byte
	for !bytes.Contains(seen, []byte(prompt)) {
		n, err := p.pty.Read(p.buf)
		if err != nil {
			p.b.Fatal(err)
		}
		seen = append(seen, p.buf[:n]...)
	}
}
