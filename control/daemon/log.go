package daemon

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/internal/fault"
)

// maxLog is how large a log grows before it is rotated. With the one before it, that is
// some hundred thousand lines.
const maxLog = 8 << 20

// logFile is a log that is rotated when it is large.
type logFile struct {
	path string
	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(home config.Home) (*logFile, error) {
	if _, err := home.Make(home.Logs()); err != nil {
		return nil, err
	}
	l := &logFile{path: control.DaemonLog(home)}
	if err := l.open(); err != nil {
		return nil, fault.New(fault.Unavailable, "open log", l.path, err).Advise("Make it and its folder writable for you, or set " + config.HomeVariable + " to another home.")
	}
	return l, nil
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write never fails: a daemon does not end because its disk is full.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog {
		l.rotate()
	}
	n, _ := l.file.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// rotate renames the log and begins another one. If that fails, it empties the log, whose
// size must stay bounded. The lock is held.
func (l *logFile) rotate() {
	was := l.file
	err := os.Rename(l.path, l.path+control.OldLog)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // a user may have removed it
		if l.open() == nil {
			_ = was.Close()
			return
		}
	}
	if l.file.Truncate(0) == nil {
		l.size = 0
	}
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
