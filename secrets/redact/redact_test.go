package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/redact"
)

func secret(t testing.TB, name, text string) redact.Secret {
	t.Helper()
	v, err := secrets.ParseValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return redact.Secret{Name: config.SecretName(name), Value: v}
}

// set returns secrets A, B, C… with these values.
func set(t testing.TB, values ...string) (list []redact.Secret) {
	t.Helper()
	for i, v := range values {
		list = append(list, secret(t, string(rune('A'+i)), v))
	}
	return list
}

func TestS11Text(t *testing.T) {
	const token = "sk-0123456789"
	pem := "-----BEGIN-----\nAAAABBBB\nCCCC\n-----END-----\n"
	for _, tc := range []struct {
		values     []string
		text, want string
	}{
		{nil, "nothing", "nothing"},
		{[]string{"short"}, "short", "short"},
		{[]string{"häßlich"}, "x häßlich", "x [REDACTED:A]"},
		{[]string{"ößäüé"}, "ößäüé", "ößäüé"}, // five characters in ten bytes
		{[]string{"      "}, "indented      by", "indented      by"},
		{[]string{token}, "", ""},
		{[]string{token}, token, "[REDACTED:A]"},
		{[]string{token}, token[:len(token)-1], token[:len(token)-1]},
		{[]string{token}, "a " + token + token + " b", "a [REDACTED:A][REDACTED:A] b"},
		{[]string{token + "\n"}, "echo " + token + "; x", "echo [REDACTED:A]; x"},
		// The longest match wins, in any order.
		{[]string{"abcdef", "abcdefgh"}, "xabcdefghx abcdefx", "x[REDACTED:B]x [REDACTED:A]x"},
		{[]string{"bcdefg", "abcdefgh"}, "abcdefgh abcdefgx", "[REDACTED:B] a[REDACTED:A]x"},
		{[]string{"abcdef", "defghijk"}, "abcdefghijk", "[REDACTED:B]"},
		{[]string{"abcdef", "cdefgh"}, "abcdefgh", "[REDACTED:A]"},
		{[]string{"aaaaaa"}, strings.Repeat("a", 100) + "b", "[REDACTED:A]b"},
		{[]string{token, token}, token, "[REDACTED:A]"},
		// Encoded as programs encode values.
		{[]string{pem}, "key:\r\n" + strings.ReplaceAll(pem, "\n", "\r\n"), "key:\r\n[REDACTED:A]\r\n"},
		{[]string{pem}, `{"key":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`, `{"key":"[REDACTED:A]\n"}`},
		{[]string{pem}, "ssh-add " + strings.ReplaceAll(pem, "\n", " "), "ssh-add [REDACTED:A] "},
		{[]string{"a b/c&d=e"}, "?q=" + url.QueryEscape("a b/c&d=e") + " /" + url.PathEscape("a b/c&d=e"), "?q=[REDACTED:A] /[REDACTED:A]"},
	} {
		list := set(t, tc.values...)
		if got := redact.New(list).Text(tc.text); got != tc.want {
			t.Errorf("%q in %q is %q, want %q", tc.values, tc.text, got, tc.want)
		}
	}
}

// TestBase64 checks that a value is found at any offset of base64, except for bits that it shares with
// its neighbours.
func TestBase64(t *testing.T) {
	s := redact.New(set(t, "s3cret?>~token"))
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		for before := range 4 {
			for behind := range 4 {
				whole := strings.Repeat("u", before) + "s3cret?>~token" + strings.Repeat("v", behind)
				got := s.Text("Basic " + enc.EncodeToString([]byte(whole)) + " .")
				if !strings.Contains(got, "[REDACTED:A]") || len(got) > len("Basic [REDACTED:A] .")+2*before+2*behind+4 {
					t.Errorf("%q is shown as %q", whole, got)
				}
			}
		}
	}
}

// TestPart checks that the rest of a cut value is found unless it is short.
func TestPart(t *testing.T) {
	s := redact.New(set(t, "abcdefghij", "0123456789012"))
	for _, tc := range []struct {
		part string
		cut  redact.Cut
		want string
	}{
		{"efghij, abcdef", redact.Whole, "efghij, abcdef"},
		{"efghij, abcdef", redact.Before, "[REDACTED:A], abcdef"},
		{"efghij, abcdef", redact.After, "efghij, [REDACTED:A]"},
		{"efghij, abcdef", redact.Before | redact.After, "[REDACTED:A], [REDACTED:A]"},
		{"fghij, abcde", redact.Before | redact.After, "fghij, abcde"},
		{"789012", redact.Before | redact.After, "[REDACTED:B]"},
		{"789012abcdefghij012345", redact.Before | redact.After, "[REDACTED:B][REDACTED:A][REDACTED:B]"},
		{"", redact.Before | redact.After, ""},
	} {
		if got := s.Part([]byte(tc.part), tc.cut); string(got) != tc.want {
			t.Errorf("%q, cut %d: %q, want %q", tc.part, tc.cut, got, tc.want)
		}
	}
	if got := (*redact.Scrubber)(nil).Part([]byte("x"), redact.After); string(got) != "x" {
		t.Errorf("without secrets: %q", got)
	}
}

