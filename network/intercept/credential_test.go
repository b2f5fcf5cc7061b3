package intercept

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func login(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// S02: the value takes the place of the placeholder in the bound position, and nowhere else.
func TestS02PlaceholderPositions(t *testing.T) {
	bearer := Credential{}
	tests := map[string]struct {
		bind    []Credential
		target  string
		header  map[string]string
		want    map[string]string // what the server gets
		query   string
		refused string
	}{
		"bearer":            {bind: []Credential{bearer}, header: map[string]string{"Authorization": "Bearer " + placeholder}, want: map[string]string{"Authorization": "Bearer " + value}},
		"inside of a value": {bind: []Credential{bearer}, header: map[string]string{"Authorization": `Token token="` + placeholder + `", x=1`}, want: map[string]string{"Authorization": `Token token="` + value + `", x=1`}},
		"none":              {bind: []Credential{bearer}, header: map[string]string{"Authorization": "Bearer own"}, want: map[string]string{"Authorization": "Bearer own"}},
		"named header":      {bind: []Credential{{Key: "x-api-key"}}, header: map[string]string{"X-Api-Key": placeholder}, want: map[string]string{"X-Api-Key": value}},
		"query":             {bind: []Credential{{In: InQuery, Key: "key"}}, target: "/a?b=%zz&key=" + placeholder + "&c", query: "b=%zz&key=" + url.QueryEscape(value) + "&c"},
		"basic":             {bind: []Credential{{In: InBasic}}, header: map[string]string{"Authorization": login("me", placeholder)}, want: map[string]string{"Authorization": login("me", value)}},
		"basic user":        {bind: []Credential{{In: InBasic}}, header: map[string]string{"Authorization": login(placeholder, "")}, want: map[string]string{"Authorization": login(value, "")}},
		"bearer and basic":  {bind: []Credential{bearer, {In: InBasic}}, header: map[string]string{"Authorization": login("me", placeholder)}, want: map[string]string{"Authorization": login("me", value)}},

		"other header":      {bind: []Credential{bearer}, header: map[string]string{"X-Note": placeholder}, refused: "is in the header X-Note"},
		"path":              {bind: []Credential{bearer}, target: "/bot" + placeholder + "/send", refused: "is in the path"},
		"escaped path":      {bind: []Credential{bearer}, target: "/bot%6fsr_" + placeholder[4:], refused: "is in the path"},
		"query, not header": {bind: []Credential{bearer}, target: "/?access_token=" + placeholder, refused: "is in the parameter access_token"},
		"escaped query":     {bind: []Credential{bearer}, target: "/?t=%6fsr_" + placeholder[4:], refused: "is in the parameter t"},
		"parameter's name":  {bind: []Credential{bearer}, target: "/?" + placeholder, refused: "is in the name of a parameter"},
		"wrong parameter":   {bind: []Credential{{In: InQuery, Key: "key"}}, target: "/?a=1;key=" + placeholder, refused: "is in the parameter a"},
		"header, not query": {bind: []Credential{{In: InQuery, Key: "key"}}, header: map[string]string{"Authorization": "Bearer " + placeholder}, refused: "is in the header Authorization"},
		"basic, not bearer": {bind: []Credential{bearer}, header: map[string]string{"Authorization": login("me", placeholder)}, refused: "is in basic authentication"},
		"both right, wrong": {bind: []Credential{bearer}, target: "/?x=" + placeholder, header: map[string]string{"Authorization": "Bearer " + placeholder}, refused: "is in the parameter x"},
		"other host's":      {bind: []Credential{bearer}, header: map[string]string{"Authorization": "Bearer " + otherHolder}, refused: "OTHER_KEY is bound to other.example.org"},
	}
	for name, test := range tests {
		for _, major := range []int{1, 2} {
			t.Run(fmt.Sprint(name, major), func(t *testing.T) {
				l := newLab(t, true, nil)
				for _, c := range test.bind {
					l.bind(c)
				}
				if test.target == "" {
					test.target = "/"
				}
				res, page := l.do(l.client(major), "POST", test.target, "a body with "+placeholder, func(r *http.Request) {
					for key, text := range test.header {
						r.Header.Set(key, text)
					}
				})
				if test.refused != "" {
					if res.StatusCode != 403 || !strings.Contains(page, test.refused) || !strings.Contains(page, "change:  osaurus-sandbox secret set alice ") || len(l.arrived()) != 0 {
						t.Errorf("%d %s", res.StatusCode, page)
					}
					return
				}
				got := l.arrived()[0]
				for key, text := range test.want {
					if got.Header.Get(key) != text {
						t.Errorf("%s is %q, want %q", key, got.Header.Get(key), text)
					}
				}
				if _, query, _ := strings.Cut(got.Target, "?"); query != test.query {
					t.Errorf("the query is %q, want %q", query, test.query)
				}
				if got.Body != "a body with "+placeholder {
					t.Errorf("the body is %q", got.Body)
				}
			})
		}
	}
}

// S02: a host to which the secret is not bound never gets the value, and no body is changed.
func TestS02ValueArrivesAtTheBoundHostAlone(t *testing.T) {
	other := newLab(t, true, nil)
	other.options.Foreign = []Credential{{Secret: "GITHUB_TOKEN", Placeholder: placeholder, Hosts: []string{"api.github.com"}}}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, placeholder)
	z.Close()
	for _, major := range []int{1, 2} {
		c := other.client(major)
		for _, header := range []string{"Authorization", "X-Api-Key", "Cookie"} {
			res, page := other.do(c, "GET", "/", "", func(r *http.Request) { r.Header.Set(header, "x "+placeholder) })
			if res.StatusCode != 403 || !strings.Contains(page, "GITHUB_TOKEN is bound to api.github.com") {
				t.Errorf("%s: %d %s", header, res.StatusCode, page)
			}
		}
		for _, text := range []string{placeholder, packed.String()} {
			other.do(c, "POST", "/", text, nil)
			other.do(c, "POST", "/", text, func(r *http.Request) { r.ContentLength = -1 })
		}
	}
	if len(other.arrived()) != 8 {
		t.Errorf("the server got %d requests, want 8", len(other.arrived()))
	}
	for _, got := range other.arrived() {
		if text := fmt.Sprint(got); strings.Contains(text, value) || got.Body != placeholder && got.Body != packed.String() {
			t.Errorf("the server got %q", text)
		}
	}
}

