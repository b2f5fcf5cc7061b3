package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"osaurus-sandbox/config"
)

// The note is a small file beside the database with the last entry's number
// and hash. A log whose end was cut off no longer agrees with it.
func (l *Log) notePath() string { return l.db.Path() + "-audit-head" }

// text is what the note says of a last entry: always as much.
func (h head) text() []byte { return fmt.Appendf(nil, "%020d %s\n", h.seq, h.hash) }

// begin makes the note, of no entry yet, and has it outlast a power cut: entries
// would, and without a note they look as if others were cut off.
func (l *Log) begin() error { return config.WriteFile(l.notePath(), head{}.text()) }

// note is one write of always the same length over the old: a kill leaves one
// or the other, and a full disk has room for it.
func (l *Log) note(h head) error {
	l.noting.Lock()
	defer l.noting.Unlock()
	if h.seq < l.noted {
		return nil // another goroutine was quicker
	}
	file, err := os.OpenFile(l.notePath(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(h.text()); err != nil {
		return err
	}
	l.noted = h.seq
	return nil
}

// readNote reads the note, of which there is none if it makes no sense.
func (l *Log) readNote() (h head, found bool, err error) {
	text, err := readTwice(l.notePath())
	if errors.Is(err, os.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, false, l.db.Fault("read audit head", err)
	}
	var hash []byte
	if n, err := fmt.Sscanf(string(text), "%d %x", &h.seq, &hash); n != 2 || err != nil || len(hash) != len(h.hash) {
		return head{}, false, nil
	}
	copy(h.hash[:], hash)
	return h, true, nil
}

// readTwice reads a small file until it is twice the same: a reader may come
// in the midst of a write.
func readTwice(path string) ([]byte, error) {
	before, err := os.ReadFile(path)
	for err == nil {
		var text []byte
		if text, err = os.ReadFile(path); bytes.Equal(text, before) {
			break
		}
		before = text
	}
	return before, err
}
