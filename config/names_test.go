package config

import (
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestNames(t *testing.T) {
	as := func(n int) string { return strings.Repeat("a", n) }
	for _, tc := range []struct {
		what      string
		parse     func(string) error
		good, bad []string
	}{
		{what: "AgentName", parse: check(ParseAgentName), good: []string{"a", "alice", "0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e", as(64)}, bad: []string{"Alice", "-a", "a-", "a_b", as(65)}},
		{what: "AgentID", parse: check(ParseAgentID), good: []string{"0B7C3D5E-9F1A-4C1E-8A55-0F6A1B2C3D4E", "0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e"}, bad: []string{"0b7c3d5e9f1a4c1e8a550f6a1b2c3d4e", "0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4g", "{0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e}"}},
		{what: "SecretName", parse: check(ParseSecretName), good: []string{"OPENAI_API_KEY", "_x", as(128)}, bad: []string{"1A", "A-B", "A=B", as(129)}},
		{what: "PluginID", parse: check(ParsePluginID), good: []string{"python-data-tools", "a.b_c", "1"}, bad: []string{"a/b", "a..", "A", "a;b", as(65)}},
		{what: "PackName", parse: check(ParsePackName), good: []string{"alpine-3.24.1-amd64", "mine"}, bad: []string{"A", "~", as(65)}},
		{what: "PackageName", parse: check(parsePackageName), good: []string{"g++", "py3-pip", "libstdc++6"}, bad: []string{"a=1", "a@edge", "!a", as(129)}},
		{what: "MountName", parse: check(ParseMountName), good: []string{"app", "My.App_2"}, bad: []string{"..", ".git", "a/b", as(65)}},
		{what: "SessionID", parse: check(ParseSessionID), good: []string{"default", "system", "Chat_1.2", "0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e", as(64)}, bad: []string{"_a", "a/b", "a:b", as(65)}},
		{what: "SnapshotName", parse: check(ParseSnapshotName), good: []string{"clean", "v1.2_b-c", "before-install-20261127-120000", as(64)}, bad: []string{"A", "a/b", "a:b", as(65)}},
		{what: "CallID", parse: check(ParseCallID), good: []string{"1", as(64)}, bad: []string{"-x", "a/b", as(65)}},
		{what: "JobID", parse: check(ParseJobID), good: []string{as(32), "0123456789abcdef0123456789abcdef"}, bad: []string{as(31), as(33), strings.Repeat("A", 32), strings.Repeat("g", 32)}},
		{what: "PackRef", parse: check(ParsePackRef), good: []string{"auto", "debian", "/srv/pack.tar.zst"}, bad: []string{"./a", "/a/../b", "/a/", "/a\x00"}},
		{what: "SecretStore", parse: check(parseSecretStore), good: []string{"keychain", "secret-service", "file"}, bad: []string{"auto", "Keychain", "plain"}},
		{what: "MirrorURL", parse: check(parseMirrorURL), good: []string{"http://10.0.2.2:8080/alpine", "https://[::1]/a", "https://a.org"}, bad: []string{"ftp://a.org", "https://", "https://u:p@a.org", "https://a.org?x", "https://a.org/#x", "https://a.org\nx"}},
	} {
		for _, name := range tc.good {
			if err := tc.parse(name); err != nil {
				t.Errorf("%s refuses %q: %v", tc.what, name, err)
			}
		}
		for _, name := range append(tc.bad, "", ".", "..", "../a", "-a", ".a", "a b", "a\n", "a\x00", "é", "a\u202eb") {
			if err := tc.parse(name); fault.KindOf(err) != fault.InvalidArgs || err == nil || fault.AdviceOf(err) == "" {
				t.Errorf("%s takes %q: %v", tc.what, name, err)
			}
		}
	}
}

func check[T ~string](parse func(string) (T, error)) func(string) error {
	return func(s string) error { _, err := parse(s); return err }
}