// naive is a slow implementation of Scrubber.
func naive(list []redact.Secret, text string) string {
	type place struct {
		begin, end, longest int
		label               string
	}
	type form struct{ text, label string }
	var forms []form
	for _, s := range list {
		for _, text := range naiveForms(s.Value.Reveal()) {
			forms = append(forms, form{text, redact.Label(s.Name)})
		}
	}
	var places []place
	for begin := range len(text) {
		var here place
		for _, f := range forms {
			if strings.HasPrefix(text[begin:], f.text) && len(f.text) > here.longest {
				here = place{begin, begin + len(f.text), len(f.text), f.label}
			}
		}
		if here.longest == 0 {
			continue
		}
		if n := len(places); n > 0 && places[n-1].end > begin {
			last := &places[n-1]
			last.end = max(last.end, here.end)
			if here.longest > last.longest {
				last.longest, last.label = here.longest, here.label
			}
			continue
		}
		places = append(places, here)
	}
	var out strings.Builder
	done := 0
	for _, p := range places {
		out.WriteString(text[done:p.begin] + p.label)
		done = p.end
	}
	return out.String() + text[done:]
}

func naiveForms(value string) []string {
	v := strings.TrimRight(value, "\r\n")
	if len([]rune(v)) < redact.MinLength || strings.TrimSpace(v) == "" {
		return nil
	}
	var j bytes.Buffer
	enc := json.NewEncoder(&j)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
	list := []string{v, strings.ReplaceAll(v, "\n", "\r\n"), j.String()[1 : j.Len()-2], url.PathEscape(v), url.QueryEscape(v)}
	for before, first := range []int{0, 2, 3} {
		whole := strings.Repeat("\x00", before) + v
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			list = append(list, enc.EncodeToString([]byte(whole))[first:len(whole)*8/6])
		}
	}
	return list
}

// pieces writes a text in pieces without pauses, and returns the output.
func pieces(t *testing.T, list []redact.Secret, text string, size func() int) string {
	t.Helper()
	var out bytes.Buffer
	timetest.Synthetic(t, func(t *testing.T) {
		live := new(redact.Live)
		live.Set(redact.New(list))
		o := redact.NewOutput(live)
		w := o.Writer(&out)
		for rest := text; rest != ""; {
			n := min(max(1, size()), len(rest))
			if wrote, err := w.Write([]byte(rest[:n])); wrote != n || err != nil {
				t.Fatal(wrote, err)
			}
			rest = rest[n:]
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return out.String()
}

// An empty first piece is not the beginning.
func TestEmptyFirstPiece(t *testing.T) {
	live := new(redact.Live)
	live.Set(redact.New([]redact.Secret{secret(t, "TOKEN", "abcdefghijklmnop")}))
	f := redact.NewFlow(live, redact.Before)
	out := f.Feed(nil, nil)
	out = f.End(f.Feed(out, []byte("ghijklmnop and more")))
	if string(out) != "[REDACTED:TOKEN] and more" {
		t.Errorf("%q", out)
	}
}

// TestS04LikeNaive compares Scrubber with the naive one.
func TestS04LikeNaive(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	word := func(letters string, most int) string {
		b := make([]byte, redact.MinLength+r.IntN(most))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for n := range 2000 {
		letters := []string{"ab", "aab\n", "a", "abc/+ =", "abcdefgh"}[n%5]
		var list []redact.Secret
		for i := range 1 + r.IntN(4) {
			list = append(list, secret(t, string(rune('A'+i)), word(letters, 9)))
		}
		text := word(letters, 60)
		for range r.IntN(4) {
			v := list[r.IntN(len(list))].Value.Reveal()
			text += v[:r.IntN(len(v)+1)] + base64.StdEncoding.EncodeToString([]byte(v)) + word(letters, 9)
		}
		want := naive(list, text)
		if got := redact.New(list).Text(text); got != want {
			t.Fatalf("seed %d: %q in %q is %q, want %q", seed, list, text, got, want)
		}
		if got := pieces(t, list, text, func() int { return r.IntN(8) }); got != want {
			t.Fatalf("seed %d: in pieces, %q is %q, want %q", seed, text, got, want)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("abcdef", "bcdefgh", "xabcdefghx", uint8(3))
	f.Add("aaaaaaa\n", "aaaaaaab", "aaaaaaaaaaaaab", uint8(1))
	f.Add("s3cret?>~", "\"quoted\"", "czNjcmV0Pz5+ \\\"quoted\\\" %22quoted%22", uint8(5))
	f.Fuzz(func(t *testing.T, one, two, text string, size uint8) {
		var list []redact.Secret
		for i, s := range []string{one, two} {
			if v, err := secrets.ParseValue(s); err == nil && len(s) < 1<<10 {
				list = append(list, redact.Secret{Name: config.SecretName(rune('A' + i)), Value: v})
			}
		}
		if want, got := naive(list, text), pieces(t, list, text, func() int { return int(size) }); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	})
}

// TestManyAndLong checks that repetitive values cost neither time nor memory.
func TestManyAndLong(t *testing.T) {
	var list []redact.Secret
	for i := range redact.MaxSecrets + 1 {
		list = append(list, secret(t, fmt.Sprintf("S%d", i), strings.Repeat("a", secrets.MaxValueSize-1-i)+"b"))
	}
	s := redact.New(list[:3])
	if got := s.Text(strings.Repeat("a", 1<<20)); len(got) != 1<<20 {
		t.Errorf("%d bytes", len(got))
	}
	if got := s.Text(strings.Repeat("a", 1<<20) + "b"); len(got) > 1<<20-1000 || !strings.HasSuffix(got, "[REDACTED:S0]") {
		t.Errorf("%d bytes", len(got))
	}
	last := list[len(list)-1].Value.Reveal()
	for i := range list {
		list[i] = secret(t, fmt.Sprintf("S%d", i), fmt.Sprintf("value-number-%d", i))
	}
	list[redact.MaxSecrets] = secret(t, "LAST", last)
	s = redact.New(list)
	if got := s.Text("value-number-63 " + last); got != "[REDACTED:S63] "+last {
		t.Errorf("beyond the bound: %.80q", got)
	}
}
