package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"osaurus-sandbox/config"
)

// notePath returns the path of the note: a small file with the last entry's number and
// hash, by which Verify finds that the end of the log was deleted.
func (l *Log) notePath() string { return l.db.Path() + "-audit-head" }

// text returns the note, whose length is fixed.
func (h head) text() []byte { return fmt.Appendf(nil, "%020d %s\n", h.seq, h.hash) }

// begin writes the note of an empty log durably, since entries survive a power cut and need
// a note.
func (l *Log) begin() error { return config.WriteFile(l.notePath(), head{}.text()) }

// note overwrites the note in one write of the same length: a kill leaves the old or the
// new one, and a full disk has room for it.
func (l *Log) note(h head) error {
	l.noting.Lock()
	defer l.noting.Unlock()
	if h.seq < l.noted {
		return nil // a later entry was faster
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

// readNote reads the note. An invalid one counts as missing.
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

// readTwice reads a file until it is the same twice, since it may be written meanwhile.
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
