package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/internal/printable"
)

// maxEncoded is how long a value may be whose encodings are looked for as well:
// tokens and passwords are shorter, and what is longer is a file.
const maxEncoded = 4 << 10

// forms are what a value is looked for as:
//
//   - itself, without newlines at its end, which shells take off;
//   - as a terminal shows its lines;
//   - in JSON, and in the path and in the query of an address;
//   - in base64, alone or in the midst of something longer ("user:token").
//
// Whoever wants to hide a value from this can: it is against accidents.
func forms(value string) []string {
	value = strings.TrimRight(value, "\r\n")
	if utf8.RuneCountInString(value) < MinLength || strings.TrimSpace(value) == "" {
		return nil
	}
	list := []string{value, strings.ReplaceAll(value, "\n", "\r\n")}
	if len(value) <= maxEncoded {
		list = append(list, inJSON(value), url.PathEscape(value), url.QueryEscape(value))
		list = append(list, inBase64(value)...)
	}
	var distinct []string
	for _, form := range list {
		if !slices.Contains(distinct, form) {
			distinct = append(distinct, form)
		}
	}
	return distinct
}

// inJSON is a text between the quotes of a JSON string.
func inJSON(text string) string {
	quoted, _ := printable.JSON(text) // a string does not fail
	return string(quoted[1 : len(quoted)-1])
}

// inBase64 is what is always the same of a text in base64, whatever is before
// and behind it: three forms, one for each place in a group of three bytes.
func inBase64(text string) (list []string) {
	for before := range 3 {
		whole := strings.Repeat("\x00", before) + text
		// The digits that have bits of what is before, and of what is behind.
		first, last := (before*8+5)/6, len(whole)*8/6
		list = append(list, base64.RawStdEncoding.EncodeToString([]byte(whole))[first:last], base64.RawURLEncoding.EncodeToString([]byte(whole))[first:last])
	}
	return list
}
