package history_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"osaurus-sandbox/history"
	"osaurus-sandbox/internal/clone"
)

// took is the middle of the times that runs of each function take, in turn. The last one is prepared.
func took(b *testing.B, runs int, prepare func(), functions ...func()) []time.Duration {
	times := make([][]time.Duration, len(functions))
	for range runs {
		for i, f := range functions {
			if i == len(functions)-1 {
				prepare()
			}
			began := time.Now()
			f()
			times[i] = append(times[i], time.Since(began))
		}
	}
	middle := make([]time.Duration, len(functions))
	for i, t := range times {
		slices.Sort(t)
		middle[i] = t[len(t)/2]
	}
	return middle
}

func run(b *testing.B, name string, arguments ...string) func() {
	return func() {
		if out, err := exec.Command(name, arguments...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}

// BenchmarkCheckpoint compares checkpoints of 10,000 files with find: unchanged, and with one changed file.
func BenchmarkCheckpoint(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		path := filepath.Join(dir, fmt.Sprintf("folder %d", i%200), fmt.Sprintf("some file %d.txt", i))
		if i < 200 {
			must(b, os.Mkdir(filepath.Dir(path), 0o755))
		}
		must(b, os.WriteFile(path, fmt.Append(nil, i), 0o644))
	}
	h, r := open(b, b.TempDir(), history.Options{}), root(b, dir)
	for read := 1; read > 0; { // until no file is so new that it is read again
		c, err := h.Checkpoint(b.Context(), "home", r)
		must(b, err)
		read = c.Read
	}
	b.ResetTimer()
	n := 0
	for b.Loop() {
		t := took(b, 15, func() {
			n++
			must(b, os.WriteFile(filepath.Join(dir, "folder 7", "some file 7.txt"), fmt.Append(nil, "changed ", n), 0o644))
		}, run(b, "find", dir, "-printf", "%p %m %s %T@ %C@ %i\n"), func() { checkpoint(b, h, r) }, func() { checkpoint(b, h, r) })
		b.ReportMetric(float64(t[0].Milliseconds()), "find-ms")
		b.ReportMetric(float64(t[1])/float64(t[0]), "unchanged/find")
		b.ReportMetric(float64(t[2])/float64(t[1]), "changed/unchanged")
	}
}

// BenchmarkCopy compares the copy of a folder of 256 MiB in 2,000 files with cp.
func BenchmarkCopy(b *testing.B) {
	top := b.TempDir()
	dir := filepath.Join(top, "from")
	for i := range 2000 {
		path := filepath.Join(dir, fmt.Sprint(i%50), fmt.Sprint(i))
		must(b, os.MkdirAll(filepath.Dir(path), 0o755))
		size := 16 << 10
		if i%100 == 0 {
			size = 12 << 20
		}
		must(b, os.WriteFile(path, make([]byte, size), 0o644))
	}
	for b.Loop() {
		to := filepath.Join(top, "to")
		t := took(b, 3, func() {}, func() {
			run(b, "cp", "-r", "--reflink=auto", dir, to)()
			must(b, os.RemoveAll(to))
		}, func() {
			must(b, os.Mkdir(to, 0o700))
			must(b, clone.Tree(b.Context(), root(b, dir), root(b, to), nil))
			must(b, os.RemoveAll(to))
		})
		b.ReportMetric(float64(t[1])/float64(t[0]), "copy/cp")
	}
}
