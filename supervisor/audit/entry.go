// Package audit is the record of who did what to the sandbox: it only grows, and each entry proves all that came before it.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

// maxText bounds each text of an entry, which may be a whole command. What is
// cut off a longer one is still proven, by its digest.
const maxText = 16 << 10

// Seq numbers the entries upwards from 1, leaving none out.
type Seq int64

// Hash is an entry's SHA-256 over its predecessor's hash and all that it says.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText is the hash in hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// Outcome is how it ended: OK, Begun, or the kind of the error.
type Outcome string

const (
	OK Outcome = "ok"
	// Begun is for what takes long or may not come back: a second entry says
	// how it ended, and if there is none, nobody knows.
	Begun Outcome = "begun"
)

// OutcomeOf is OK for nil, or else the error's kind.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	return Outcome(fault.KindOf(err))
}

// Entry says who did what, when, and how it ended. Seq, Time and Hash are the
// log's to set.
type Entry struct {
	Seq     Seq
	Time    time.Time
	UID     int              // the user of this computer who asked
	Agent   config.AgentName // for whom, or "" if it was no agent
	Client  string           // the program that asked: "osaurus-sandbox exec"
	Action  string           // what was asked for: "machine.reset"
	Subject string           // of what: a command line, a path, a setting
	Outcome Outcome
	Detail  string // the error, or what else is worth knowing
	Hash    Hash
}

// check makes an entry that can be recorded: a who, a what and an outcome, in
// valid UTF-8 of a bounded length.
func (e Entry) check() (Entry, error) {
	if e.Client == "" || e.Action == "" || e.Outcome == "" {
		return e, fault.Newf(fault.InvalidArgs, "record in audit", e.Action, "an entry needs a client, an action and an outcome")
	}
	for _, text := range []*string{&e.Client, &e.Action, &e.Subject, (*string)(&e.Outcome), &e.Detail} {
		*text = cut(*text)
	}
	return e, nil
}

// cut makes valid UTF-8 of about maxText bytes. What it changes it marks with
// the length and the digest of the original.
func cut(text string) string {
	valid := strings.ToValidUTF8(text, "\uFFFD")
	if len(valid) <= maxText && valid == text {
		return text
	}
	end := min(len(valid), maxText)
	for end < len(valid) && !utf8.RuneStart(valid[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", valid[:end], len(text), sha256.Sum256([]byte(text)))
}

// domain begins what is hashed, so that it can never be taken for anything
// else, or for a later form of itself.
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

// chain is the hash of an entry that follows one with the hash before. The
// first follows the zero hash.
func (e Entry) chain(before Hash) Hash {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write(before[:])
	h.Write(e.encode())
	return Hash(h.Sum(nil))
}