func TestValueNeedsTLS(t *testing.T) {
	for _, cleartext := range []bool{false, true} {
		l := newLab(t, false, nil)
		l.bind(Credential{})
		l.options.Cleartext = cleartext
		res, page := l.do(l.client(1), "GET", "/", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+placeholder) })
		if sent := len(l.arrived()) == 1; sent != cleartext || !sent && (res.StatusCode != 403 || !strings.Contains(page, "not sent without TLS")) {
			t.Errorf("cleartext %v: %d %s", cleartext, res.StatusCode, page)
		}
	}
}

func TestValueThatCannotBeSent(t *testing.T) {
	for _, test := range []struct {
		value string
		err   error
		text  string
	}{{"two\r\nX-Evil: lines", nil, "characters that a header cannot have"}, {"", errors.New("the keyring is locked"), "the keyring is locked"}} {
		l := newLab(t, true, nil)
		l.bind(Credential{})
		l.options.Credentials[0].Value = func(context.Context) (string, error) { return test.value, test.err }
		res, page := l.do(l.client(1), "GET", "/", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+placeholder) })
		if res.StatusCode != 403 || !strings.Contains(page, test.text) || strings.Contains(page, "Evil") || len(l.arrived()) != 0 {
			t.Errorf("%d %s", res.StatusCode, page)
		}
	}
}

// N17: the agent cannot use somebody else's account at a host that requires ours.
func TestN17ForeignCredential(t *testing.T) {
	ours := "Bearer " + placeholder
	for name, test := range map[string]struct {
		in     Position
		key    string
		target string
		header map[string]string
		status int
	}{
		"ours":                {header: map[string]string{"Authorization": ours}, status: 200},
		"ours, odd form":      {header: map[string]string{"Authorization": `token token="` + placeholder + `"`}, status: 200},
		"none":                {status: 403},
		"theirs":              {header: map[string]string{"Authorization": "Bearer theirs"}, status: 403},
		"theirs and ours":     {header: map[string]string{"Authorization": "Bearer ghp_theirs0123456789 " + placeholder}, status: 403},
		"list":                {header: map[string]string{"Authorization": ours + ", Bearer theirs"}, status: 403},
		"other header":        {header: map[string]string{"Authorization": ours, "X-Api-Key": "theirs"}, status: 403},
		"parameter":           {target: "/?access_token=theirs", header: map[string]string{"Authorization": ours}, status: 403},
		"parameter with ;":    {target: "/?a=1;access_token=theirs", header: map[string]string{"Authorization": ours}, status: 403},
		"signed URL":          {target: "/?X-Amz-Signature=theirs", header: map[string]string{"Authorization": ours}, status: 403},
		"basic":               {header: map[string]string{"Authorization": login("them", "theirs")}, status: 403},
		"hidden":              {header: map[string]string{"Authorization": ours, "Connection": "close, authorization"}, status: 403},
		"key header":          {key: "X-Api-Key", header: map[string]string{"X-Api-Key": placeholder}, status: 200},
		"key header, theirs":  {key: "X-Api-Key", header: map[string]string{"X-Api-Key": "theirs"}, status: 403},
		"key and bearer":      {key: "X-Api-Key", header: map[string]string{"X-Api-Key": placeholder, "Authorization": "Bearer theirs"}, status: 403},
		"password":            {in: InBasic, header: map[string]string{"Authorization": login("me", placeholder)}, status: 200},
		"token as user":       {in: InBasic, header: map[string]string{"Authorization": login(placeholder, "x-oauth-basic")}, status: 200},
		"user ours, pw not":   {in: InBasic, header: map[string]string{"Authorization": login(placeholder, "theirs")}, status: 403},
		"password not ours":   {in: InBasic, header: map[string]string{"Authorization": login("me", "theirs")}, status: 403},
		"asked for password":  {in: InBasic, status: 401},
		"query":               {in: InQuery, key: "key", target: "/?key=" + placeholder, status: 200},
		"query, theirs":       {in: InQuery, key: "key", target: "/?key=theirs", status: 403},
		"query, both":         {in: InQuery, key: "key", target: "/?key=" + placeholder + "&key=theirs", status: 403},
		"query, with ;":       {in: InQuery, key: "key", target: "/?key=" + placeholder + "&a;key=theirs", status: 403},
		"cookies are dropped": {header: map[string]string{"Authorization": ours, "Cookie": "session=theirs"}, status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, true, nil)
			l.bind(Credential{In: test.in, Key: test.key, Require: true})
			if test.target == "" {
				test.target = "/"
			}
			res, page := l.do(l.client(1), "POST", test.target, "x", func(r *http.Request) {
				for key, text := range test.header {
					r.Header.Set(key, text)
				}
			})
			if res.StatusCode != test.status || (len(l.arrived()) == 1) != (test.status == 200) {
				t.Fatalf("%d %s", res.StatusCode, page)
			}
			if test.status != 200 && !strings.Contains(page, "accepts only the placeholder of GITHUB_TOKEN") {
				t.Error(page)
			}
			if test.status == 401 && !strings.HasPrefix(res.Header.Get("Www-Authenticate"), "Basic ") {
				t.Error(res.Header)
			}
			if test.status == 200 && strings.Contains(fmt.Sprint(l.arrived()), "theirs") {
				t.Error(l.arrived())
			}
		})
	}
}

