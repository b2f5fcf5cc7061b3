package protocol

import (
	"strings"
	"unicode/utf8"
)

// The limits of shells and jobs.
const (
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
)

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
