package install

import (
	"regexp"
	"slices"
	"strings"

	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools/packages"
)

// Recipes name packages as one distribution does, mostly Alpine. Where the other
// one's name follows from that, a recipe is good for both.
var (
	fromAlpine = map[string]string{"build-base": "build-essential", "sqlite": "sqlite3", "openssh-client-default": "openssh-client", "font-dejavu": "fonts-dejavu"}
	fromDebian = map[string]string{"build-essential": "build-base", "sqlite3": "sqlite", "openssh-client": "openssh-client-default", "fonts-dejavu": "font-dejavu"}
	// Python's packages have a prefix in both.
	alpinePython, debianPython = "py3-", "python3-"
)

// aName is the part of a dependency that is no version.
var aName = regexp.MustCompile(`^[A-Za-z0-9._+-]*[A-Za-z0-9._+]`)

// packagesFor are dependencies as the guest's distribution calls them. A version is
// the distribution's own: where the name is translated, or the manager does not know such
// conditions, the one that it has is taken.
func packagesFor(m packages.Manager, dependencies []plugins.Dependency) []string {
	var list []string
	for _, d := range dependencies {
		name := aName.FindString(string(d))
		version := string(d)[len(name):]
		known, from, to := fromDebian, debianPython, alpinePython
		if m == packages.APT {
			known, from, to = fromAlpine, alpinePython, debianPython
		}
		translated, ok := known[name]
		if rest, is := strings.CutPrefix(name, from); is && !ok {
			translated, ok = to+rest, true
		}
		switch {
		case ok:
			name, version = translated, ""
		case m == packages.APT && !(strings.HasPrefix(version, "=") && !strings.HasPrefix(version, "==")):
			version = ""
		}
		if spec := name + version; !slices.Contains(list, spec) {
			list = append(list, spec)
		}
	}
	return list
}

// names are packages without their versions.
func names(specs []string) []string {
	list := make([]string, len(specs))
	for n, p := range specs {
		list[n] = aName.FindString(p)
	}
	return list
}
