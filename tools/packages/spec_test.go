package packages

import (
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		manager Manager
		good    []string
		bad     []string
	}{
		{APK,
			[]string{"jq", "jq=1.7.1-r0", "jq~1.7", "jq~=1.7", "jq<2", "jq>=1.7", "jq@edge", "jq@edge>1", "g++", "gtk+3.0", "py3-pip", "7zip"},
			[]string{".virtual", "!jq", "jq=", "jq==1", "jq;id", "jq.apk", "a.apk=1", "/tmp/jq", "cmd:jq", "jq=$(id)", "@edge", "jq@", "jq><1"}},
		{APT,
			[]string{"jq", "jq=1.6-2.1", "libc6:arm64", "libc6:any=2.36-9+deb12u9", "g++", "libstdc++6", "python3.11", "xz=1:2.3~rc1-1"},
			[]string{"jq-", "jq=1-", "jq=1+", "JQ", "j", "jq/stable", "./jq.deb", "jq.deb", "task^", "?essential", "~nvim", "jq:", "jq=", "-jq", "jq:amd64-", "jq*"}},
		{Pip,
			[]string{"requests", "requests==2.31.0", "requests>=2,<3", "Requests[socks,security]~=2.0", "zope.interface", "a", "x===1.0+local", "x!=1.*", "torch==2.0+cpu"},
			[]string{"-r", "requests;python_version<'3'", "git+https://x/y", "x @ https://x/y", "./x", "x/y", "x.zip", "x.tar.gz", "x.WHL", "x==1+a.zip", "x[", "x[]", "x[a", "x>", "x=1", "x>=1,", "_x", "x-", "requests@1"}},
		{NPM,
			[]string{"left-pad", "left-pad@1.3.0", "typescript@^5", "@types/node@latest", "x@>=1 <2", "x@1 - 2", "x@1 || 2", "JSONStream", "x@*", "x@~1.2", "x@1.0.0-rc.1+b"},
			[]string{"user/repo", "github:user/repo", "x@npm:y", "x@file:y", "x@./y", "x@git+ssh://y", "x@y/z", "https://x/y.tgz", "x.tgz", "x@1.tgz", "x@a.tar.gz", "./x", "../x", "~/x", "@x", "@x/", "@/x", "x@", "x@--y", "x y", ".x", "_x", "x@1  2"}},
	} {
		for _, text := range tc.good {
			if spec, err := Parse(tc.manager, " "+text+" "); err != nil || string(spec) != text {
				t.Errorf("%s %q: %q %v", tc.manager, text, spec, err)
			}
		}
		for _, text := range append(tc.bad, "", "  ", "--force", "-x", "a\nb", "a\x00", "ä", "a b\tc", "a;b", "a'b", "a`b`", strings.Repeat("a", maxSpec+1), "\xff") {
			if spec, err := Parse(tc.manager, text); fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
				t.Errorf("%s %q: %q %v", tc.manager, text, spec, err)
			}
		}
	}
	for _, m := range []Manager{APK, APT, Pip, NPM} {
		if _, err := Parse(m, "jq,tree"); err == nil || !strings.Contains(err.Error(), apart) {
			t.Errorf("%s: %v", m, err)
		}
	}
	if spec, err := Parse(Pip, "uvicorn [standard, x] >= 0.30 , < 1"); spec != "uvicorn[standard,x]>=0.30,<1" {
		t.Errorf("%q %v", spec, err)
	}
}

// Parse accepts nothing that a manager reads as an option, address or path, and it accepts its own
// results.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"jq", "jq=1.7-r0", "libc6:arm64", "requests[socks]>=2,<3", "@types/node@^20 || 21", "-x", "x.tgz", "a/../b", "x@npm:y"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range []Manager{APK, APT, Pip, NPM} {
			spec, err := Parse(m, text)
			if err != nil {
				continue
			}
			got := string(spec)
			if again, err := Parse(m, got); err != nil || again != spec {
				t.Errorf("%s %q, again: %q %v", m, got, again, err)
			}
			path := strings.ContainsAny(got, "/\\")
			if m == NPM && strings.HasPrefix(got, "@") {
				path = strings.Count(got, "/") != 1 || strings.Contains(got, "\\")
			}
			if path || got == "" || len(got) > maxSpec || strings.HasPrefix(got, "-") || strings.HasPrefix(got, ".") || strings.Contains(got, "://") ||
				m != APT && strings.Contains(got, ":") || m == APT && strings.HasSuffix(got, "-") ||
				m != NPM && strings.Contains(got, " ") || strings.ContainsAny(got, "\x00\n\t'\"`$;&()#%") {
				t.Errorf("%s lets %q through as %q", m, text, got)
			}
		}
	})
}
