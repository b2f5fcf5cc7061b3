package plugins

import (
	"regexp"
	"strconv"
)

// root is the JSON path of the recipe itself.
const root = "$"

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// below returns the JSON path of a member: "$.tools", `$.files["a b.txt"]`.
func below(path, key string) string {
	if plainKey.MatchString(key) {
		return path + "." + key
	}
	return path + "[" + strconv.Quote(brief(key)) + "]"
}

// item returns the JSON path of an item of a list: "$.tools[0]".
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// parent returns the path of the enclosing value; "" for the recipe itself.
func parent(path string) string {
	quoted := false
	for end := len(path) - 1; end > 0; end-- {
		switch c := path[end]; {
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '.' || c == '['):
			return path[:end]
		}
	}
	return ""
}