// FuzzSubstitute checks that a value is where its placeholder was, in the bound position alone.
func FuzzSubstitute(f *testing.F) {
	f.Add(uint8(0), "Authorization", "Bearer "+placeholder, "a=1&key=x")
	f.Add(uint8(1), "X-Key", "x", "key="+placeholder+"&key=%6f")
	f.Add(uint8(2), "Authorization", login("me", placeholder), "")
	f.Add(uint8(2), "Authorization", "Basic "+placeholder, "a;key="+placeholder)
	f.Fuzz(func(t *testing.T, in uint8, key, text, query string) {
		c := Credential{Secret: "GITHUB_TOKEN", Placeholder: placeholder, In: Position(in % 3), Key: "key",
			Value: func(context.Context) (string, error) { return value, nil }}
		if c.In == InHeader {
			c.Key = ""
		}
		if strings.Contains(text+query, value) {
			t.Skip()
		}
		key = http.CanonicalHeaderKey(key)
		x := &exchange{proxy: &proxy{Options: Options{Name: host, TLS: true, Log: slog.New(slog.DiscardHandler), Credentials: []Credential{c}}}}
		r := &http.Request{Header: http.Header{key: {text}}, URL: &url.URL{Path: "/", RawQuery: query}}
		r = r.WithContext(t.Context())
		refused := x.credentials(r)
		got := r.Header[key][0]
		if refused != nil {
			return // it is not sent
		}
		plain, isBasic := basic(key, got)
		before, _ := basic(key, text)
		switch {
		case c.In == InHeader && key == "Authorization" && !isBasic:
			if got != strings.ReplaceAll(text, placeholder, value) {
				t.Errorf("%q became %q", text, got)
			}
		case c.In == InBasic && isBasic:
			if plain != strings.ReplaceAll(before, placeholder, value) {
				t.Errorf("%q became %q", before, plain)
			}
		case got != text:
			t.Errorf("the header %s changed from %q to %q", key, text, got)
		}
		if strings.Contains(got+plain, placeholder) || strings.Contains(unescape(r.URL.RawQuery), placeholder) && !strings.Contains(unescape(unescape(query)), "%") {
			t.Errorf("a placeholder is left in %q, %q", got, r.URL.RawQuery)
		}
		olds, news := strings.Split(query, "&"), strings.Split(r.URL.RawQuery, "&")
		if len(olds) != len(news) {
			t.Fatalf("the query %q became %q", query, r.URL.RawQuery)
		}
		for i, pair := range olds {
			name, old, _ := strings.Cut(pair, "=")
			want := pair
			if c.In == InQuery && unescape(name) == "key" && strings.Contains(unescape(old), placeholder) {
				want = name + "=" + url.QueryEscape(strings.ReplaceAll(unescape(old), placeholder, value))
			}
			if news[i] != want {
				t.Errorf("the parameter %q became %q", pair, news[i])
			}
		}
	})
}

// FuzzPaths checks that each reading of a path can be decoded by policy, and that parameters go.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"/", "/v1/x", "/v1/%2e%2e/x", "/v1/..;a=b/x", "//a\\b;c/d", "/%252e/", "/a%2Fb"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			t.Skip()
		}
		list := paths(u)
		if decoded, err := url.PathUnescape(list[0]); err != nil || decoded != u.Path || len(list) > 3 {
			t.Errorf("%q: %q %v", raw, list, err)
		}
		if last, _ := url.PathUnescape(list[len(list)-1]); strings.Contains(u.Path, ";") && strings.Contains(last, ";") {
			t.Errorf("%q: %q", raw, list)
		}
	})
}
