package secrets_test

import (
	"fmt"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
)

func TestParseBinding(t *testing.T) {
	for _, tc := range []struct {
		in   secrets.Binding
		want string // empty is an error
	}{
		{secrets.Binding{Hosts: []string{"API.Example.org", "b.example.org", "api.example.org"}}, "api.example.org, b.example.org (header Authorization)"},
		{secrets.Binding{Hosts: []string{"a.example"}, Key: "X-Api-Key", Require: true}, "a.example (header X-Api-Key, required)"},
		{secrets.Binding{Hosts: []string{"a.example"}, In: secrets.InQuery, Key: "key"}, "a.example (query key)"},
		{secrets.Binding{Hosts: []string{"a.example"}, In: secrets.InBasic}, "a.example (basic)"},
		{secrets.Binding{}, ""},
		{secrets.Binding{Hosts: make([]string, secrets.MaxHosts+1)}, ""},
		{secrets.Binding{Hosts: []string{"*.example.org"}}, ""},
		{secrets.Binding{Hosts: []string{"*"}}, ""},
		{secrets.Binding{Hosts: []string{"localhost"}}, ""},
		{secrets.Binding{Hosts: []string{"@github"}}, ""},
		{secrets.Binding{Hosts: []string{"10.0.0.1"}}, ""},
		{secrets.Binding{Hosts: []string{"a.example:443"}}, ""},
		{secrets.Binding{Hosts: []string{"https://a.example"}}, ""},
		{secrets.Binding{Hosts: []string{"a.example path=/x"}}, ""},
		{secrets.Binding{Hosts: []string{"a.example"}, In: "body"}, ""},
		{secrets.Binding{Hosts: []string{"a.example"}, In: secrets.InQuery}, ""},
		{secrets.Binding{Hosts: []string{"a.example"}, In: secrets.InBasic, Key: "k"}, ""},
		{secrets.Binding{Hosts: []string{"a.example"}, Key: "X\r\nY: z"}, ""},
		{secrets.Binding{Hosts: []string{"a.example"}, Key: strings.Repeat("x", 129)}, ""},
	} {
		b, err := tc.in.Parse()
		if got := b.String(); (err == nil) != (tc.want != "") || err == nil && got != tc.want {
			t.Errorf("%+v: %q, %v; want %q", tc.in, got, err, tc.want)
		}
		if err != nil && (fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "") {
			t.Errorf("%+v: %s", tc.in, fmt.Sprint(err))
		}
	}
}
