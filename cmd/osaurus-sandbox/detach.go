package main

import (
	"bytes"
	"io"
	"time"
)

const (
	// detachKey, pressed twice, leaves a shell. One key alone would be taken from
	// programs that know it, such as vim's jump to a tag.
	detachKey     = 0x1d // Ctrl-]
	detachKeyName = "Ctrl-]"
	// detachWait is how long the first one is kept back for the second: as long
	// as two presses of a key take a person in no hurry.
	detachWait = 500 * time.Millisecond
)

// carryKeys carries what is typed until the detach key is pressed twice in a
// row, or there is nothing more.
func carryKeys(typed <-chan []byte, to io.Writer) error {
	var late <-chan time.Time // a detach key is kept back until then
	for {
		var keys []byte
		select {
		case b, more := <-typed:
			if !more {
				return nil
			}
			keys = b
			if late != nil {
				keys = append([]byte{detachKey}, keys...)
			}
			if at := bytes.Index(keys, []byte{detachKey, detachKey}); at >= 0 {
				_, err := to.Write(keys[:at])
				return err
			}
			if late = nil; keys[len(keys)-1] == detachKey {
				keys, late = keys[:len(keys)-1], time.After(detachWait)
			}
		case <-late:
			keys, late = []byte{detachKey}, nil
		}
		if len(keys) == 0 {
			continue
		}
		if _, err := to.Write(keys); err != nil {
			return err
		}
	}
}
