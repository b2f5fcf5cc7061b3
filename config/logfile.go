package config

import (
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
)

// OldLog ends the name of the log before.
const OldLog = ".1"

// LogFile is a log of a bounded size. When it is full, it is renamed and another one begins.
type LogFile struct {
	path    string
	max     int64
	crashes bool // gets the trace of a crash of this program

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens a log of at most max bytes, and creates it if there is none.
func OpenLog(path string, max int64) (*LogFile, error) {
	l := &LogFile{path: path, max: max}
	return l, l.open()
}

// OpenCrashLog is OpenLog for a log that also gets the trace if this program crashes.
func OpenCrashLog(path string, max int64) (*LogFile, error) {
	l := &LogFile{path: path, max: max, crashes: true}
	return l, l.open()
}

func (l *LogFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = file, info.Size()
	if stderr, err := os.Stderr.Stat(); l.crashes && (err != nil || !os.SameFile(stderr, info)) { // standard error gets it anyway
		_ = debug.SetCrashOutput(file, debug.CrashOptions{})
	}
	return nil
}

// Write never fails: what a full disk does not take is lost.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		if l.size >= l.max && !l.rotate() {
			break
		}
		n, err := l.file.Write(rest[:min(int64(len(rest)), l.max-l.size)])
		if l.size += int64(n); err != nil {
			break
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// rotate makes room: it begins another file, or else empties this one, whose size must stay bounded.
func (l *LogFile) rotate() bool {
	if err := os.Rename(l.path, l.path+OldLog); err == nil || errors.Is(err, fs.ErrNotExist) { // a user may have removed it
		_ = l.open()
	}
	if l.size >= l.max && l.file.Truncate(0) == nil {
		l.size = 0
	}
	return l.size < l.max
}

// Close closes the file.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.crashes {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	}
	return l.file.Close()
}
