//go:build linux

package job

import (
	"errors"
	"io"
	"os"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// logPart bounds each of a log's two files. Together they hold the end of the output: enough for a
// long build, and little compared with an agent's disk.
const logPart = 4 << 20

// log stores a job's output in two files: the current part and the one before. A file is truncated
// before it is removed, because the agent may hold it open and would otherwise keep space beyond
// its limit.
type log struct {
	mu      sync.Mutex
	path    string
	now     *os.File // nil once the log is removed
	before  *os.File // nil before the first rotation
	start   uint64   // of now, in all of the output
	length  uint64   // of now
	earlier uint64   // of before
}

// beforeSuffix is the file name suffix of the previous part.
const beforeSuffix = ".1"

// open creates the log file.
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

// write appends output. If the disk is full, output is lost but the job goes on.
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
			// Lost output counts as written and dropped.
			l.restart(uint64(len(b) - n))
			return
		}
		b = b[n:]
	}
}

// rotate turns the current part into the previous one. The caller holds the lock.
func (l *log) rotate() {
	l.dropBefore()
	var f *os.File
	err := os.Rename(l.path, l.path+beforeSuffix)
	if err == nil {
		if f, err = os.OpenFile(l.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644); err != nil {
			_ = os.Rename(l.path+beforeSuffix, l.path) // so that the next rotation finds it
		}
	}
	if err != nil {
		l.restart(0)
		return
	}
	l.before, l.earlier = l.now, l.length
	l.now, l.start, l.length = f, l.start+l.length, 0
}

// restart discards the log and skips some bytes. The caller holds the lock.
func (l *log) restart(skipped uint64) {
	l.start += l.length + skipped
	l.length = 0
	_ = l.now.Truncate(0)
	l.dropBefore()
}

// dropBefore removes the previous part. The caller holds the lock.
func (l *log) dropBefore() {
	if l.before != nil {
		_, _ = l.before.Truncate(0), l.before.Close()
	}
	l.before, l.earlier = nil, 0
}

// size returns how many bytes were written, and how many of them were dropped.
func (l *log) size() (written, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start + l.length, l.start - l.earlier
}

// read returns up to n bytes from an offset, or from the start of the log if that is later.
func (l *log) read(offset, n uint64) (data []byte, from uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin, end := l.start-l.earlier, l.start+l.length
	from = min(max(offset, begin), end)
	if n = min(n, end-from); n == 0 || l.now == nil {
		return nil, from, nil
	}
	data = make([]byte, n)
	earlier := min(n, max(l.start, from)-from) // bytes to read from the previous part
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

// fill reads from a file of the log. The caller holds the lock.
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
	_, _ = os.Remove(l.path), os.Remove(l.path+beforeSuffix) // the second may not exist
	l.now = nil
}
