package audit

import (
	"errors"
	"fmt"
	"os"
)

// The note is a small file beside the database with the last entry's number
// and hash. A log whose end was cut off no longer agrees with it.
func (l *Log) notePath() string { return l.db.Path() + "-audit-head" }

// note is one write of always the same length over the old, so that a kill
// leaves one or the other and a full disk does not matter. If it fails, the
// next one makes up for it; until then the last entries are not held by it.
func (l *Log) note(h head) {
	l.noting.Lock()
	defer l.noting.Unlock()
	if h.seq < l.noted {
		return // another goroutine was quicker
	}
	file, err := os.OpenFile(l.notePath(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%020d %s\n", h.seq, h.hash); err == nil {
		l.noted = h.seq
	}
}

func (l *Log) readNote() (h head, found bool, err error) {
	text, err := os.ReadFile(l.notePath())
	if errors.Is(err, os.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, false, l.db.Fault("read audit head", err)
	}
	var hash []byte
	if n, err := fmt.Sscanf(string(text), "%d %x", &h.seq, &hash); n != 2 || err != nil || len(hash) != len(h.hash) {
		return h, false, nil
	}
	copy(h.hash[:], hash)
	return h, true, nil
}
