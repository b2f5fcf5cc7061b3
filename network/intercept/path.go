package intercept

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// paths returns the ways in which servers read a path beyond those that policy knows: decoded twice,
// and without parameters ("/a;b=c/d").
func paths(u *url.URL) []string {
	list := []string{u.EscapedPath()}
	if strings.Contains(u.Path, "%") {
		list = append(list, u.Path)
	}
	if strings.Contains(u.Path, ";") {
		segments := strings.Split(u.Path, "/")
		for i, segment := range segments {
			segments[i], _, _ = strings.Cut(segment, ";")
		}
		list = append(list, (&url.URL{Path: strings.Join(segments, "/")}).EscapedPath())
	}
	return list
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
