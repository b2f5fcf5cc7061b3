// Package packages knows the package managers of guests: how packages are written, how they are asked for, and what it means when that fails.
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
	// MaxSpecs is how many packages one call installs: more are no wish but a list,
	// whose failure nobody could read.
	MaxSpecs = 32
	// maxSpec bounds one of them: no name with its version is half as long.
	maxSpec = 256
)

// Spec is a package as a manager is asked for it: a name, and perhaps which
// version. Only Parse makes one, so none is an option, an address or a path.
type Spec string

// grammar is how a manager's packages are written.
type grammar struct {
	form *regexp.Regexp
	// mistaken is what has that form and is another thing to the manager.
	mistaken *regexp.Regexp
	expected string
}

// archive is the end of what pip and npm take for the name of a file.
const archive = `(?i)\.(zip|whl|tar|tgz|tbz|txz|tlz|tar\.(gz|bz2|xz|lz|lzma))$`

// Parts of packages' names.
const (
	pipName    = `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`
	pipVersion = `(===|==|~=|!=|<=|>=|<|>)[A-Za-z0-9][A-Za-z0-9.*+!_-]*`
	npmName    = `[A-Za-z0-9][A-Za-z0-9._~-]*`
	npmVersion = `[A-Za-z0-9*^~<>=][A-Za-z0-9.*^~<>=+|-]*`
)

var grammars = map[Manager]grammar{
	APK: {
		form: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*(@[A-Za-z0-9_-]+)?((=|~|~=|=~|<|<=|>|>=)[0-9][A-Za-z0-9._-]*)?$`),
		// apk reads whatever has this in it as a file.
		mistaken: regexp.MustCompile(`\.apk`),
		expected: `a package of apk's: "jq", "jq=1.7.1-r0", "jq~1.7", "jq>=1.7"; no option, address or path`,
	},
	APT: {
		// A dash at the end would have apt remove the package.
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

// apart is how several packages are asked for.
const apart = `each package is an item of its own, as in ["a", "b"]`

// spaces are those that mean nothing to pip.
var spaces = regexp.MustCompile(` *([][,<>=!~]) *`)

// Parse reads a package. What is wrong with it is an InvalidArgs, whose advice is
// what was expected.
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
