package boot_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osaurus-sandbox/engine"
)

var updateRefusals = flag.Bool("update-refusals", false, "write what programs print when they are refused to testdata")

// Each form of a refusal, as URLs for an agent who may only reach what rules name.
const (
	aPage      = "http://refused.example/"
	anAlert    = "https://refused.example/"
	aReset     = "http://refused.example:81/"
	prohibited = "http://192.168.1.10:81/"
	noName     = "http://gone.wild.example/"
)

// refusedClient is a program that is refused in each form.
type refusedClient struct {
	name, needs string
	script      string   // prints a line "== NAME TARGET" and what follows, for each of "$@"
	targets     []string // nil is each form
}

// refusedClients are programs as people run them, without pauses and time-outs that a busy
// computer meets. The slowest is first. What takes seconds to start asks for all targets at once.
func refusedClients() []refusedClient {
	const (
		python = "python3 -c 'import sys, traceback\n"
		loop   = "for url in sys.argv[1:]:\n  print(\"==\", \"NAME\", url, flush=True)\n"
		reason = "  except Exception as e: print(traceback.format_exception_only(e)[-1])\n' \"$@\""
	)
	ssh := []string{"-p 443 refused.example", "refused.example", "192.168.1.10", "gone.wild.example"}
	return []refusedClient{
		{"npm", "npm", `each 'node --jitless --single-threaded "$(command -v npm)" ping --fetch-retries=0 --no-update-notifier --registry "$u"' "$@"`, []string{aPage, anAlert, aReset}},
		{"curl", "curl", `each 'curl -sS "$u"' "$@"`, nil},
		{"curl -f", "curl", `each 'curl -fsS "$u"' "$@"`, nil},
		{"wget", "wget", `each 'wget -O /dev/null "$u" | cat' "$@"`, nil}, // cat waits for busybox's ssl_client
		{"git", "git", `each 'git ls-remote "$u"' "$@"`, nil},
		{"urllib", "python3", python + "import urllib.request\n" + loop + "  try: urllib.request.urlopen(url)\n" + reason, nil},
		{"requests", "python3", python + "import pip._vendor.requests as requests\n" + loop + "  try: requests.get(url).raise_for_status()\n" + reason, nil},
		{"pip", "pip3", python + "from pip._internal.cli.main import main\n" + loop +
			`  main("--no-cache-dir --disable-pip-version-check download --no-deps --retries 1 --timeout 300 --trusted-host refused.example --trusted-host gone.wild.example --trusted-host 192.168.1.10 six --index-url".split() + [url])` +
			"\n' \"$@\"", nil},
		{"fetch", "node", `node -e '(async () => { for (const url of process.argv.slice(1)) { console.log("== NAME", url); await fetch(url).then(
			async a => console.log(a.status, a.statusText, await a.text()), e => console.log(e.message, e.cause.code, e.cause.message)) } })()' "$@"`, nil},
		{"Go", "./intruder", `./intruder get "== NAME" "$@"`, nil},
		{"apt", "apt-get", `each 'd=$(mktemp -d) && mkdir -p "$d"/lists/partial && echo "deb [trusted=yes] $u stable main" >"$d"/list && apt-get -o Dir::Etc::sourcelist="$d"/list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$d"/lists ` +
			`-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= -o Acquire::Retries=0 -o Acquire::http::Timeout=300 -o Acquire::https::Timeout=300 update' "$@"`, nil},
		{"apk", "/sbin/apk", `each '/sbin/apk --repositories-file /dev/null --repository "$u" --no-cache update >/dev/null' "$@"`, nil},
		{"ssh", "ssh", `each 'ssh -T -F none -o BatchMode=yes -o StrictHostKeyChecking=no $u' "$@"`, ssh},
	}
}

// clients checks what programs print when they are refused, in each form. The texts are in testdata.
func (s *gatewaySuite) clients(t *testing.T, distribution string) {
	list := refusedClients()
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

const (
	guestCPUs = 2 // how many programs run at a time
	// clientPatience is twenty times what npm takes for all of its targets.
	clientPatience = 15 * time.Minute
)

// client runs one program, and returns what it prints, or nothing if the distribution has none.
func (s *gatewaySuite) client(t *testing.T, c refusedClient) string {
	t.Helper()
	targets := c.targets
	if targets == nil {
		targets = []string{aPage, anAlert, aReset, prohibited, noName}
	}
	const prelude = `exec 2>&1; command -v "$0" >/dev/null || exit 0; each() { c=$1; shift; for u; do echo "== NAME $u"; eval "$c"; done; }; `
	script := strings.ReplaceAll(prelude+c.script, "NAME", c.name)
	var out bytes.Buffer
	exit, err := engine.Run(t.Context(), s.tenants[allowAgent].Room, engine.Command{
		Args: slices.Concat([]string{"sh", "-c", script, c.needs}, targets), Env: []string{"LC_ALL=C", "NO_COLOR=1", "RES_OPTIONS=timeout:30"},
		RoomRoot: c.name == "apk", Stdout: &out, Timeout: clientPatience,
	})
	if err != nil || exit.TimedOut {
		t.Errorf("%s: %+v %v\n%s", c.name, exit, err, &out)
	}
	if strings.Contains(strings.ToLower(out.String()), "timed out") {
		t.Errorf("%s waits for a time-out: %s", c.name, &out)
	}
	text := steady(out.String())
	if c.name == "wget" {
		text = sortedAnswers(text)
	}
	return text
}

// sortedAnswers sorts the lines below each target: busybox's wget and its ssl_client write at the same time.
func sortedAnswers(text string) string {
	lines := slices.Collect(strings.Lines(text))
	for from := 0; from < len(lines); {
		to := from + 1
		for to < len(lines) && !strings.HasPrefix(lines[to], "== ") {
			to++
		}
		slices.Sort(lines[from+1 : to])
		from = to
	}
	return strings.Join(lines, "")
}

// steady cuts what differs between runs: times, addresses that stand for names, and files.
func steady(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		for _, v := range []struct{ pattern, with string }{
			{`^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--`, "--DATE--"}, {`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d `, "DATE "}, {`\b198\.18\.\d+\.\d+`, "HELD"},
			{`after \d+ ms`, "after N ms"}, {`0x[0-9a-f]{6,}`, "0xN"}, {`\b[0-9A-F]{12,16}:error`, "N:error"}, {`/\S*_logs/\S*`, "LOG"}, {`\b(amd64|arm64)\b`, "ARCH"},
			{`\d{4}-\d\d-\d\dT[\d_:-]+`, "DATE"}, {`[\w./-]*\.c:\d+`, "FILE"}, {`OpenSSL/[\d.]+`, "OpenSSL"},
			{`^Ign:.*|^Warning: disabling flag .*`, ""}, {`IO ERROR$|network error .*|could not connect to server .*`, "NETWORK ERROR"}, {`^(Err|Get):\d+`, "$1"}, {`^npm error     at .*`, ""},
		} {
			line = regexp.MustCompile(v.pattern).ReplaceAllString(line, v.with)
		}
		if line != "" {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}
