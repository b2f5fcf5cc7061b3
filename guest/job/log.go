//go:build linux

package job

import (
	"errors"
	"io"
	"os"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// logPart is the most that each of a log's two files holds. Together they are the
// end of the output: enough for a long build, and for an agent's jobs together
// still a small part of its disk.
const logPart = 4 << 20

// log is a job's output on disk: what is written now, and the part before it. The
// agent reads the files too. What it holds open does not go with its name, so a file
// is emptied before it loses that: else an agent could keep more than any limit.
type log struct {
	mu      sync.Mutex
	path    string
	now     *os.File // nil once the log is removed
	before  *os.File // nil: there is none yet
	start   uint64   // of now, in all of the output
	length  uint64   // of now
	earlier uint64   // of before
}

// beforeSuffix is added to the log's name for the part before.
const beforeSuffix = ".1"

// open begins the log in a file.
func (l *log) open(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return fault.New(fault.Execution, "make log", path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path, l.now = path, f
	return nil
}

// write appends. A disk that is full costs output, and not the job.
func (l *log) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(b) > 0 && l.now != nil {
		if l.length >= logPart {
			l.rotate()
			continue
		}
		part := b[:min(uint64(len(b)), logPart-l.length)]
		n, err := l.now.WriteAt(part, int64(l.length))
		l.length += uint64(n)
		if err != nil {
			// What is not kept counts as written and dropped.
			l.restart(uint64(len(b) - n))
			return
		}
		b = b[n:]
	}
}

// rotate makes what was written now the part before. The lock is held.
func (l *log) rotate() {
	l.dropBefore()
	var f *os.File
	err := os.Rename(l.path, l.path+beforeSuffix)
	if err == nil {
		if f, err = os.OpenFile(l.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644); err != nil {
			_ = os.Rename(l.path+beforeSuffix, l.path) // or the next rotation finds nothing
		}
	}
	if err != nil {
		l.restart(0)
		return
	}
	l.before, l.earlier = l.now, l.length
	l.now, l.start, l.length = f, l.start+l.length, 0
}

// restart gives all that was kept up, and skips some bytes. The lock is held.
func (l *log) restart(skipped uint64) {
	l.start += l.length + skipped
	l.length = 0
	_ = l.now.Truncate(0)
	l.dropBefore()
}

// dropBefore gives the part before up. The lock is held.
func (l *log) dropBefore() {
	if l.before != nil {
		_, _ = l.before.Truncate(0), l.before.Close()
	}
	l.before, l.earlier = nil, 0
}

// size is how much was written, and how much of its beginning is gone.
func (l *log) size() (written, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start + l.length, l.start - l.earlier
}

// read returns the n bytes from an offset on, or from where the log begins if that is
// later: fewer where it ends.
func (l *log) read(offset, n uint64) (data []byte, from uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin, end := l.start-l.earlier, l.start+l.length
	from = min(max(offset, begin), end)
	if n = min(n, end-from); n == 0 || l.now == nil {
		return nil, from, nil
	}
	data = make([]byte, n)
	earlier := min(n, max(l.start, from)-from) // of what is read
	if earlier > 0 {
		err = l.fill(data[:earlier], l.before, from-begin)
	}
	if err == nil && earlier < n {
		err = l.fill(data[earlier:], l.now, from+earlier-l.start)
	}
	if err != nil {
		return nil, from, err
	}
	return data, from, nil
}

// fill reads what is in a file of the log. The lock is held.
func (l *log) fill(data []byte, f *os.File, at uint64) error {
	if got, err := f.ReadAt(data, int64(at)); err != nil && !(errors.Is(err, io.EOF) && got > 0) {
		return fault.New(fault.Execution, "read log", l.path, err)
	}
	return nil
}

// remove deletes the log.
func (l *log) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		return
	}
	l.dropBefore()
	_, _ = l.now.Truncate(0), l.now.Close()
	_, _ = os.Remove(l.path), os.Remove(l.path+beforeSuffix) // the second need not be there
	l.now = nil
}
