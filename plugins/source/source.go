// Package source downloads recipes from a URL or from a repository on GitHub.
package source

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Source is the place of a recipe.
type Source struct {
	address    *url.URL // or nil
	repository repository
}

// repository is a repository on GitHub.
type repository struct{ owner, name, ref string }

const advice = `Write https://…, or OWNER/NAME of a repository on GitHub, perhaps with @ and a branch, tag or commit.`

var (
	// GitHub's rules for names, and refs that need no quotes.
	repositoryText = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100})(?:@([A-Za-z0-9][A-Za-z0-9._/-]{0,199}))?$`)
	commitText     = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

const maxAddress = 2048

// Parse parses a URL or OWNER/NAME[@REF].
func Parse(text string) (Source, error) {
	if rest, is := strings.CutPrefix(text, "https://github.com/"); is && repositoryText.MatchString(rest) {
		text = rest
	}
	if m := repositoryText.FindStringSubmatch(text); m != nil {
		r := repository{owner: m[1], name: strings.TrimSuffix(m[2], ".git"), ref: m[3]}
		if strings.Trim(r.name, ".") == "" || strings.Contains(r.ref, "..") {
			return Source{}, wrong(text, "not a possible name of a repository", advice)
		}
		return Source{repository: r}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxAddress || u.Scheme == "":
		return Source{}, wrong(text, "neither a URL nor a repository", advice)
	case u.Scheme != "https":
		return Source{}, wrong(text, u.Scheme+" is not secure", "Use https.")
	case u.Hostname() == "" || u.User != nil:
		return Source{}, wrong(text, "not a plain URL", "Write https://HOST/PATH, without a user.")
	}
	u.Fragment = ""
	return Source{address: u}, nil
}

func wrong(text, why, advice string) error {
	const shown = 100
	return fault.New(fault.InvalidArgs, "read source", printable.First(text, shown), errors.New(why)).Advise(advice)
}
