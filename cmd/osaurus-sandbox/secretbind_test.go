package main

import (
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestBindingFlags(t *testing.T) {
	for _, tc := range []struct {
		flags    bindingFlags
		in, key  string
		mistaken bool
	}{
		{flags: bindingFlags{}},
		{flags: bindingFlags{hosts: []string{"a.example"}}, in: "header", key: "Authorization"},
		{flags: bindingFlags{hosts: []string{"a.example"}, header: "X-Api-Key", require: true}, in: "header", key: "X-Api-Key"},
		{flags: bindingFlags{hosts: []string{"a.example"}, query: "key"}, in: "query", key: "key"},
		{flags: bindingFlags{hosts: []string{"a.example"}, basic: true}, in: "basic"},
		{flags: bindingFlags{header: "X-Api-Key"}, mistaken: true},
		{flags: bindingFlags{require: true}, mistaken: true},
		{flags: bindingFlags{hosts: []string{"*"}}, mistaken: true},
	} {
		b, err := tc.flags.binding()
		if tc.mistaken {
			if fault.KindOf(err) != fault.InvalidArgs {
				t.Errorf("%+v: %v, %v", tc.flags, b, err)
			}
			continue
		}
		if err != nil || (b != nil) != (len(tc.flags.hosts) > 0) || b.GetIn() != tc.in || b.GetKey() != tc.key || b.GetRequire() != tc.flags.require {
			t.Errorf("%+v: %v, %v", tc.flags, b, err)
		}
	}
}
