package tools

import (
	"regexp"
	"strings"
)

// sigpipe is the exit code of a program that wrote to a closed pipe.
const sigpipe = 128 + 13

var (
	bareInstall  = regexp.MustCompile(`(^|[;&|\n]\s*|sudo\s+)(apk\s+add|apt(-get)?\s+install|pip3?\s+install|npm\s+(install|i)\s+[^-\s]|yarn\s+add|pnpm\s+add)\b`)
	hereDocument = regexp.MustCompile(`(?:^|[^<])<<-?\s*['"]?([A-Za-z_]\w*)['"]?`)
	longInline   = regexp.MustCompile(`\s-[ce]\s+(['"])[^'"]*\n`)
)

// advise adds warnings about common mistakes in commands.
func advise(c *Call, in execIn, out execOut) {
	command := in.Command
	if out.TimedOut {
		c.Warn("it was ended after %d s: use a longer timeout (at most %d), or background:true for long work", in.Timeout, maxExecTime)
	}
	failed := out.ExitCode == nil || *out.ExitCode != 0
	switch {
	case !failed && *out.Stdout == "" && *out.Stderr == "" && (strings.Contains(command, "|") || strings.Contains(command, "2>/dev/null")):
		c.Warn("it wrote nothing: perhaps a part of the pipe found nothing, or its errors went to /dev/null")
	case out.ExitCode != nil && *out.ExitCode == sigpipe:
		c.Warn("exit code 141 is not an error: a reader such as head closed the pipe early")
	}
	if !failed {
		return
	}
	if bareInstall.MatchString(command) {
		c.Warn("to install packages, call sandbox_install, sandbox_pip_install or sandbox_npm_install: they have the rights that your user lacks, and retry")
	}
	if m := hereDocument.FindStringSubmatch(command); m != nil && !regexp.MustCompile(`(?m)^\s*`+m[1]+`\s*$`).MatchString(command) {
		c.Warn("the here-document has no line %s that ends it; sandbox_write_file writes files without one", m[1])
	}
	if longInline.MatchString(command) {
		c.Warn("many lines of code in -c or -e are easily broken by quotes: write them to a file, or call sandbox_execute_code")
	}
	if strings.Contains(*out.Stderr, "unexpected EOF while looking for matching") || strings.Contains(*out.Stderr, "unterminated quoted string") {
		c.Warn("a quote in the command is not closed")
	}
	for word := range strings.FieldsSeq(command) {
		if word = strings.Trim(word, `'"`); hostLike(word) {
			c.Warn("%s looks like a path on the person's computer; the sandbox has only %s", quoted(word), c.Home)
			break
		}
	}
}
