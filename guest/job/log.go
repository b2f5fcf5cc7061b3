//go:build linux

package job

import (
	"errors"
	"io"
	"os"
	"sync"

	"osaurus-sandbox/internal/fault"
)

// maxLog bounds a log: enough for a long build, and little compared with an agent's disk.
const maxLog = 8 << 20

// log stores the end of a job's output in a file. The file is truncated before it is removed,
// because the agent may hold it open and would otherwise keep space beyond its limit.
type log struct {
	mu     sync.Mutex
	file   *os.File // nil once the log is removed
	start  uint64   // of the file, in all of the output
	length uint64   // of the file
}

// open creates the log file.
func (l *log) open(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return fault.New(fault.Execution, "make log", path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = f
	return nil
}

// write appends output. If the disk is full, output is lost but the job goes on.
func (l *log) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(b) > 0 && l.file != nil {
		if l.length >= maxLog {
			l.drop(maxLog / 2)
		}
		n, err := l.file.WriteAt(b[:min(uint64(len(b)), maxLog-l.length)], int64(l.length))
		l.length += uint64(n)
		b = b[n:]
		if err != nil {
			l.drop(l.length)
			l.start += uint64(len(b)) // counts as written and dropped
			return
		}
	}
}

// drop removes the first n bytes of the file, or all if that fails. The caller holds the lock.
func (l *log) drop(n uint64) {
	if _, err := io.Copy(io.NewOffsetWriter(l.file, 0), io.NewSectionReader(l.file, int64(n), int64(l.length-n))); err != nil {
		n = l.length
	}
	l.start += n
	l.length -= n
	_ = l.file.Truncate(int64(l.length))
}

// size returns how many bytes were written, and how many of them were dropped.
func (l *log) size() (written, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start + l.length, l.start
}

// read returns up to n bytes from an offset, or from the start of the log if that is later.
func (l *log) read(offset, n uint64) (data []byte, from uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = min(max(offset, l.start), l.start+l.length)
	if n = min(n, l.start+l.length-from); n == 0 || l.file == nil {
		return nil, from, nil
	}
	data = make([]byte, n)
	if _, err := l.file.ReadAt(data, int64(from-l.start)); err != nil && !errors.Is(err, io.EOF) {
		return nil, from, fault.New(fault.Execution, "read log", l.file.Name(), err)
	}
	return data, from, nil
}

// remove deletes the log.
func (l *log) remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_, _, _ = l.file.Truncate(0), l.file.Close(), os.Remove(l.file.Name())
	}
	l.file = nil
}
