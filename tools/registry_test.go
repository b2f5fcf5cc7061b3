package tools

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

type echoed struct {
	Text string `json:"text"`
}

func echo(spec Spec, err error) Tool {
	return Define(spec, func(_ context.Context, c *Call, in echoed) (echoed, error) {
		if in.Text == "panic" {
			panic("on purpose")
		}
		if in.Text == "warn" {
			c.Warn("be careful")
		}
		return in, err
	})
}

func alice() Call {
	s := config.AgentDefaults()
	s.AutonomousExec, s.MaxCommandsPerTurn = true, 2
	return Call{Agent: Agent{ID: "A", Name: "alice", Settings: s}}
}

func answer(t *testing.T, r *Registry, c Call, name, args string) string {
	t.Helper()
	return r.Call(t.Context(), c, name, json.RawMessage(args)).Text()
}

func TestEnvelopes(t *testing.T) {
	more := map[string]any{"exit_code": 3, "ok": true, "kind": "mine", "tool": "mine"}
	r := NewRegistry(slog.New(slog.DiscardHandler),
		echo(Spec{Name: "echo"}, nil),
		echo(Spec{Name: "fails"}, fault.Newf(fault.NotFound, "open", "/x", "not there").Advise("Look elsewhere.")),
		echo(Spec{Name: "knows"}, &Failure{Kind: fault.Execution, Message: "no", Final: true, More: more}),
		echo(Spec{Name: "counted", Gate: Exec, Counted: true}, nil),
		echo(Spec{Name: "maker", Gate: Plugins}, nil),
	)
	off := alice()
	off.Settings.AutonomousExec = false
	for _, tc := range []struct {
		name       string
		call       Call
		tool, args string
		want       string
	}{
		{"it went well", alice(), "echo", `{"text":"<&>"}`, `{"ok":true,"result":{"text":"<&>"},"tool":"echo"}`},
		{"with a warning", alice(), "echo", `{"text":"warn"}`, `{"ok":true,"result":{"text":"warn"},"tool":"echo","warnings":["be careful"]}`},
		{"it failed", alice(), "fails", `{"text":""}`, `{"ok":false,"kind":"not_found","message":"open /x: not there. Look elsewhere.","retryable":false,"tool":"fails"}`},
		{"it failed and knows more", alice(), "knows", `{"text":""}`, `{"ok":false,"exit_code":3,"kind":"execution_error","message":"no","retryable":false,"tool":"knows"}`},
		{"a wrong argument", alice(), "echo", `{}`, `{"ok":false,"expected":"a string","field":"text","kind":"invalid_args","message":"the argument \"text\" is missing","retryable":true,"tool":"echo"}`},
		{"no such tool", alice(), "nothing", `{}`, `{"ok":false,"kind":"tool_not_found","message":"there is no tool \"nothing\". Call one of those that are listed.","retryable":false}`},
		{"a shut gate", off, "counted", `{"text":""}`, `{"ok":false,"kind":"rejected","message":"counted is off for this agent: its setting autonomousExec.enabled is false. A person can change that: osaurus-sandbox agent set alice autonomousExec.enabled=true","retryable":false,"tool":"counted"}`},
		{"a panic", alice(), "echo", `{"text":"panic"}`, `{"ok":false,"kind":"execution_error","message":"call echo: internal error; see the daemon's log","retryable":true,"tool":"echo"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := answer(t, r, tc.call, tc.tool, tc.args); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestGates(t *testing.T) {
	r := NewRegistry(slog.New(slog.DiscardHandler), echo(Spec{Name: "c-read", Lean: true}, nil), echo(Spec{Name: "b-exec", Gate: Exec}, nil), echo(Spec{Name: "a-make", Gate: Plugins}, nil))
	listed := func(exec, plugins bool, p Profile) string {
		var names []string
		for _, tool := range r.List(Agent{Settings: config.AgentSettings{AutonomousExec: exec, PluginCreate: plugins}}, p) {
			names = append(names, string(tool.Name))
		}
		return strings.Join(names, " ")
	}
	for _, tc := range []struct {
		exec, plugins bool
		profile       Profile
		want          string
	}{
		{false, false, Full, "c-read"}, {false, true, Full, "c-read"}, {true, false, Full, "b-exec c-read"}, {true, true, Full, "a-make b-exec c-read"}, {true, true, Lean, "c-read"},
	} {
		if got := listed(tc.exec, tc.plugins, tc.profile); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
	changed := r.Changed()
	r.Add(echo(Spec{Name: "d-read"}, nil))
	<-changed
	if got := listed(true, true, Full); got != "a-make b-exec c-read d-read" {
		t.Errorf("after Add: %s", got)
	}
}

func TestTurns(t *testing.T) {
	r := NewRegistry(slog.New(slog.DiscardHandler), echo(Spec{Name: "run", Counted: true}, nil))
	refused := func(c Call) bool { return strings.Contains(answer(t, r, c, "run", `{"text":""}`), `"kind":"rejected"`) }
	in := func(turn string) Call { c := alice(); c.Turn = turn; return c }
	for i, tc := range []struct {
		turn    string
		refused bool
	}{{"one", false}, {"one", false}, {"one", true}, {"two", false}, {"one", true}, {"", false}, {"", false}, {"", false}} {
		if got := refused(in(tc.turn)); got != tc.refused {
			t.Errorf("call %d, in turn %q: refused %v", i, tc.turn, got)
		}
	}
	bob := in("one")
	bob.ID = "B"
	if refused(bob) {
		t.Error("the turn of another agent was counted")
	}
	if got := answer(t, r, in("wrong"), "run", `{}`); !strings.Contains(got, "invalid_args") || refused(in("wrong")) || refused(in("wrong")) {
		t.Error("a call with wrong arguments was counted")
	}
}

func TestBudget(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		stuck := Define(Spec{Name: "stuck", Budget: time.Minute}, func(ctx context.Context, _ *Call, _ echoed) (echoed, error) {
			<-ctx.Done()
			return echoed{}, ctx.Err()
		})
		began := time.Now()
		got := answer(t, NewRegistry(slog.New(slog.DiscardHandler), stuck), alice(), "stuck", `{"text":""}`)
		if took := time.Since(began); took != time.Minute+budgetSlack || !strings.Contains(got, `"kind":"timeout"`) {
			t.Errorf("after %v: %s", took, got)
		}
	})
}

// A call that times out while the guest starts is reported as unavailable.
func TestPending(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		stuck := Define(Spec{Name: "stuck", Budget: time.Minute}, func(ctx context.Context, c *Call, _ echoed) (echoed, error) {
			c.Say("waiting")
			<-ctx.Done()
			return echoed{}, ctx.Err()
		})
		r := NewRegistry(slog.New(slog.DiscardHandler), stuck)
		r.Starting = func(Agent) Starting { return booting{} }
		var told []string
		call := alice()
		call.Tell = func(p Progress) { told = append(told, p.Text) }
		got := answer(t, r, call, "stuck", `{"text":""}`)
		const want = `{"ok":false,"kind":"unavailable","message":"the sandbox is still starting (boot), which goes on meanwhile: call again in a minute","reason":"sandbox_init_pending","retryable":true,"tool":"stuck"}`
		if got != want || len(told) != 2 {
			t.Errorf("%s, told %q", got, told)
		}
	})
}

// booting is a guest that never starts.
type booting struct{}

func (booting) Pending() string { return "boot" }

func (booting) Follow(ctx context.Context, tell func(Progress)) {
	tell(Progress{Text: "boot"})
	<-ctx.Done()
}

func TestRedaction(t *testing.T) {
	type nested struct {
		List []echoed          `json:"list"`
		Map  map[string]string `json:"map"`
		N    int64             `json:"n"`
	}
	secret := func(context.Context, *Call, echoed) (nested, error) {
		return nested{[]echoed{{"my hunter22"}}, map[string]string{"a": "hunter22!"}, 1 << 53}, nil
	}
	r := NewRegistry(slog.New(slog.DiscardHandler), Define(Spec{Name: "tells"}, secret),
		echo(Spec{Name: "fails"}, &Failure{Kind: fault.Execution, Message: "hunter22", More: map[string]any{"output": "hunter22"}}))
	r.Redactor = func(context.Context, Agent) Redact {
		return func(text string) string { return strings.ReplaceAll(text, "hunter22", "[REDACTED:KEY]") }
	}
	if got := answer(t, r, alice(), "tells", `{"text":""}`); got != `{"ok":true,"result":{"list":[{"text":"my [REDACTED:KEY]"}],"map":{"a":"[REDACTED:KEY]!"},"n":9007199254740992},"tool":"tells"}` {
		t.Error(got)
	}
	quotes := func(context.Context, *Call, echoed) (map[string]string, error) {
		return map[string]string{"hunter22": `"hunter22": <\` + "\n", "z": ":hunter22"}, nil // keys are not redacted
	}
	r.Add(Define(Spec{Name: "quotes"}, quotes))
	if got := answer(t, r, alice(), "quotes", `{"text":""}`); got != `{"ok":true,"result":{"hunter22":"\"[REDACTED:KEY]\": <\\\n","z":":[REDACTED:KEY]"},"tool":"quotes"}` {
		t.Error(got)
	}
	for _, refused := range []struct{ tool, args string }{
		{"fails", `{"text":""}`}, {"hunter22", `{}`}, {"fails", `{"hunter22":""}`}, {"fails", `{"text":{"hunter22":1}}`}, {"fails", `["hunter22"]`},
	} {
		if got := answer(t, r, alice(), refused.tool, refused.args); strings.Contains(got, "hunter") || !strings.Contains(got, `"ok":false`) {
			t.Error(got)
		}
	}
	if got := answer(t, r, alice(), "fails", `{"hunter22":""}`); strings.Count(got, "[REDACTED:KEY]") != 2 {
		t.Error(got)
	}
	if got := answer(t, r, alice(), "fails", `{"text":""}`); strings.Count(got, "[REDACTED:KEY]") != 2 {
		t.Error(got)
	}
}

func TestWarningsOfFailures(t *testing.T) {
	e := Envelope{Tool: "t", Failure: &Failure{Kind: fault.Timeout, Message: "late", More: map[string]any{"warnings": 1}}}
	if got, want := e.Text(), `{"ok":false,"kind":"timeout","message":"late","retryable":true,"tool":"t"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	e.Warnings = []string{"no checkpoint"}
	if got := e.Text(); !strings.HasSuffix(got, `,"tool":"t","warnings":["no checkpoint"]}`) {
		t.Errorf("got %s", got)
	}
}
