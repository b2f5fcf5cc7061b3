// Package packages has the commands, package names and error texts of the guest's package managers.
package packages

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"osaurus-sandbox/internal/fault"
)

const (
	// MaxSpecs bounds the packages of one install.
	MaxSpecs = 32
	// maxSpec bounds the length of one of them.
	maxSpec = 256
)

// Spec is a package, perhaps with a version. Only Parse makes one, so it is never an option, a URL or a path.
type Spec string

// grammar is a manager's syntax of packages.
type grammar struct {
	form *regexp.Regexp
	// mistaken matches names that the manager would read as a file.
	mistaken *regexp.Regexp
	expected string
}

// archive matches endings that make pip and npm read a name as a file.
const archive = `(?i)\.(zip|whl|tar|tgz|tbz|txz|tlz|tar\.(gz|bz2|xz|lz|lzma))$`

// Parts of the patterns.
const (
	pipName    = `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`
	pipVersion = `(===|==|~=|!=|<=|>=|<|>)[A-Za-z0-9][A-Za-z0-9.*+!_-]*`
	npmName    = `[A-Za-z0-9][A-Za-z0-9._~-]*`
	npmVersion = `[A-Za-z0-9*^~<>=][A-Za-z0-9.*^~<>=+|-]*`
)

var grammars = map[Manager]grammar{
	APK: {
		form: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*(@[A-Za-z0-9_-]+)?((=|~|~=|=~|<|<=|>|>=)[0-9][A-Za-z0-9._-]*)?$`),
		// apk reads such names as files.
		mistaken: regexp.MustCompile(`\.apk`),
		expected: `a package of apk's: "jq", "jq=1.7.1-r0", "jq~1.7", "jq>=1.7"; no option, address or path`,
	},
	APT: {
		// A dash at the end would make apt remove the package.
		form:     regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+.](:[a-z0-9]+(-[a-z0-9]+)*)?(=[0-9]([A-Za-z0-9.+:~-]*[A-Za-z0-9.~])?)?$`),
		mistaken: regexp.MustCompile(`\.(deb|dsc|changes)$`),
		expected: `a package of apt's: "jq", "jq=1.6-2.1", "libc6:arm64"; no option, address or path`,
	},
	Pip: {
		form:     regexp.MustCompile(`^` + pipName + `(\[` + pipName + `(,` + pipName + `)*\])?(` + pipVersion + `(,` + pipVersion + `)*)?$`),
		mistaken: regexp.MustCompile(archive),
		expected: `a package of Python's index: "requests", "requests>=2,<3", "uvicorn[standard]==0.30.0"; no option, address, path or marker`,
	},
	NPM: {
		form:     regexp.MustCompile(`^(@` + npmName + `/)?` + npmName + `(@` + npmVersion + `( ` + npmVersion + `| (-|\|\|) ` + npmVersion + `)*)?$`),
		mistaken: regexp.MustCompile(archive),
		expected: `a package of npm's registry: "left-pad", "left-pad@1.3.0", "typescript@^5", "@types/node@latest"; no option, address, path, repository or alias`,
	},
}

const apart = `each package is an item of its own, as in ["a", "b"]`

// spaces matches insignificant spaces.
var spaces = regexp.MustCompile(` *([][,<>=!~]) *`)

// Parse parses a package. It fails with InvalidArgs; the error's advice describes valid packages.
func Parse(m Manager, text string) (Spec, error) {
	g := grammars[m]
	text = strings.Trim(text, " ")
	if m == Pip {
		text = spaces.ReplaceAllString(text, "$1")
	}
	why := ""
	switch {
	case text == "":
		why = "it is empty"
	case len(text) > maxSpec:
		why = fmt.Sprintf("it is longer than %d characters", maxSpec)
		text = text[:maxSpec]
	case strings.ContainsFunc(text, unicode.IsControl):
		why = "there is a control character in it"
	case strings.HasPrefix(text, "-"):
		why = "it is an option"
	case strings.ContainsRune(text, ' ') && m != NPM:
		why = "there is a space in it: " + apart
	case strings.ContainsRune(text, ',') && !g.form.MatchString(text):
		why = "there is a comma in it: " + apart
	case !g.form.MatchString(text):
		why = "it is not written as one"
	case g.mistaken.MatchString(text):
		why = "it would be taken for a file"
	default:
		return Spec(text), nil
	}
	return "", fault.New(fault.InvalidArgs, "read package of "+string(m), fmt.Sprintf("%q", text), errors.New(why)).Advise(g.expected)
}
