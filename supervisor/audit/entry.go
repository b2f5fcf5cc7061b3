// Package audit records who did what to the sandbox, in a log that only grows and whose entries are chained by hashes.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// maxText bounds each text of an entry. A longer one is cut, and its digest added.
const maxText = 16 << 10

// Seq numbers the entries from 1, without gaps.
type Seq int64

// Hash is the SHA-256 of an entry and its predecessor's hash.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Outcome is OK, Begun, or the kind of the error.
type Outcome string

const (
	OK Outcome = "ok"
	// Begun is for calls that may take long or not return. A second entry has the
	// outcome.
	Begun Outcome = "begun"
)

// OutcomeOf returns OK for nil, or the error's kind.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	return Outcome(fault.KindOf(err))
}

// Entry says who did what, when, and with which outcome. The log sets Seq, Time and Hash.
type Entry struct {
	Seq     Seq
	Time    time.Time
	UID     int              // the user of this computer who asked
	Agent   config.AgentName // may be empty
	Client  string           // the program that asked: "osaurus-sandbox exec"
	Action  string           // "machine.reset"
	Subject string           // a command line, a path, a setting
	Outcome Outcome
	Detail  string // the error, or more information
	Hash    Hash
}

// Of returns the entry with the outcome of an error, and its text as the detail, or with OK for nil.
func (e Entry) Of(err error) Entry {
	if e.Outcome = OutcomeOf(err); err != nil {
		e.Detail = err.Error()
	}
	return e
}

// check returns the entry with bounded texts in valid UTF-8, and refuses one without a
// client, an action or an outcome.
func (e Entry) check() (Entry, error) {
	if e.Client == "" || e.Action == "" || e.Outcome == "" {
		return e, fault.Newf(fault.InvalidArgs, "record in audit", e.Action, "an entry needs a client, an action and an outcome")
	}
	for _, text := range []*string{&e.Client, &e.Action, &e.Subject, (*string)(&e.Outcome), &e.Detail} {
		*text = cut(*text)
	}
	return e, nil
}

// cut returns valid UTF-8 of about maxText bytes. It adds length and digest of a text that
// it changes.
func cut(text string) string {
	valid := strings.ToValidUTF8(text, "\uFFFD")
	if len(valid) <= maxText && valid == text {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", printable.First(valid, maxText), len(text), sha256.Sum256([]byte(text)))
}

// domain begins the hashed data, so that it cannot be confused with other data or a later
// version.
const domain = "osaurus-sandbox audit 1\n"

// encode is the entry's canonical form:
//
//	number, time in nanoseconds since 1970, uid            8 bytes each, big-endian
//	agent, client, action, subject, outcome, detail        each 4 bytes of length, big-endian, and UTF-8
//
// No two entries have the same.
func (e Entry) encode() []byte {
	var b []byte
	for _, n := range []int64{int64(e.Seq), e.Time.UnixNano(), int64(e.UID)} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range []string{string(e.Agent), e.Client, e.Action, e.Subject, string(e.Outcome), e.Detail} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return b
}

// chain returns the hash of an entry after one with the hash before. The first entry follows
// the zero hash.
func (e Entry) chain(before Hash) Hash {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write(before[:])
	h.Write(e.encode())
	return Hash(h.Sum(nil))
}
