package protocol

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
)

// The limits of shells and jobs.
const (
	// MaxShellText bounds a shell command together with its standard input, which stay in memory
	// and in the room's tmpfs.
	MaxShellText = 512 << 10
	// MaxShellTimeout bounds a command in a shell. Longer ones should be jobs, because a busy
	// shell blocks its other users.
	MaxShellTimeout = time.Hour
	// ShellOutputChars is how much of each stream is kept: a few screens. 40 % is the beginning
	// and the rest the end, where errors are.
	ShellOutputChars = 15_000
	ShellHeadChars   = ShellOutputChars * 2 / 5
	// MaxShellOutputBytes is the most bytes those characters can take.
	MaxShellOutputBytes = ShellOutputChars * utf8.UTFMax
	// TranscriptChars is how much of a session's transcript is kept.
	TranscriptChars = 10_000
	// MaxListedSessions bounds a list of sessions.
	MaxListedSessions = 4096
	// MaxListedJobs bounds a list of an agent's jobs.
	MaxListedJobs = 256
	// MaxLabel bounds a job's label.
	MaxLabel = 200
)

// CheckShellRun validates a shell command.
func CheckShellRun(r *guestpb.ShellRunRequest) error {
	if err := checkShell(r.GetShell()); err != nil {
		return err
	}
	bad := badly("check command")
	if n := len(r.Command) + len(r.Stdin); n > MaxShellText {
		return bad("command and input have %d bytes, more than %d", n, MaxShellText)
	}
	if bytes.IndexByte(r.Command, 0) >= 0 {
		return bad("the command holds a NUL byte")
	}
	if t := r.TimeoutNanos; t < 0 || t > int64(MaxShellTimeout) {
		return bad("time limit %v is not between 0 and %v", time.Duration(t), MaxShellTimeout)
	}
	if r.Call == "" {
		return nil
	}
	_, err := config.ParseCallID(r.Call)
	return err
}

// CheckShellOpen validates a request to attach to a shell.
func CheckShellOpen(o *guestpb.ShellOpen) error {
	if err := checkShell(o.GetShell()); err != nil {
		return err
	}
	return CheckSize(o.GetSize().GetRows(), o.GetSize().GetCols())
}

func checkShell(s *guestpb.Shell) error {
	if _, err := config.ParseSessionID(s.GetSession()); err != nil {
		return err
	}
	if n := len(s.Transcript); n > TranscriptChars*utf8.UTFMax {
		return badly("check shell")("a transcript of %d bytes is too long", n)
	}
	return checkSurroundings(nil, s.Env, s.Dir)
}

// CheckJob validates a job.
func CheckJob(r *guestpb.StartJobRequest) error {
	if err := checkPlugin(r.Plugin, r.OwnNetwork, r.Address, r.User); err != nil {
		return badly("check job")("%w", err)
	}
	if len(r.Label) > MaxLabel || !utf8.ValidString(r.Label) {
		return badly("check job")("a label has at most %d bytes of UTF-8", MaxLabel)
	}
	if len(r.Args) == 0 || len(r.Args[0]) == 0 {
		return badly("check command")("there is no program to run")
	}
	return checkSurroundings(r.Args, r.Env, r.Dir)
}

// CheckJobWait validates the time to wait for a job.
func CheckJobWait(nanos int64) error {
	if nanos < 0 || nanos > int64(engine.MaxJobWait) {
		return badly("check wait")("%v is not between 0 and %v", time.Duration(nanos), engine.MaxJobWait)
	}
	return nil
}

// CleanTranscript returns the last TranscriptChars of a transcript as valid UTF-8 without control
// characters, safe to store and print.
func CleanTranscript(s string) string {
	if most := TranscriptChars * utf8.UTFMax; len(s) > most {
		s = s[len(s)-most:]
	}
	s = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return LastChars(s, TranscriptChars)
}

// LastChars returns the last n characters of a text.
func LastChars(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s[at:]
}
