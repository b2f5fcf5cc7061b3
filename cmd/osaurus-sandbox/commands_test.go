package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/doctor"
)

// Nothing is destroyed while the question waits, and Ctrl-C leaves it.
func TestConfirmInterrupted(t *testing.T) {
	term := onTerminal(t, []string{config.HomeVariable + "=" + t.TempDir()}, "reset")
	term.press("Reset? [y/N]", "\x03")
	hangs := time.AfterFunc(2*seenWithin, func() { _ = term.cmd.Process.Kill() })
	defer hangs.Stop()
	if code, shown := term.end(); code != exitInterrupted+int(syscall.SIGINT) || !strings.Contains(shown, "ended by a signal: interrupt") {
		t.Errorf("%d, %q", code, shown)
	}
}

// JSON contains empty fields.
func TestJSONHasWhatIsEmpty(t *testing.T) {
	var list, line bytes.Buffer
	if err := printJSON(&list, &controlpb.ListAgentsResponse{}); err != nil || list.String() != "{\n  \"agents\": []\n}\n" {
		t.Errorf("%v, %s", err, list.String())
	}
	if err := printJSONLine(&line, &controlpb.LogsResponse{Source: "daemon"}); err != nil || line.String() != `{"source":"daemon","text":"","level":""}`+"\n" {
		t.Errorf("%v, %s", err, line.String())
	}
}

// A tool's allowed values may be numbers and booleans.
func TestDescribeChoices(t *testing.T) {
	var out bytes.Buffer
	err := printTool(&out, &controlpb.Tool{Name: "t", InputSchema: `{"properties": {"a": {"type": "integer", "enum": [1, 20000000]}, "b": {"enum": [true]}, "c": {"enum": ["x", "y"], "description": "which"}}}`})
	for _, want := range []string{"1 | 20000000", "true", "x | y  which"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("no %q: %s, %v", want, &out, err)
		}
	}
}

// A failed tool's output is shown with a mark, to set it apart from this program's.
func TestFailedToolIsShown(t *testing.T) {
	var out, stderr strings.Builder
	err := printEnvelope(console{nil, &out, &stderr}, "git_log", `{"ok":false,"kind":"execution_error","message":"it failed with exit code 2: stderr says why","stdout":"one\n","stderr":"no\u001b[2J such\nfile"}`, false)
	if fault.KindOf(err) != fault.Execution || out.String() != "" || stderr.String() != "  | one\n  | no·[2J such\n  | file\n" {
		t.Errorf("%v, %q, %q", err, out.String(), stderr.String())
	}
}

func TestDoctor(t *testing.T) {
	t.Setenv(config.HomeVariable, filepath.Join(t.TempDir(), "home"))
	code, out, said := sandbox(t, "doctor", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Ready || len(r.Findings) == 0 {
		t.Errorf("doctor --json: %d, %v\n%s%s", code, err, out, said)
	}

	bin := t.TempDir()
	for _, machine := range []string{"x86_64", "aarch64"} {
		if err := os.WriteFile(filepath.Join(bin, "qemu-system-"+machine), []byte("#!/bin/sh\necho QEMU emulator version 5.2.0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "linux" {
		return // macOS does not use QEMU
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	code, out, said = sandbox(t, "doctor")
	if code != fault.ExitUnavailable || !strings.Contains(out, "version 5.2 is too old") || !strings.Contains(out, "fix: ") || !strings.Contains(said, "setup is required") {
		t.Errorf("doctor with an old QEMU: %d\n%s%s", code, out, said)
	}
}

// burning reports that alice uses one processor and receives 1,000 bytes a second, and bob the same
// once he has a room.
type burning struct {
	controlpbconnect.AgentsClient
	alice, bob time.Time
}

func (b burning) Usage(context.Context, *controlpb.AgentUsageRequest) (*controlpb.AgentUsageResponse, error) {
	r := &controlpb.AgentUsageResponse{Running: true, Time: timestamppb.Now()}
	for name, since := range map[string]time.Time{"alice": b.alice, "bob": b.bob} {
		if ran := time.Since(since); ran >= 0 {
			r.Agents = append(r.Agents, &controlpb.AgentUsage{
				Agent: name, Cpu: durationpb.New(ran), Received: uint64(1000 * ran.Seconds()), Since: timestamppb.New(since),
			})
		}
	}
	return r, nil
}

// The first table has correct rates, also for a room that was just made.
func TestTopHasRatesAtOnce(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		client := &control.Client{Agents: burning{alice: time.Now().Add(-time.Hour), bob: time.Now().Add(500 * time.Millisecond)}}
		var out bytes.Buffer
		began := time.Now()
		var ticks [][]usage
		err := watchTop(t.Context(), &out, client, "", 10*time.Second, 2, func(w io.Writer, before, now *controlpb.AgentUsageResponse) error {
			ticks = append(ticks, usages(before, now))
			return plainTop(w, before, now)
		})
		if took := time.Since(began); err != nil || took != maxFirst+10*time.Second {
			t.Fatalf("%v, after %v", err, took)
		}
		if len(ticks) != 2 || len(ticks[0]) != 2 {
			t.Fatalf("%+v", ticks)
		}
		for _, a := range ticks[0] {
			want := map[string]float64{"alice": 1, "bob": .5}[a.Agent]
			if a.cpu != want || a.received != 1000*want {
				t.Errorf("at the first look: %+v", a)
			}
		}
		for _, a := range ticks[1] {
			if a.cpu != 1 || a.received != 1000 {
				t.Errorf("at the second look: %+v", a)
			}
		}
		if !strings.Contains(out.String(), "100%") {
			t.Errorf("%s", &out)
		}
	})
}

func TestPlaces(t *testing.T) {
	for _, tc := range []struct {
		use  string
		want []string // for the first four arguments
	}{
		{"status", []string{"", "", "", ""}},
		{"ps [AGENT]", []string{"AGENT", "", "", ""}},
		{"exec {AGENT | --root} [flags] -- COMMAND [ARG...]", []string{"AGENT", "COMMAND", "ARG", "ARG"}},
		{"verify AGENT [PLUGIN...]", []string{"AGENT", "PLUGIN", "PLUGIN", "PLUGIN"}},
		{"diff PLUGIN [FROM [TO]]", []string{"PLUGIN", "FROM", "TO", ""}},
		{"save ARTIFACT [FOLDER | -]", []string{"ARTIFACT", "FOLDER", "", ""}},
		{"call AGENT TOOL [JSON | KEY=VALUE...]", []string{"AGENT", "TOOL", "JSON", ""}},
	} {
		p := placesOf(tc.use)
		got := []string{p.at(0), p.at(1), p.at(2), p.at(3)}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.use, got, tc.want)
		}
	}
}

// Every command has a summary, an example of its own, and JSON. helpText has no other sections.
func TestHelp(t *testing.T) {
	commands := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := cmd.CommandPath()
		commands++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q is no title", path, cmd.Short)
		}
		if !strings.Contains(cmd.Example, path) {
			t.Errorf("%s: the examples are of something else: %s", path, cmd.Example)
		}
		otherOutput := slices.Contains([]string{"boot", "shell", "serve", "mcp"}, cmd.Name())
		if !cmd.HasSubCommands() && !otherOutput && cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", path)
		}
	}
	walk(newRoot(console{}))
	if sections := len(helpSections(helpText)); sections != commands {
		t.Errorf("%d sections of help for %d commands", sections, commands)
	}
	shows(t, "Exit codes:", "--help")
	shows(t, "autoRestart: true or false (default true)\n", "config", "set", "--help")
}
