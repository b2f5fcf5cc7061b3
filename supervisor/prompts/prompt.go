// Package prompts asks people for secrets, network access and approvals, and waits for their answers.
package prompts

import (
	"cmp"
	"context"
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
	// UsualWait is how long a prompt waits by default: a person at the computer has
	// seen it by then.
	UsualWait = 5 * time.Minute
	// MaxWait is the longest wait.
	MaxWait = 24 * time.Hour
	// MaxText is the length of a prompt's text in characters: a screenful.
	MaxText = 2000
	// maxWaiting bounds the waiting prompts of an agent, of each kind, so that it cannot
	// flood its owner or hide those of other agents.
	maxWaiting = 8
	// maxWhat bounds what is asked for in bytes: a path on this computer and one in a room.
	maxWhat = 6000
	// maxEnded is how many ended prompts are kept, for late answers.
	maxEnded = 100
)

// ID identifies a prompt: 8 hexadecimal digits, short enough to type. It is not secret.
type ID string

var idText = regexp.MustCompile(`^[0-9a-f]{8}$`)

// ParseID parses the id of a prompt.
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

// State is the state of a prompt.
type State string

const (
	Waiting   State = "waiting"
	Answered  State = "answered"
	Cancelled State = "cancelled" // by a person, or by the end of the caller or the daemon
	Expired   State = "expired"   // its deadline has passed
)

// event returns the kind of the event for a prompt that reaches the state.
func (s State) event() events.Kind {
	if s == Waiting {
		return "prompt.asked"
	}
	return events.Kind("prompt." + s)
}

// Kind is what a prompt asks for.
type Kind string

const (
	KindSecret  Kind = "secret"
	KindNetwork Kind = "network"
	KindFolder  Kind = "folder" // to mount one
	KindReview  Kind = "review" // to accept changes to one
)

// Choices returns the answers to a prompt of the kind, none for a secret.
func (k Kind) Choices() []Choice {
	switch k {
	case KindNetwork:
		return []Choice{Once, Session, Always, No, Never}
	case KindFolder, KindReview:
		return []Choice{Yes, No}
	}
	return nil
}

// Choice is an answer to a prompt that is not for a secret.
type Choice string

const (
	Once    Choice = "once"
	Session Choice = "session" // until the daemon ends
	Always  Choice = "always"  // adds a rule
	No      Choice = "no"
	Never   Choice = "never" // adds a rule
	Yes     Choice = "yes"   // approves
)

// ParseChoice parses an answer to a prompt that is not for a secret.
func ParseChoice(text string) (Choice, error) {
	switch c := Choice(text); c {
	case Once, Session, Always, No, Never, Yes:
		return c, nil
	}
	return "", fault.Newf(fault.InvalidArgs, "read answer", fmt.Sprintf("%.40q", text), "not allowed").
		Advise("Answer once, session, always, no or never for the network, else yes or no.")
}

// Allows reports whether the agent may connect.
func (c Choice) Allows() bool { return c == Once || c == Session || c == Always }

// Question is what a person is asked.
type Question struct {
	Kind Kind // empty is KindSecret
	// Secret is what is asked for. Of other kinds, it has the agent, and the plugin that connects.
	Secret secrets.Key
	// Name is the agent's name.
	Name config.AgentName
	// What says for people what a question of another kind is about: "api.example.org:443",
	// "to mount /home/me/app".
	What string
	// Text explains the question. People see that the agent wrote it.
	Text string
	// Wait is how long to wait, at most MaxWait. 0 is UsualWait.
	Wait time.Duration
	// Keep stores the answer to a question of another kind, or does what was approved. If it fails,
	// the prompt keeps waiting.
	Keep func(context.Context, Choice) error
}

// check returns the question with its defaults, or why it cannot be asked.
func (q Question) check() (Question, error) {
	q.Kind, q.Wait = cmp.Or(q.Kind, KindSecret), cmp.Or(q.Wait, UsualWait)
	q.What, q.Text = readable(q.What), readable(q.Text)
	refuse := func(why, advice string) (Question, error) {
		return q, fault.New(fault.InvalidArgs, "ask for", q.Subject(), errors.New(why)).Advise(advice)
	}
	switch {
	case utf8.RuneCountInString(q.Text) > MaxText:
		return refuse("the text is too long", fmt.Sprintf("Use at most %d characters.", MaxText))
	case q.Wait < 0 || q.Wait > MaxWait:
		return refuse("the wait is too long", "Wait for a day at most.")
	case q.Kind == KindSecret:
		return q, q.Secret.Check()
	case q.What == "" || len(q.What) > maxWhat:
		return refuse("what is asked for is missing or too long", fmt.Sprintf("Use at most %d bytes.", maxWhat))
	}
	return q, nil
}

// Subject returns what is asked for as a text for errors and the audit.
func (q Question) Subject() string { return cmp.Or(q.What, q.Secret.String()) }

// readable replaces characters that would control a terminal, or are invisible, by dots.
func readable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '·'
	}, text)
}

// Prompt is a question and its state.
type Prompt struct {
	ID ID
	Question
	Asked, Deadline time.Time
	State           State
	Choice          Choice    // the answer, unless it is a secret
	Ended           time.Time // unless it waits
	Cause           string    // of its state
}

// Err returns the result of Ask: nil if the prompt was answered.
func (p Prompt) Err() error {
	const op = "ask for"
	switch p.State {
	case Cancelled:
		return fault.Newf(fault.UserDenied, op, p.Subject(), "it was cancelled: %s", p.Cause).Advise("Do without it, or explain first what it is needed for.")
	case Answered:
		if p.Kind != KindSecret && p.Kind != KindNetwork && p.Choice != Yes {
			return fault.Newf(fault.UserDenied, op, p.Subject(), "the answer is %s", p.Choice).Advise("Do without it, or ask why not.")
		}
	case Expired:
		return fault.Newf(fault.Timeout, op, p.Subject(), "nobody answered").Advise("Ask again when somebody is there: osaurus-sandbox prompt watch")
	}
	return nil
}
