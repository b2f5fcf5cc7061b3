package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"osaurus-sandbox/internal/printable"
)

// maxEncoded is the length up to which encodings of a value are replaced as well.
// Longer values are files, not tokens or passwords.
const maxEncoded = 4 << 10

// forms returns the texts to search for:
//
//   - the value itself, without trailing newlines, which shells strip;
//   - the value as a terminal shows its lines, and on one line, as lists show commands;
//   - its encodings in JSON and in the path and query of a URL;
//   - its base64 encodings, alone or inside something longer ("user:token").
//
// This protects against accidents, not against a program that hides a value.
func forms(value string) []string {
	value = strings.TrimRight(value, "\r\n")
	if utf8.RuneCountInString(value) < MinLength || strings.TrimSpace(value) == "" {
		return nil
	}
	list := []string{value, strings.ReplaceAll(value, "\n", "\r\n"), printable.Text(value)}
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

// inJSON returns a text as it stands between the quotes of a JSON string.
func inJSON(text string) string {
	quoted, _ := printable.JSON(text) // a string does not fail
	return string(quoted[1 : len(quoted)-1])
}

// inBase64 returns the digits of a text in base64 that do not depend on what is
// around it, for each of the three positions in a group of bytes.
func inBase64(text string) (list []string) {
	for before := range 3 {
		whole := strings.Repeat("\x00", before) + text
		// Digits before first and from last on mix in neighbouring bytes.
		first, last := (before*8+5)/6, len(whole)*8/6
		list = append(list, base64.RawStdEncoding.EncodeToString([]byte(whole))[first:last], base64.RawURLEncoding.EncodeToString([]byte(whole))[first:last])
	}
	return list
}
