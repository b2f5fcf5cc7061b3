package toolstest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/tools"
)

// refresh writes the answers of a run instead of comparing them.
var refresh = flag.Bool("refresh", false, "write the answers of tools to testdata, to be reviewed as a diff")

// Case is a call whose answer is in a golden file.
type Case struct {
	Name string // what it shows: a heading
	Tool tools.Name
	Args string // JSON, in which JOB is the job that was started last
	// Wrong marks a call that a model should not have made. Its answer is in wrong-calls.md.
	Wrong bool
	// At is where it is made.
	At Place
	// With changes the call. Asked answers prompts during the call.
	With  func(*tools.Call)
	Asked func(*testing.T, *World)
}

// Place is an environment for calls.
type Place string

// The places. Distributions are called as in a pack's manifest.
const (
	Anywhere Place = ""       // where files are
	Room     Place = "room"   // where agents have rooms
	Debian   Place = "debian" // which has Python and apt
	Alpine   Place = "alpine" // the bare one, which has apk and no Python
	// Host is for large files, which would keep an emulated guest busy for seconds.
	Host Place = "host"
)

// Run makes the calls of these places in order and compares each answer with the golden files.
func Run(t *testing.T, w *World, places ...Place) {
	a := w.Agent(t, "ada", map[string]string{"autonomousExec.enabled": "true", "limits.diskMB": "16", "network": "none"})
	writeFiles(t, w.Home.AgentHome(a.Name))
	stock(t, w.Home)
	// Relative to the folders of the packages that call Run, all beside this one.
	right, wrong := open(t, "../toolstest/testdata/answers.md"), open(t, "../toolstest/testdata/wrong-calls.md")
	job := ""
	for _, c := range cases() {
		to := right
		if c.Wrong {
			to = wrong
		}
		if c.At != Anywhere && !slices.Contains(places, c.At) {
			to.write(c, to.want[c.Name])
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			call := tools.Call{Agent: a}
			if c.With != nil {
				c.With(&call)
			}
			if c.Asked != nil {
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					c.Asked(t, w)
				}()
				defer func() { <-answered }()
			}
			e := w.Tools.Call(t.Context(), call, string(c.Tool), json.RawMessage(strings.ReplaceAll(c.Args, "JOB", job)))
			text := e.Text()
			if id := jobID.FindStringSubmatch(text); id != nil {
				job = id[1]
			}
			if c.Wrong {
				kind(t, e)
			}
			to.hold(t, c, steady(text, job))
		})
	}
	right.finish(t)
	wrong.finish(t)
}

// kind reports an answer to a wrong call that does not help the caller.
func kind(t *testing.T, e tools.Envelope) {
	f := e.Failure
	switch {
	case f == nil && len(e.Warnings) == 0 && !told.MatchString(e.Text()):
		t.Errorf("nobody is told: %s", e.Text())
	case f != nil && f.Field != "" && f.Expected == "":
		t.Errorf("it does not say what is expected of %s: %s", f.Field, e.Text())
	case f != nil && f.Message == "":
		t.Errorf("it does not say why: %s", e.Text())
	}
}

var (
	// told matches help in an answer other than warnings.
	told = regexp.MustCompile(`"next":|"(idle_)?timed_out":true|"exit_code":[1-9]`)

	// What differs from run to run.
	jobID   = regexp.MustCompile(`"job_id":"([^"]+)"`)
	changes = regexp.MustCompile(`"(pid|started)":"[^"]+"`)
	// The messages of shells and programs differ between distributions.
	theirs = regexp.MustCompile(`"stderr":"(/bin/|sh: |cat: )(\\.|[^"\\])*"`)
)

// steady removes values that differ from run to run.
func steady(text, job string) string {
	if job != "" {
		text = strings.ReplaceAll(text, job, "JOB")
	}
	return theirs.ReplaceAllString(changes.ReplaceAllString(text, `"$1":"…"`), `"stderr":"…"`)
}

// book is a golden file with an answer below the heading of each case.
type book struct {
	path    string
	intro   string            // what stands before the first case
	want    map[string]string // by the name of a case
	tools   []tools.Name      // in the order in which they are written
	entries map[tools.Name]string
	seen    []string
}

// open reads a golden file.
func open(t *testing.T, path string) *book {
	t.Helper()
	b := &book{path: path, want: map[string]string{}, entries: map[tools.Name]string{}}
	text, err := os.ReadFile(b.path)
	if err != nil && !*refresh {
		t.Fatal(err)
	}
	b.intro, _, _ = strings.Cut(string(text), "\n## ")
	for part := range strings.SplitSeq(string(text), "\n### ") {
		name, rest, _ := strings.Cut(part, "\n")
		if entry, ok := strings.CutPrefix(strings.TrimSpace(rest), "```json\n"); ok {
			entry, _, _ = strings.Cut(entry, "\n```")
			b.want[name] = entry
		}
	}
	return b
}

// hold compares an answer with the golden file.
func (b *book) hold(t *testing.T, c Case, answer string) {
	t.Helper()
	entry := shorten(c.Args) + "\n" + shorten(answer)
	b.write(c, entry)
	if !*refresh && b.want[c.Name] != entry {
		t.Errorf("%s answers\n%s\n%s has (refresh it with go test -run TestRooms/Debian/Tools ./supervisor/boot -refresh)\n%s", c.Tool, entry, filepath.Base(b.path), b.want[c.Name])
	}
}

// write adds a case to the file.
func (b *book) write(c Case, entry string) {
	b.seen = append(b.seen, c.Name)
	if b.entries[c.Tool] == "" {
		b.tools = append(b.tools, c.Tool)
	}
	b.entries[c.Tool] += "\n### " + c.Name + "\n\n```json\n" + entry + "\n```\n"
}

// finish writes the file, or reports entries without a case.
func (b *book) finish(t *testing.T) {
	t.Helper()
	if *refresh {
		text := b.intro
		for _, tool := range b.tools {
			text += "\n## " + string(tool) + "\n" + b.entries[tool]
		}
		if err := os.WriteFile(b.path, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
		return
	}
	for name := range b.want {
		if !slices.Contains(b.seen, name) {
			t.Errorf("%s: nobody makes the call %q", filepath.Base(b.path), name)
		}
	}
}

// shorten cuts the middle out of long texts, which repeat one character.
func shorten(text string) string {
	const most, end = 2000, 200
	if len(text) > most {
		return fmt.Sprintf("%s… %d more …%s", text[:end], len(text)-2*end, text[len(text)-end:])
	}
	return text
}
