package tools

import (
	"context"
	_ "embed" // for the files below
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// codeTime is the longest and the default run time of code, in seconds. It is generous because
// code may call slow tools.
const codeTime = 300

var (
	// codeModule is the module osaurus_tools that code can import. It runs on Python 3.9 and
	// later.
	//go:embed osaurus_tools.py
	codeModule string
	// codeRunner runs the code and deletes its temporary files.
	//go:embed runcode.sh
	codeRunner string
)

// noPython is all that the runner writes to standard error if the room has no Python.
const noPython = "osaurus: there is no python3"

type codeIn struct {
	Code    string `json:"code" jsonschema:"Python 3; what it prints is the result" limit:"minlen=1"`
	Cwd     string `json:"cwd,omitempty" jsonschema:"the folder to run it in; relative to the home folder, which is the default"`
	Timeout int    `json:"timeout,omitempty" jsonschema:"seconds after which it is ended" limit:"min=1,max=300,default=300"`
}

type codeOut struct {
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	ExitCode  int    `json:"exit_code" jsonschema:"1 if an exception ended it, 128 + n if signal n did"`
	ToolCalls int    `json:"tool_calls" jsonschema:"how many tools it called"`
	Cwd       string `json:"cwd"`

	TimedOut  bool   `json:"timed_out,omitempty"`
	Limit     string `json:"limit,omitempty" jsonschema:"the agent's limit that it reached: oom, pids or quota"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"the middle of the output was left out"`
}

// newCode makes sandbox_execute_code.
func newCode(rooms Rooms) Tool {
	return inRoom(rooms, Spec{
		Name: "sandbox_execute_code", Title: "Run Python that calls tools", Gate: Exec, Counted: true, Budget: codeTime*time.Second + bootTime,
		Hints: Hints{Destructive: true, OpenWorld: true},
		Description: `Run Python in your sandbox that can call the tools itself: for three or more calls with logic between them, of which you need only the end. ` +
			`from osaurus_tools import read_file, write_file, edit_file, search_files, terminal, share_artifact. They take what the tools take and return their result as a dict ` +
			`(read_file("a.txt")["content"], terminal("ls")["stdout"]); what goes wrong raises SandboxToolError. At most 50 calls. Print what you need to know. ` +
			`What it starts ends with it, but for terminal(..., background=True).`,
	}, func(ctx context.Context, c *Call, in codeIn) (codeOut, error) {
		dir, err := c.folder("cwd", in.Cwd)
		if err != nil {
			return codeOut{}, err
		}
		if strings.ContainsRune(in.Code, 0) {
			return codeOut{}, wrongArgument("code", "a text without NUL characters", `the argument "code" holds a NUL character`)
		}
		return runCode(ctx, c, in, dir)
	})
}

func runCode(ctx context.Context, c *Call, in codeIn, dir string) (codeOut, error) {
	id, end := c.registry.scripts.begin(ctx, *c)
	defer end()
	ran, err := Run(ctx, c.room, engine.Command{
		Args: []string{"/bin/sh", "-c", codeRunner, "sh", codeModule, noPython}, Env: append(environment(c.Agent), "OSAURUS_SCRIPT_ID="+string(id)), Dir: dir,
		Stdin: strings.NewReader(in.Code), Timeout: time.Duration(in.Timeout) * time.Second,
	})
	if err != nil {
		return codeOut{}, wrongFolder(err, in.Cwd, dir)
	}
	if ran.Stderr == noPython+"\n" && ran.Stdout == "" {
		return codeOut{}, &Failure{Kind: fault.Unavailable, Message: `there is no python3 in your sandbox: call sandbox_install with packages ["python3"], and then this once more`}
	}
	return codeOut{
		Stdout: ran.Stdout, Stderr: ran.Stderr, ExitCode: ran.ExitCode, ToolCalls: end(), Cwd: dir,
		TimedOut: ran.TimedOut, Limit: ran.Limit, Truncated: ran.Truncated,
	}, nil
}
