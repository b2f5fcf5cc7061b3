package boot_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"osaurus-sandbox/engine"
)

var updateRefusals = flag.Bool("update-refusals", false, "write what programs print when they are refused to testdata")

// refusalForms are the forms of a refusal, as URLs for an agent who may only reach what rules name.
func refusalForms() []struct{ name, url string } {
	return []struct{ name, url string }{
		{"page", "http://refused.example/"},
		{"alert", "https://refused.example/"},
		{"reset", "http://refused.example:81/"},
		{"prohibited", "http://192.168.1.10:81/"},
		{"name", "http://gone.wild.example/"},
	}
}

// refusedClients are programs and how each asks for the URL in $1. They try once, where they would
// try again with pauses.
func refusedClients() []struct{ name, needs, script string } {
	return []struct{ name, needs, script string }{
		{"curl", "curl", `curl -sS "$1"`},
		{"curl -f", "curl", `curl -fsS "$1"`},
		{"wget", "wget", `wget -O /dev/null "$1"`},
		{"git", "git", `git ls-remote "$1"`},
		{"urllib", "python3", `python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' "$1" 2>&1 | tail -n 1`},
		{"requests", "python3", `python3 -c 'import pip._vendor.requests' 2>/dev/null || exit 99; python3 -c 'import sys, pip._vendor.requests as r; r.get(sys.argv[1]).raise_for_status()' "$1" 2>&1 | tail -n 1`},
		{"pip", "pip3", `pip3 --no-cache-dir --disable-pip-version-check download --no-deps --retries 1 --trusted-host refused.example --trusted-host gone.wild.example --trusted-host 192.168.1.10 --index-url "$1" six`},
		{"npm", "npm", `npm view left-pad --fetch-retries=0 --registry "$1"`},
		{"fetch", "node", `node -e 'fetch(process.argv[1]).then(async a => console.log(a.status, a.statusText, await a.text()), e => console.log(e.message, e.cause.code, e.cause.message))' "$1"`},
		{"apt", "apt-get", `d=$(mktemp -d) && mkdir -p "$d"/lists/partial && echo "deb [trusted=yes] $1 stable main" >"$d"/list && apt-get -o Dir::Etc::sourcelist="$d"/list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$d"/lists -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= -o Acquire::Retries=0 update`},
		{"apk", "/sbin/apk", `/sbin/apk --wait 60 --repositories-file /dev/null --repository "$1" --no-cache update 2>&1 >/dev/null`},
	}
}

// refusedClient is a program that is refused in one form.
type refusedClient struct{ name, form, needs, script, url string }

// allRefusedClients lists each program with each form.
func allRefusedClients() (list []refusedClient) {
	for _, c := range refusedClients() {
		for _, form := range refusalForms() {
			list = append(list, refusedClient{c.name, form.name, c.needs, c.script, form.url})
		}
	}
	const ssh = `ssh -T -F none -o BatchMode=yes -o StrictHostKeyChecking=no `
	for _, form := range []struct{ name, to string }{{"disconnect", "-p 443 refused.example"}, {"reset", "refused.example"}, {"prohibited", "192.168.1.10"}, {"name", "gone.wild.example"}} {
		list = append(list, refusedClient{"ssh", form.name, "ssh", ssh + form.to, ""})
	}
	return list
}

// clients checks what programs print when they are refused, in each form. The texts are in testdata.
func (s *gatewaySuite) clients(t *testing.T, distribution string) {
	list := allRefusedClients()
	said := make([]string, len(list))
	var next atomic.Int64
	var running sync.WaitGroup
	for range guestCPUs {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				said[i] = s.client(t, list[i])
			}
		})
	}
	running.Wait()
	got, golden := strings.Join(said, ""), filepath.Join("testdata", "refusals-"+distribution+".txt")
	if *updateRefusals {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("programs print\n%s\nwant\n%s", got, want)
	}
}

// guestCPUs is how many programs run at a time.
const guestCPUs = 2

// client runs one program, and returns what it prints, or nothing if the distribution has none.
func (s *gatewaySuite) client(t *testing.T, c refusedClient) string {
	t.Helper()
	var out bytes.Buffer
	const none = 99
	exit, err := engine.Run(t.Context(), s.tenants[allowAgent].Room, engine.Command{
		Args: []string{"sh", "-c", fmt.Sprintf("command -v %s >/dev/null || exit %d\n%s", c.needs, none, c.script), "sh", c.url}, Env: []string{"LC_ALL=C", "NO_COLOR=1"}, RoomRoot: c.name == "apk", Stdout: &out, Stderr: &out, Timeout: probePatience,
	})
	switch {
	case err != nil || exit.TimedOut:
		t.Errorf("%s, %s: %+v %v\n%s", c.name, c.form, exit, err, &out)
	case exit.Code == none && out.Len() == 0:
		return ""
	case strings.Contains(strings.ToLower(out.String()), "timed out"):
		t.Errorf("%s waits for a time-out with %s: %s", c.name, c.form, &out)
	}
	return fmt.Sprintf("== %s, %s\n%s\n", c.name, c.form, steady(out.String()))
}

// steady cuts what differs between runs: times, addresses that stand for names, and files.
func steady(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		for _, v := range []struct{ pattern, with string }{
			{`^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--`, "--DATE--"}, {`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d `, "DATE "}, {`\b198\.18\.\d+\.\d+`, "HELD"},
			{`after \d+ ms`, "after N ms"}, {`0x[0-9a-f]{6,}`, "0xN"}, {`\b[0-9A-F]{12,16}:error`, "N:error"}, {`/\S*_logs/\S*`, "LOG"},
			{`\d{4}-\d\d-\d\dT[\d_:-]+`, "DATE"}, {`[\w./-]*\.c:\d+`, "FILE"}, {`OpenSSL/[\d.]+`, "OpenSSL"},
			{`^Ign:.*|^Waiting for repository lock`, ""}, {`IO ERROR$|network error .*`, "NETWORK ERROR"}, {`^(Err|Get):\d+`, "$1"}, {`^npm error     at .*`, ""},
		} {
			line = regexp.MustCompile(v.pattern).ReplaceAllString(line, v.with)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
