package toolstest

import (
	"testing"

	"osaurus-sandbox/supervisor/prompts"
)

func execCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_exec", Args: args, At: Room} }
	wrong := func(name, args string) Case { c := of(name, args); c.Wrong = true; return c }
	return []Case{
		of("Run a command", `{"command":"echo out; echo err >&2"}`),
		of("Run one that fails", `{"command":"exit 3","cwd":"src"}`),
		of("Run one with much output", `{"command":"head -c 60000 /dev/zero | tr '\\0' x"}`),
		of("Run one that a signal ends", `{"command":"mkfifo /tmp/pipe; kill -9 $$"}`),
		{Name: "A pipe", Tool: "sandbox_read_file", Args: `{"path":"/tmp/pipe"}`, Wrong: true, At: Room},

		wrong("Run nothing", `{"command":""}`),
		wrong("Run a program that is not there", `{"command":"no-such-program"}`),
		wrong("Run in a folder that is not there", `{"command":"true","cwd":"source"}`),
		wrong("Run in a file", `{"command":"true","cwd":"notes.md"}`),
		wrong("Run in a folder of the person's computer", `{"command":"true","cwd":"/Users/me/project"}`),
		wrong("Run for too long", `{"command":"sleep 1000","timeout":1}`),
		wrong("Run without a word for too long", `{"command":"sleep 1000","idle_timeout":1}`),
		wrong("A timeout that is longer than the longest", `{"command":"echo done","timeout":3600}`),
		wrong("A NUL character in a command", `{"command":"echo a\u0000b"}`),
		wrong("A path of the person's computer in a command", `{"command":"cat '/Users/me/notes.md'"}`),
		wrong("A pipe that finds nothing", `{"command":"cat notes.md | grep cheese || true"}`),
		wrong("Install packages in a command", `{"command":"false && pip install requests"}`),
		wrong("A here-document without an end", `{"command":"sh -c 'cat >note <<END\nhello\n' 2>/dev/null; false"}`),
		wrong("A quote without a partner", `{"command":"echo 'it"}`),
	}
}

func sessionCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_exec", Args: args, At: Room} }
	return []Case{
		of("Run in a session", `{"command":"cd src; KEPT=1","session":"work"}`),
		of("Run in it again", `{"command":"echo $KEPT","session":"work"}`),
		of("Run beside it", `{"command":"echo \"<$KEPT>\"","session":"work","fresh":true}`),
		{Name: "A name that no session can have", Tool: "sandbox_exec", Args: `{"command":"true","session":"my work/1"}`, Wrong: true, At: Room},
		{Name: "An idle timeout in a session", Tool: "sandbox_exec", Args: `{"command":"echo done","session":"work","idle_timeout":5}`, Wrong: true, At: Room},
		{Name: "Leave the session's shell", Tool: "sandbox_exec", Args: `{"command":"exit 4 2>/dev/null","session":"work"}`, At: Room},
		{Name: "What was set in a shell that has ended", Tool: "sandbox_exec", Args: `{"command":"echo \"<$KEPT>\"","session":"work"}`, Wrong: true, At: Room},
	}
}

func processCases() []Case {
	of := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_process", Args: args, At: Room} }
	wrong := func(name, args string) Case { c := of(name, args); c.Wrong = true; return c }
	return []Case{
		{Name: "Run in the background", Tool: "sandbox_exec", Args: `{"command":"exec sleep 1000","background":true}`, At: Room},
		{Name: "Run in the background in a session", Tool: "sandbox_exec", Args: `{"command":"echo done; exit 5","background":true,"session":"work"}`, Wrong: true, At: Room},
		of("Wait for a job", `{"action":"wait","job_id":"JOB"}`),
		of("Read the output of a job", `{"action":"tail","job_id":"JOB"}`),
		of("See how a job is", `{"action":"poll","job_id":"JOB","tail_lines":0}`),
		{Name: "Run one more in the background", Tool: "sandbox_exec", Args: `{"command":"exec sleep 1000","background":true}`, At: Room},
		wrong("Wait for a job that does not end", `{"action":"wait","job_id":"JOB","timeout":1}`),
		of("Kill a job", `{"action":"kill","job_id":"JOB"}`),
		wrong("Kill a job that has ended", `{"action":"kill","job_id":"JOB"}`),

		wrong("No such job", `{"action":"poll","job_id":"web-server"}`),
		wrong("A process that is no job", `{"action":"kill","pid":"1"}`),
		wrong("Poll without a job", `{"action":"poll"}`),
		wrong("An action that is none", `{"action":"stop","job_id":"JOB"}`),
	}
}

func secretCases() []Case {
	check := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_secret_check", Args: args} }
	set := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_secret_set", Args: args} }
	wrong := func(c Case) Case { c.Wrong = true; return c }
	return []Case{
		check("Look for a secret that is not there", `{"key":"API_KEY"}`),
		set("Keep a secret", `{"key":"API_KEY","description":"for the weather","instructions":"weather.example, account","value":"hunter-2222"}`),
		check("Look for it again", `{"key":"API_KEY"}`),
		wrong(check("A name that no secret can have", `{"key":"my key"}`)),
		wrong(set("Keep a secret without saying what for", `{"key":"API_KEY","value":"x"}`)),
		wrong(set("Keep a secret with a NUL character", `{"key":"API_KEY","description":"d","instructions":"i","value":"a\u0000b"}`)),
		{Name: "A person does not give the secret", Tool: "sandbox_secret_set", Wrong: true, Args: `{"key":"OTHER_KEY","description":"for the weather","instructions":"weather.example, account"}`,
			Asked: func(t *testing.T, w *World) {
				for list := range w.Prompts.Watch(t.Context()) {
					for _, p := range list {
						if p.State != prompts.Waiting {
							continue
						}
						if _, _, err := w.Prompts.Cancel(t.Context(), p.ID, "a person"); err != nil {
							t.Error(err)
						}
						return
					}
				}
			}},
	}
}

func historyCases() []Case {
	undo := func(name, args string) Case { return Case{Name: name, Tool: "sandbox_undo", Args: args, Wrong: true} }
	return []Case{
		{Name: "List what calls changed, before there are any", Tool: "sandbox_history", Args: `{}`},
		undo("Undo a call, before there are any", `{}`),
		undo("Undo a call that was never made", `{"call":99}`),
	}
}
