package install

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// tomlText edits TOML files. An entry is a table with a header.
type tomlText struct{}

func (tomlText) read(text []byte) (any, error) {
	var m map[string]any
	if err := toml.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	return asJSON(m)
}

func (tomlText) snippet(at place, entry object) string {
	var b strings.Builder
	b.WriteString("[" + at.key + "." + Server + "]\n")
	for _, m := range entry {
		value := literal(m.value)
		if inner, ok := m.value.(object); ok {
			var parts []string
			for _, each := range inner {
				parts = append(parts, literal(each.key)+" = "+literal(each.value))
			}
			value = "{ " + strings.Join(parts, ", ") + " }"
		}
		b.WriteString(m.key + " = " + value + "\n")
	}
	return b.String()
}

func (f tomlText) set(text []byte, at place, entry object) ([]byte, error) {
	table := f.snippet(at, entry)
	if from, to := f.table(text, at); from >= 0 {
		return splice(text, from, to, table), nil
	}
	lead := ""
	if len(text) > 0 {
		lead = "\n"
		if !bytes.HasSuffix(text, []byte("\n")) {
			lead = "\n\n"
		}
	}
	return []byte(string(text) + lead + table), nil
}

func (f tomlText) unset(text []byte, at place) ([]byte, error) {
	from, to := f.table(text, at)
	if from < 0 {
		return text, nil
	}
	if blank := bytes.TrimSuffix(bytes.TrimSuffix(text[:from], []byte("\n")), []byte("\r")); to == len(text) && bytes.HasSuffix(blank, []byte("\n")) {
		from = len(blank) // the blank line before it
	}
	return splice(text, from, to, ""), nil
}

var anyTable = regexp.MustCompile(`^\s*\[`)

// table returns the range of the entry's table and its subtables, up to the
// last line with content, or -1.
func (tomlText) table(text []byte, at place) (from, to int) {
	name := `\[\s*` + at.key + `\s*\.\s*["']?` + regexp.QuoteMeta(Server) + `["']?\s*`
	own, below := regexp.MustCompile(`^\s*`+name+`\]`), regexp.MustCompile(`^\s*`+name+`[.\]]`)
	return block(text, own.Match, func(line []byte) bool { return anyTable.Match(line) && !below.Match(line) })
}
