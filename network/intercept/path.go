package intercept

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxDecodings is how often a server may decode a path by mistake.
const maxDecodings = 3

// spellings returns the ways in which servers read a path. All of them have to be allowed, or a path
// could be read here as one and there as another.
func spellings(u *url.URL) ([]string, error) {
	if !strings.HasPrefix(u.Path, "/") {
		return nil, errors.New("the path does not begin with a slash")
	}
	if strings.ContainsFunc(u.Path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return nil, errors.New("the path has a control character")
	}
	for text, i := u.Path, 0; ; i++ {
		if hasDots(text) {
			return nil, errors.New(`the path has a segment "." or ".."`)
		}
		decoded, err := url.PathUnescape(text)
		if err != nil || decoded == text || i == maxDecodings {
			break
		}
		text = decoded
	}
	list := []string{u.Path}
	if escaped := u.EscapedPath(); strings.Contains(strings.ToUpper(escaped), "%2F") {
		list = append(list, escaped) // a slash inside of a segment
	}
	if plain := simplified(u.Path); plain != u.Path {
		list = append(list, plain)
	}
	return list, nil
}

func separator(c rune) bool { return c == '/' || c == '\\' }

// hasDots reports whether a segment is "." or "..", also with parameters ("..;a=b").
func hasDots(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, separator) {
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}

// simplified returns a path without parameters, repeated slashes and backslashes.
func simplified(path string) string {
	var b strings.Builder
	for segment := range strings.FieldsFuncSeq(path, separator) {
		name, _, _ := strings.Cut(segment, ";")
		b.WriteString("/" + name)
	}
	if b.Len() == 0 || separator(rune(path[len(path)-1])) {
		b.WriteByte('/')
	}
	return b.String()
}

// methods returns the methods as which servers read a request: its own, and those of headers and the
// parameter with which some frameworks replace it.
func methods(r *http.Request) []string {
	list := []string{r.Method}
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		list = append(list, r.Header[name]...)
	}
	for key, value := range parameters(r.URL.RawQuery) {
		if key == "_method" {
			list = append(list, value)
		}
	}
	for i := range list {
		list[i] = strings.ToUpper(strings.TrimSpace(list[i]))
	}
	slices.Sort(list[1:])
	return slices.Compact(list)
}

// canonicalHost returns a host name as policies have it: lower case, without a trailing dot. A name
// that is not ASCII becomes empty, since other letters have lower cases that are ASCII.
func canonicalHost(name string) string {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return ""
		}
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}
