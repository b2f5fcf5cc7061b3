package inference

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzAnswer reads any answer, whole and as a stream. The parts make up the answer, and it has at most
// maxAnswer bytes.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"message":{"content":"hi"}}],"usage":{"total_tokens":2}}`,
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		": awake\n\ndata: {\"error\":\"no\"}\r\n\r\n",
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n",
		`{"choices":[],"error":{"message":"no"}}`, `{"choices":[{"message":{"content":null}}],"usage":{"total_tokens":-1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		whole := &answer{}
		if err := whole.readWhole(bytes.NewReader(sent)); err == nil && whole.tokens() < 0 {
			t.Errorf("it cost %d", whole.tokens())
		}
		var told strings.Builder
		parts := &answer{tell: func(part string) error { told.WriteString(part); return nil }}
		_ = parts.readStream(bytes.NewReader(sent)) // mostly fails
		if told.String() != parts.text.String() || parts.text.Len() > maxAnswer || parts.tokens() < 0 {
			t.Errorf("told %q of %q, for %d tokens", told.String(), parts.text.String(), parts.tokens())
		}
	})
}
