// Package source gets recipes from where their authors keep them: an address of the web, or a repository on GitHub at one commit.
package source

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// Source is where a recipe is.
type Source struct {
	address    *url.URL // of the web, or nil
	repository repository
}

// repository is one of GitHub's.
type repository struct{ owner, name, ref string }

const advice = `Write https://…, or OWNER/NAME of a repository on GitHub, perhaps with @ and a branch, tag or commit.`

var (
	// GitHub's own rules for names, and of refs what needs no quotes anywhere.
	repositoryText = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100})(?:@([A-Za-z0-9][A-Za-z0-9._/-]{0,199}))?$`)
	commitText     = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// maxAddress is as long as servers take.
const maxAddress = 2048

// Parse reads where a recipe is.
func Parse(text string) (Source, error) {
	if rest, is := strings.CutPrefix(text, "https://github.com/"); is && repositoryText.MatchString(rest) {
		text = rest
	}
	if m := repositoryText.FindStringSubmatch(text); m != nil {
		r := repository{owner: m[1], name: strings.TrimSuffix(m[2], ".git"), ref: m[3]}
		if strings.Trim(r.name, ".") == "" || strings.Contains(r.ref, "..") {
			return Source{}, wrong(text, "no such repository can be", advice)
		}
		return Source{repository: r}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxAddress || u.Scheme == "":
		return Source{}, wrong(text, "neither an address nor a repository", advice)
	case u.Scheme != "https":
		return Source{}, wrong(text, "what comes over "+u.Scheme+" can be anybody's", "Use https.")
	case u.Hostname() == "" || u.User != nil:
		return Source{}, wrong(text, "no plain address", "Write https://HOST/PATH, without a user.")
	}
	u.Fragment = ""
	return Source{address: u}, nil
}

func wrong(text, why, advice string) error {
	const shown = 100
	return fault.New(fault.InvalidArgs, "read source", printable.First(text, shown), errors.New(why)).Advise(advice)
}
