// Package prompts asks people for what only they can give, and has whoever needs it wait for the answer.
package prompts

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/supervisor/events"
)

const (
	// UsualWait is how long a prompt waits where nothing else is said: somebody
	// who is at the computer has seen it by then.
	UsualWait = 5 * time.Minute
	// MaxWait is the longest: who has not answered in a day has forgotten it.
	MaxWait = 24 * time.Hour
	// MaxText is how many characters who asks may say about it: a screenful.
	MaxText = 2000
	// maxWaiting is how many prompts of one agent wait at a time, so that it can
	// bury neither its owner nor what others ask.
	maxWaiting = 8
	// maxEnded is how many that have ended are kept, for those who come late.
	maxEnded = 100
)

// The kinds of events.
const (
	EventAsked     events.Kind = "prompt.asked"
	EventAnswered  events.Kind = "prompt.answered"
	EventCancelled events.Kind = "prompt.cancelled"
	EventExpired   events.Kind = "prompt.expired"
)

// ID is what a prompt is answered by: 8 hexadecimal digits, short enough to be
// typed. It is no secret.
type ID string

var idText = regexp.MustCompile(`^[0-9a-f]{8}$`)

// ParseID reads the id of a prompt.
func ParseID(text string) (ID, error) {
	if !idText.MatchString(text) {
		return "", fault.Newf(fault.InvalidArgs, "read prompt id", fmt.Sprintf("%.40q", text), "not allowed").Advise("It is 8 hexadecimal digits. See `osaurus-sandbox prompt list`.")
	}
	return ID(text), nil
}

func newID() ID {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return ID(hex.EncodeToString(b[:]))
}

// Kind is what is asked for.
type Kind string

// Secret is the value of a secret.
const Secret Kind = "secret"

// State is how a prompt is.
type State string

const (
	Waiting   State = "waiting"
	Answered  State = "answered"
	Cancelled State = "cancelled" // by a person, by the end of who asked, or of the daemon
	Expired   State = "expired"   // its deadline is over
)

// kind is the event of a prompt that came into a state.
func (s State) kind() events.Kind {
	switch s {
	case Answered:
		return EventAnswered
	case Cancelled:
		return EventCancelled
	case Expired:
		return EventExpired
	}
	return EventAsked
}

// Question is what is to be asked.
type Question struct {
	Secret secrets.Key
	// Name is the agent's, for people.
	Name config.AgentName
	// Text is what who asks says about it. People see who says it.
	Text string
	// Wait is how long to wait for an answer, at most MaxWait; 0 is UsualWait.
	Wait time.Duration
}

// check makes a question that can be asked.
func (q Question) check() (Question, error) {
	refuse := func(why, advice string) (Question, error) {
		return q, fault.New(fault.InvalidArgs, "ask for", q.Secret.String(), errors.New(why)).Advise(advice)
	}
	switch {
	case utf8.RuneCountInString(q.Text) > MaxText:
		return refuse("the text is too long", fmt.Sprintf("Say it in %d characters.", MaxText))
	case q.Wait < 0 || q.Wait > MaxWait:
		return refuse("nobody waits so long", "Wait for a day at most.")
	case q.Wait == 0:
		q.Wait = UsualWait
	}
	q.Text = readable(q.Text)
	return q, q.Secret.Check()
}

// readable is a text that does nothing to the terminal that it is shown on,
// and looks like what it is.
func readable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '·'
	}, text)
}

// Prompt is a question and what became of it.
type Prompt struct {
	ID              ID
	Kind            Kind
	Secret          secrets.Key
	Name            config.AgentName
	Text            string
	Asked, Deadline time.Time
	State           State
	Ended           time.Time // unless it waits
	Cause           string    // who or what ended it
}

// Err is what who asked gets: nil if it was answered.
func (p Prompt) Err() error {
	const op = "ask for"
	switch p.State {
	case Cancelled:
		return fault.Newf(fault.UserDenied, op, p.Secret.String(), "it was cancelled: %s", p.Cause).Advise("Do without it, or ask what it is needed for first.")
	case Expired:
		return fault.Newf(fault.Timeout, op, p.Secret.String(), "nobody has answered").Advise("Ask again when somebody is there: osaurus-sandbox prompt watch")
	}
	return nil
}
