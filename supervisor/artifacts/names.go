package artifacts

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// maxName bounds names, in bytes: every file system takes it, with room for a number.
	maxName = 200
	// maxPath bounds paths below an artifact, so that programs can open copies of it anywhere.
	maxPath = 512
	// Loose is the session of artifacts that were shared outside of sessions.
	Loose config.SessionID = "default"
)

// checkName refuses names that are misleading or unsafe when they are shown in a terminal.
func checkName(name string) error {
	refuse := func(why string) error {
		return fault.New(fault.InvalidArgs, "name artifact", fmt.Sprintf("%.80q", name), errors.New(why)).Advise("Give the file another name.")
	}
	switch {
	case name == "" || name == "." || name == ".." || strings.Contains(name, "/"):
		return refuse("it is not a file name")
	case len(name) > maxName:
		return refuse(fmt.Sprintf("it is longer than %d bytes", maxName))
	case !utf8.ValidString(name):
		return refuse("it is not UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return refuse("it has invisible characters")
	case strings.TrimSpace(name) != name:
		return refuse("it begins or ends with a space")
	}
	return nil
}

// checkTop checks the name of an artifact, which people type in command lines.
func checkTop(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if strings.ContainsAny(name[:1], ".-~") {
		return fault.Newf(fault.InvalidArgs, "name artifact", fmt.Sprintf("%q", name), "it begins with a dot, a dash or a tilde").Advise("Give it another name.")
	}
	return nil
}

// checkPath checks a path below an artifact.
func checkPath(name string) error {
	if len(name) > maxPath {
		return fault.Newf(fault.InvalidArgs, "name artifact", fmt.Sprintf("%.80q", name), "its path is longer than %d bytes", maxPath).Advise("Share an archive of it.")
	}
	for part := range strings.SplitSeq(name, "/") {
		if err := checkName(part); err != nil {
			return err
		}
	}
	return nil
}

// numbered adds a number to a name: report-2.md.
func numbered(name string, n int) string {
	if n == 1 {
		return name
	}
	ext := path.Ext(name)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
}
